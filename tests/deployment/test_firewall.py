"""template-firewall.yaml, the distribution with a firewall in front of the webhooks, and its settings in template.yaml."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stoppress_cli.local import resources
from stoppress_cli.local.template import Json, load, parse_yaml
from tests.docs.pages import text_of

pytestmark = pytest.mark.deployed

ROOT = Path(__file__).parents[2]
DOCUMENT: Json = parse_yaml((ROOT / "template-firewall.yaml").read_text(encoding="utf-8"))
STACK = load(ROOT / "template.yaml")
API_DOMAIN = "d-a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com"
# AWS's list of managed policies: the numbers are the same in every account.
CACHING_DISABLED = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
ALL_VIEWER = "216adef6-5c7f-47e4-b989-5492eafa07d3"
# Managed rules that look at the sender's address alone. Others read the body, and refuse HTML or more than 8 KB there.
OF_ADDRESSES = {"AWSManagedRulesAmazonIpReputationList"}


def properties(name: str) -> Any:
    return DOCUMENT["Resources"][name]["Properties"]


def stages() -> dict[str, Json]:
    return {
        name: resource["Properties"]
        for name, resource in STACK.resources.items()
        if resource["Type"] == "AWS::ApiGatewayV2::Stage"
    }


def test_every_request_passes_the_firewall_and_nothing_is_kept_or_changed() -> None:
    config = properties("Distribution")["DistributionConfig"]
    behaviour = config["DefaultCacheBehavior"]
    [origin] = config["Origins"]

    assert config["WebACLId"] == {"Fn::GetAtt": ["Firewall", "Arn"]}
    assert "CacheBehaviors" not in config
    assert behaviour["CachePolicyId"] == CACHING_DISABLED
    assert behaviour["OriginRequestPolicyId"] == ALL_VIEWER
    assert "POST" in behaviour["AllowedMethods"]
    assert behaviour["ViewerProtocolPolicy"] == origin["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"


def test_the_firewall_limits_each_address_and_reads_no_article() -> None:
    firewall = properties("Firewall")
    rates = [rule for rule in firewall["Rules"] if "RateBasedStatement" in rule["Statement"]]
    managed = [rule["Statement"].get("ManagedRuleGroupStatement") for rule in firewall["Rules"]]

    assert firewall["Scope"] == "CLOUDFRONT"
    assert firewall["DefaultAction"] == {"Allow": {}}
    assert [rule["Action"]["Block"]["CustomResponse"]["ResponseCode"] for rule in rates] == [429]
    assert {group["Name"] for group in managed if group} == OF_ADDRESSES


def test_an_address_may_send_less_than_the_api_lets_through() -> None:
    limit = DOCUMENT["Parameters"]["RequestsPerFiveMinutes"]["Default"]

    assert limit < int(str(STACK.parameters["ThrottleRate"])) * 300


@pytest.mark.parametrize("domain", [API_DOMAIN, API_DOMAIN.replace("eu-west-1", "us-gov-west-1")])
def test_the_distribution_accepts_the_domain_of_api_gateway(domain: str) -> None:
    pattern = DOCUMENT["Parameters"]["ApiDomain"]["AllowedPattern"]

    assert re.fullmatch(pattern, domain)
    assert not re.fullmatch(pattern, "hooks.example.com")


@pytest.mark.parametrize("disabled", ["true", "false"])
def test_the_address_of_aws_for_webhooks_is_closed_when_asked(disabled: str) -> None:
    made = resources.resolve(load(ROOT / "template.yaml", {"DisableExecuteApiEndpoint": disabled, "Hubs": "yes"}))
    closed = {
        api.logical: [
            server["x-amazon-apigateway-endpoint-configuration"]["disableExecuteApiEndpoint"]
            for server in api.properties["Body"].get("servers", [])
        ]
        for api in resources.of_type(made, "AWS::ApiGatewayV2::Api")
    }

    assert closed == {"WebhookApi": [disabled == "true"], "HubApi": []}


# Each API, by the beginning of its row in docs/explanation/security.md, with its function.
APIS = {
    "webhooks": ("WebhookApi", "ReceiveWebhook"),
    "hubs": ("HubApi", "ReceivePush"),
    "pages": ("PageApi", "ShowSite"),
}
# API Gateway's quota of a body, and the size that it meters as one request.
BODY_KB_MAX, METERED_KB = 10 * 1024, 512


def limits(name: str) -> tuple[int, int, int]:
    """Return the requests a second of an API, its burst, and the time-out of its function in seconds."""
    api, function = APIS[name]
    settings = stages()[f"{api}ApiGatewayDefaultStage"]["DefaultRouteSettings"]
    rate, burst = (
        int(str(STACK.parameters[value["Ref"]] if isinstance(value, dict) else value))
        for value in (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"])
    )
    return rate, burst, STACK.resources[function]["Properties"]["Timeout"]


def test_a_bulk_save_delays_no_other_site_and_a_leaked_page_keeps_few_functions_busy() -> None:
    rate, burst, _ = limits("webhooks")
    for requests_a_second, seconds in ((1_000, 1), (100, 15)):
        assert burst >= (requests_a_second - rate) * seconds + 1  # API Gateway's bucket has a token for another site
    rate, burst, timeout_seconds = limits("pages")
    assert burst + rate * timeout_seconds <= 40


def test_the_alarm_on_refused_requests_leads_to_the_site_that_sends_them() -> None:
    text = STACK.resources["ApiRefusingAlarm"]["Properties"]["AlarmDescription"]

    assert 'Count the lines "delivery" in the log of receive_webhook by site' in text


@pytest.mark.parametrize("name", APIS)
def test_the_limit_of_each_api_and_the_price_of_a_flood_are_documented(name: str) -> None:
    rate, burst, timeout_seconds = limits(name)
    million_requests = tomllib.loads(text_of("bench/prices.toml"))["api"]["million_requests"]
    a_day = rate * 86_400 * BODY_KB_MAX / METERED_KB * million_requests / 1_000_000
    [row] = [line for line in text_of("docs/explanation/security.md").splitlines() if line.startswith(f"| {name} ")]

    assert row.endswith(f" | {rate} | {burst:,} | {timeout_seconds} s | ${a_day:.2f} a day |")


def test_the_access_log_has_nothing_that_a_stranger_may_make_long() -> None:
    short = {"requestId", "identity.sourceIp", "routeKey", "status", "responseLength", "responseLatency"}
    for stage in stages().values():
        settings = stage["AccessLogSettings"]
        log = STACK.resources[settings["DestinationArn"]["Fn::GetAtt"][0]]["Properties"]

        assert set(re.findall(r"\$context\.([A-Za-z.]+)", settings["Format"])) <= short
        assert log["LogGroupName"]["Fn::Sub"].startswith("/aws/vendedlogs/${AWS::StackName}/")
