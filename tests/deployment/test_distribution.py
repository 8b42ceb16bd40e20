"""template-cdn.yaml, the distribution in front of the bucket: permissions, caching, and the object of each path."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stoppress.aws import bucket
from stoppress.aws.clients import client
from stoppress.model.file_names import CACHE_FRESH, CACHE_SHARD, INDEX_FILE, NEWS_FILE, file_name, headers
from stoppress.poll import fetch_feeds
from stoppress_cli.local import resources
from stoppress_cli.local.permissions import Ask, Permissions
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, Resolver, load, parse_yaml
from tests.support.article_events import HOST
from tests.support.moto_aws import BUCKET, opened

pytestmark = pytest.mark.deployed

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
CDN_TEMPLATE = TEMPLATE.with_name("template-cdn.yaml")
DOCUMENT = Path(__file__).parents[2] / "docs/how-to/serve.md"
WORKER = DOCUMENT.with_name("sitemaps-worker.js")
STACK = load(CDN_TEMPLATE)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FRESH_S, SHARD_S = (int(header.rpartition("=")[2]) for header in (CACHE_FRESH, CACHE_SHARD))
READERS = [f"arn:aws:cloudfront::{account}:distribution/E1" for account in (ACCOUNT, "210987654321")]
WITH_READERS = {"ReaderDistributionArns": ",".join(READERS)}
SHARED = {"FileAges", "FileHeaders", "FilePaths"}
NODE = shutil.which("node")


def properties(name: str) -> Any:
    return STACK.resources[name]["Properties"]


def may(parameters: dict[str, str], reader: str, action: str, service: str = "cloudfront.amazonaws.com") -> bool:
    running = resources.resolve(load(TEMPLATE, parameters))
    [bucket] = [resource.arn for resource in running if resource.type == "AWS::S3::Bucket"]
    target = bucket if action == "s3:ListBucket" else f"{bucket}/{HOST}/{INDEX_FILE}"
    return Permissions(running).service_may(service, reader, Ask(action, target))


def behaviours() -> Iterator[dict[str, Any]]:
    config = properties("Distribution")["DistributionConfig"]
    yield config["DefaultCacheBehavior"]
    yield from config.get("CacheBehaviors", [])


@pytest.mark.parametrize(
    ("domain", "expected"),
    [("", SHARED), ("news.s3.eu-west-1.amazonaws.com", SHARED | {"Distribution", "BucketAccess"})],
    ids=["no_bucket", "bucket"],
)
def test_without_a_bucket_the_stack_creates_only_parts_for_your_distribution(domain: str, expected: set[str]) -> None:
    stack = load(CDN_TEMPLATE, {"BucketDomain": domain})
    resolver = Resolver(stack, {}, "stoppress-cdn")

    assert expected == {
        name
        for name, resource in stack.resources.items()
        if "Condition" not in resource or resolver.holds(resource["Condition"])
    }


def test_the_distribution_accepts_the_bucket_domain_of_the_main_stack() -> None:
    main, cdn = (parse_yaml(path.read_text(encoding="utf-8")) for path in (TEMPLATE, CDN_TEMPLATE))
    pattern = cdn["Parameters"]["BucketDomain"]["AllowedPattern"]

    assert main["Outputs"]["BucketDomain"]["Value"] == {"Fn::GetAtt": ["Bucket", "RegionalDomainName"]}
    assert re.fullmatch(pattern, "stoppress-bucket-1a2b.s3.eu-west-1.amazonaws.com")
    assert re.fullmatch(pattern, "stoppress-bucket-1a2b.s3.cn-north-1.amazonaws.com.cn")
    assert not re.fullmatch(pattern, "www.example.com")


def test_the_local_stack_runs_with_distributions_that_read_the_bucket() -> None:
    with Stack(TEMPLATE, WITH_READERS) as stack:
        stack.rest()


@pytest.mark.parametrize("reader", READERS)
def test_a_distribution_may_only_read_files(reader: str) -> None:
    refused = ("s3:ListBucket", "s3:PutObject", "s3:DeleteObject", "s3:GetObjectVersion")

    assert may(WITH_READERS, reader, "s3:GetObject")
    assert not [action for action in refused if may(WITH_READERS, reader, action)]


def test_no_other_principal_reads_the_bucket() -> None:
    other = f"arn:aws:cloudfront::{ACCOUNT}:distribution/E9"

    assert not [reader for reader in READERS if may({}, reader, "s3:GetObject")]
    assert not may(WITH_READERS, other, "s3:GetObject")
    assert not may(WITH_READERS, READERS[0], "s3:GetObject", service="logging.s3.amazonaws.com")


def test_every_request_to_the_bucket_is_signed_and_cannot_list_it() -> None:
    access = properties("BucketAccess")["OriginAccessControlConfig"]
    [origin] = properties("Distribution")["DistributionConfig"]["Origins"]
    function = {"EventType": "viewer-request", "FunctionARN": {"Fn::GetAtt": ["FilePaths", "FunctionARN"]}}

    assert (access["SigningBehavior"], access["SigningProtocol"]) == ("always", "sigv4")
    assert origin["OriginAccessControlId"] == {"Ref": "BucketAccess"}
    assert origin["S3OriginConfig"] == {"OriginAccessIdentity": ""}
    for behaviour in behaviours():
        assert behaviour["ViewerProtocolPolicy"] == "https-only"
        assert set(behaviour["AllowedMethods"]) == {"GET", "HEAD"}
        assert behaviour["FunctionAssociations"] == [function]
        assert "OriginRequestPolicyId" not in behaviour  # a query string could request a listing


def test_a_file_is_cached_once_for_its_max_age_and_a_missing_one_briefly() -> None:
    ages = properties("FileAges")["CachePolicyConfig"]
    errors = properties("Distribution")["DistributionConfig"]["CustomErrorResponses"]
    kept = {error["ErrorCode"]: error["ErrorCachingMinTTL"] for error in errors}

    assert ages["MinTTL"] <= FRESH_S
    assert ages["DefaultTTL"] == FRESH_S, "a file without a header may be a news sitemap"
    assert ages["MaxTTL"] == max(FRESH_S, SHARD_S)
    assert {403, 404} <= kept.keys()
    assert all(seconds <= FRESH_S for seconds in kept.values())
    assert all(each["CachePolicyId"] == {"Ref": "FileAges"} and each["Compress"] is True for each in behaviours())
    assert ages["ParametersInCacheKeyAndForwardedToOrigin"] == {
        "EnableAcceptEncodingBrotli": True,
        "EnableAcceptEncodingGzip": True,
        "CookiesConfig": {"CookieBehavior": "none"},
        "HeadersConfig": {"HeaderBehavior": "none"},
        "QueryStringsConfig": {"QueryStringBehavior": "none"},
    }


def test_the_distribution_removes_the_buckets_metadata_except_for_poll_feeds() -> None:
    policy = properties("FileHeaders")["ResponseHeadersPolicyConfig"]
    removed = {item["Header"] for item in policy["RemoveHeadersConfig"]["Items"]}
    with opened(NOON):
        bucket.write(HOST, NEWS_FILE, b"", *headers(NEWS_FILE), replaces=None, changed=NOON, config="0")
        noted = client("s3").head_object(Bucket=BUCKET, Key=f"{HOST}/{NEWS_FILE}")["Metadata"]

    assert {f"x-amz-meta-{name}" for name in noted} - removed == {fetch_feeds._OWN_HEADER}
    # No header affects the publisher's own host.
    assert set(policy["SecurityHeadersConfig"]) == {"ContentTypeOptions"}
    assert "CustomHeadersConfig" not in policy


def test_names_of_cloudfront_contain_stack_and_region() -> None:
    configs = {"BucketAccess": "OriginAccessControlConfig", "FileAges": "CachePolicyConfig"}
    configs["FileHeaders"] = "ResponseHeadersPolicyConfig"
    names = [properties(name)[config]["Name"] for name, config in configs.items()] + [properties("FilePaths")["Name"]]

    assert names == [{"Fn::Sub": "${AWS::StackName}-${AWS::Region}"}] * 4


# ── the function: its JavaScript, run by node ─────────────────────────────────────────────────────────────────────────────

needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed; it runs the distribution's function")
RUN = "\nconst events = JSON.parse(require('fs').readFileSync(0)); console.log(JSON.stringify(events.map(handler)));"


def rewrite(*paths: str, host: str = "d111111abcdef8.cloudfront.net", query: str = "") -> list[dict[str, Any]]:
    """Return the function's results for requests of these paths."""
    common = {"method": "GET", "headers": {"host": {"value": host}}, "cookies": {}}
    common["querystring"] = {query: {"value": ""}} if query else {}
    return run(properties("FilePaths")["FunctionCode"] + RUN, [{"request": common | {"uri": path}} for path in paths])


def run(code: str, events: Any) -> list[dict[str, Any]]:
    """Return a script's JSON output; it reads `given` from its standard input."""
    assert NODE
    script = [NODE, "--input-type=commonjs", "-e", code]
    done = subprocess.run(script, input=json.dumps(events), capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    printed: list[dict[str, Any]] = json.loads(done.stdout)
    return printed


@needs_node
def test_a_path_is_the_object_of_its_host() -> None:
    files = [INDEX_FILE, NEWS_FILE, file_name("news", 2), file_name("2026-11", 1), file_name("2026-11-20", 10)]
    assert [path["uri"] for path in rewrite(*(f"/{HOST}/{file}" for file in files))] == [
        f"/{HOST}/{file}" for file in files
    ]

    paths = rewrite("/sitemap.xml", "/harbour.example.net/sitemap.xml", host="WWW.Example.com", query="list-type")
    assert [path["uri"] for path in paths] == ["/www.example.com/sitemap.xml", "/harbour.example.net/sitemap.xml"]
    assert [path["querystring"] for path in paths] == [{}, {}]


@needs_node
def test_other_paths_are_404_before_they_reach_the_bucket() -> None:
    of_host = (f"/{HOST}/", f"/{HOST}//sitemap.xml", f"/{HOST}/sitemap.xml/")
    others = ("/", "", "//", "//sitemap.xml", "/sitemap.xml\n", "/..", "/../sitemap.xml", "/%2e%2e/sitemap.xml")
    for answer in rewrite(*of_host, *others, "/.well-known/sitemap.xml", "/a/b/sitemap.xml"):
        assert answer == {"statusCode": 404, "statusDescription": "Not Found"}


# ── the Worker of the document, with a `fetch` that only returns its request ──────────────────────────────────────────────

CALL_WORKER = """
global.fetch = async (request, options) => new Response(JSON.stringify(typeof request === "string"
  ? {url: request, method: options.method, headers: Object.fromEntries(options.headers), kept: options.cf.cacheEverything}
  : {site: request.url}));
const [{url, method, headers}] = JSON.parse(require("fs").readFileSync(0));
worker.fetch(new Request(url, {method, headers})).then(async (answer) => {
  const body = answer.status === 200 ? await answer.json() : {};
  console.log(JSON.stringify([{status: answer.status, ...body}]));
});
"""


def through_the_worker(url: str, method: str = "GET", **headers: str) -> dict[str, Any]:
    code = WORKER.read_text(encoding="utf-8").replace("export default", "const worker =") + CALL_WORKER
    [answer] = run(code, [{"url": url, "method": method, "headers": headers}])
    return answer


@needs_node
@pytest.mark.parametrize("host", [HOST, "harbour.example.net"])
def test_the_worker_fetches_a_file_from_its_hosts_folder_and_passes_conditions_only(host: str) -> None:
    answer = through_the_worker(f"https://{host}/sitemap-news.xml?x=1", cookie="a=b", **{"if-none-match": '"1"'})

    assert answer == {
        "status": 200,
        "url": f"https://d111111abcdef8.cloudfront.net/{host}/sitemap-news.xml",
        "method": "GET",
        "headers": {"if-none-match": '"1"'},
        "kept": True,
    }


@needs_node
@pytest.mark.parametrize("url", ["https://elsewhere.example.org/sitemap.xml", f"https://{HOST}/a/sitemap.xml"])
def test_the_worker_passes_other_paths_to_the_site(url: str) -> None:
    assert through_the_worker(url) == {"status": 200, "site": url}


@needs_node
def test_the_worker_allows_only_get_and_head() -> None:
    assert through_the_worker(f"https://{HOST}/sitemap.xml", "POST")["status"] == 405


# ── the document ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_lists_every_parameter_and_output_of_serving() -> None:
    main, cdn = (parse_yaml(path.read_text(encoding="utf-8")) for path in (TEMPLATE, CDN_TEMPLATE))
    document = DOCUMENT.read_text(encoding="utf-8")
    assert {"ReaderDistributionArns", "BucketDomain"} <= main["Parameters"].keys() | main["Outputs"].keys()

    for name in {"ReaderDistributionArns", *cdn["Parameters"], *cdn["Outputs"]}:
        assert re.search(rf"\b{name}\b", document), name
