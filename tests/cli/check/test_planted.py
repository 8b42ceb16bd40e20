"""Every supported rule finds the fault that is planted for it; a site that keeps the rules has no findings."""

import gzip
import json
import tomllib
from datetime import datetime
from pathlib import Path

import pytest

from stoppress_cli.check import checker
from stoppress_cli.check.findings import Finding, Findings
from stoppress_cli.check.rulebook import RULES
from stoppress_cli.inputs.folder import collect
from tests.docs.pages import ROOT
from tests.support import check_good_site, check_planted
from tests.support.check_good_site import (
    BASE,
    ENGLISH,
    FLOOD,
    FRENCH,
    HARBOUR,
    HOST,
    INDEX,
    MEDIA,
    NEWS,
    NOW,
    SERVED,
    SHARD,
    SITEMAP_SPACE,
    XHTML_SPACE,
    Site,
    good,
    url,
    urlset,
)
from tests.support.check_planted import CASES, Fault

AT = datetime.fromisoformat(NOW)
GZIPPED = {**SERVED, "ContentType": "application/gzip"}
TEXT = {**SERVED, "ContentType": "text/plain; charset=utf-8"}


def save(site: Site, folder: Path, *, meta: bool = True) -> Path:
    """Save a site as `stoppress play` does: the files below their host, the headers beside the folder."""
    root = folder / "save"
    for name, body in site.files.items():
        (root / HOST / name).parent.mkdir(parents=True, exist_ok=True)
        (root / HOST / name).write_bytes(body)
    usual = {
        name: GZIPPED if name.endswith(".gz") else TEXT if name.endswith(".txt") else SERVED for name in site.files
    }
    if meta:
        headers = {f"{HOST}/{name}": value for name, value in (usual | site.headers).items()}
        (folder / "save.meta.json").write_text(json.dumps(headers))
    return root


def findings(folder: Path, base_url: str | None = None) -> list[Finding]:
    report = Findings(each_max=20)
    checker.check(collect(folder, base_url).sources, report, AT)
    return list(report)


def test_a_site_that_keeps_the_rules_has_no_findings(tmp_path: Path) -> None:
    assert findings(save(good(), tmp_path)) == []


@pytest.mark.parametrize("base_url", [None, BASE, f"https://{HOST}", f"{BASE}sitemap.xml"])
def test_files_in_a_folder_of_any_name_have_no_findings_either(base_url: str | None, tmp_path: Path) -> None:
    root = save(good(), tmp_path)

    assert findings((root / HOST).rename(tmp_path / "site"), base_url) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, id=f"{name} {what}", marks=pytest.mark.matrix if what == "50,001" else ())
        for name, what, fault in CASES
    ],
)
def test_a_planted_fault_is_found_under_its_rule(name: str, fault: Fault, tmp_path: Path) -> None:
    site = good()
    fault(site)

    assert name in {finding.rule.name for finding in findings(save(site, tmp_path))}


def test_every_supported_rule_has_a_planted_fault() -> None:
    assert {name for name, _, _ in CASES} | check_planted.FETCHED == RULES.keys()


def test_a_rule_is_either_supported_or_listed_as_uncheckable() -> None:
    uncheckable = tomllib.loads((ROOT / "tests/docs/not_checkable.toml").read_text(encoding="utf-8"))

    assert not {rule.id for rule in RULES.values()} & uncheckable.keys()


@pytest.mark.parametrize(
    ("fault", "file", "line", "name"),
    [
        (check_planted.loc(f"{HARBOUR}#top"), SHARD, 3, "loc-fragment"),
        (check_planted.swap(SHARD, "08:00:00Z</lastmod>", "08:00:00</lastmod>"), SHARD, 4, "date-form"),
        (check_planted.swap(SHARD, "<?xml", "\n\n<?xml"), SHARD, 1, "leading-bytes"),
        (check_planted.both(check_planted.loc("/x"), check_planted.swap(SHARD, "<?xml", "\n\n<?xml")), SHARD, 5, "loc-not-absolute"),
        (check_planted.swap(NEWS, check_good_site.TITLE, "\n<news:title/>"), NEWS, 4, "title-empty"),
        (check_planted.swap(MEDIA, 'hreflang="en"', '\nhreflang="gr"'), MEDIA, 5, "hreflang"),
        (check_planted.swap(SHARD, "</urlset>", "\x0b</urlset>"), SHARD, 5, "control-character"),
        (check_planted.swap(SHARD, "</urlset>", ""), SHARD, 6, "not-well-formed"),
        (check_planted.put(INDEX, check_good_site.index(SHARD, check_good_site.OLD, MEDIA, NEWS, "x.xml")), INDEX, 7, "child-missing"),
        (check_planted.swap(check_good_site.PAGES, "\n", "\nimprint\n"), check_good_site.PAGES, 2, "text-line"),
        (check_planted.swap(check_good_site.ROBOTS, "pages.txt", "x.txt"), check_good_site.ROBOTS, 7, "child-missing"),
        (check_planted.swap(check_good_site.ROBOTS, "Disallow: /search", "Disalow: /search"), check_good_site.ROBOTS, 3, "robots-unknown"),
        (check_planted.swap(check_good_site.ROBOTS, "Disallow: /search", "Disallow: /"), check_good_site.ROBOTS, 3, "crawler-shut-out"),
        (check_planted.both(check_planted.remove(check_good_site.ROBOTS, INDEX)), INDEX, None, "no-entry"),
        (check_planted.swap(check_good_site.ROBOTS, f"Sitemap: {BASE}pages", "Sitemap: pages"), check_good_site.ROBOTS, 7, "robots-value"),
    ],
)  # fmt: skip
def test_a_finding_contains_file_and_line(fault: Fault, file: str, line: int | None, name: str, tmp_path: Path) -> None:
    site = good()
    fault(site)

    assert [
        (finding.file, finding.line) for finding in findings(save(site, tmp_path)) if finding.rule.name == name
    ] == [(f"{HOST}/{file}", line)]


def test_urls_of_another_host_are_valid_if_its_robots_txt_lists_the_sitemap(tmp_path: Path) -> None:
    site = good()
    check_planted.loc("https://news.example.org/harbour")(site)
    root = save(site, tmp_path, meta=False)
    before = {finding.rule.name for finding in findings(root)}
    (root / "news.example.org").mkdir()
    (root / "news.example.org/robots.txt").write_text(f"Sitemap: {BASE}{SHARD}\n")

    assert before == {"other-host"}
    assert findings(root) == []


def robots(*lines: str) -> Fault:
    """Return a robots.txt with the sitemaps and these lines."""
    text = "\n".join([*lines, "", f"Sitemap: {BASE}{INDEX}", f"Sitemap: {BASE}{check_good_site.PAGES}", ""])
    return check_planted.put(check_good_site.ROBOTS, text.encode())


@pytest.mark.parametrize(
    "lines",
    [
        ["User-agent: *", "Disallow:"],
        ["User-agent: *", "Disallow: /", "Allow: /20", "Allow: /sitemap", "Allow: /pages.txt"],
        ["User-agent: GPTBot", "Disallow: /"],
        ["user-agent: *", "crawl-delay: 5", "allow: /", "", "Host: www.example.com", "Clean-param: ref /news/"],
        ["User-agent: *", "Content-Signal: search=yes, ai-train=no", "Allow: /"],
        ["# a comment", "", "   ", "User-agent : *   # all", "Disallow : /search # none", "\tAllow:/search/about"],
    ],
    ids=" ".join,
)
def test_a_robots_txt_that_blocks_no_engine_has_no_findings(lines: list[str], tmp_path: Path) -> None:
    site = good()
    robots(*lines)(site)

    assert findings(save(site, tmp_path)) == []


def test_every_unknown_line_of_robots_txt_is_quoted(tmp_path: Path) -> None:
    site = good()
    robots("User-agent: *", "Dissallow: /a", "Sitmap: /b", "Disallow: /c")(site)

    messages = [(finding.line, finding.message) for finding in findings(save(site, tmp_path))]

    assert [(line, message.partition(" is ")[0]) for line, message in messages] == [(2, "'Dissallow'"), (3, "'Sitmap'")]


@pytest.mark.parametrize("name", [NEWS, SHARD])
def test_duplicates_on_one_line_are_reported_with_their_names(name: str, tmp_path: Path) -> None:
    site = good()
    article = check_good_site.ARTICLE if name == NEWS else ""
    urls = [url(f"{BASE}{page}", article) for page in ("a", "b", "c", "b", "b")] + [url(FLOOD, article)]
    site.files[name] = urlset(*urls, spaces=f"{SITEMAP_SPACE} {check_good_site.NEWS_SPACE}")
    check_planted.minified(name)(site)

    duplicates = [finding for finding in findings(save(site, tmp_path)) if "duplicate" in finding.rule.name]

    assert [finding.line for finding in duplicates] == [1, 1]
    assert ["URL 4" in duplicates[0].message, "URL 2" in duplicates[0].message] == [True, True]
    assert ["URL 5" in duplicates[1].message, "URL 2" in duplicates[1].message] == [True, True]


APP = '<xhtml:link rel="alternate" href="android-app://com.example/https/www.example.com/en/about"/>'
IOS = '<xhtml:link rel="alternate" href="ios-app://123456/https/www.example.com/en/about"/>'
ELSEWHERE = FRENCH.replace("www.example.com/fr", "www.example.fr")
BOTH, FR, EN = ENGLISH + FRENCH, f"{BASE}fr/about", f"{BASE}en/about"
OTHER = f"Sitemap: https://other.example.org/{INDEX}\n"


def linked(*urls: str) -> dict[str, bytes]:
    """Return a folder whose only sitemap may link to other language versions."""
    return {"sitemap.xml": urlset(*urls, spaces=f"{SITEMAP_SPACE} {XHTML_SPACE}")}


# The files of a folder, and the rules that they break.
FOLDERS: dict[str, tuple[dict[str, bytes], list[str]]] = {
    "an alternate on another host": (linked(url(EN, ENGLISH + ELSEWHERE)), []),
    "an alternate that is not listed": (linked(url(EN, BOTH)), ["alternate-not-mutual"]),
    "mutual alternates": (linked(url(EN, BOTH), url(FR, BOTH)), []),
    "an alternate without a link back": (linked(url(EN, BOTH), url(FR, FRENCH)), ["alternate-not-mutual"]),
    "links into apps": (linked(url(EN, APP + IOS + ENGLISH)), []),
    "a link into an app with a language": (linked(url(EN, ENGLISH + APP.replace(" href", ' hreflang="en" href'))), []),
    "offsets of the schema": (
        {"sitemap.xml": urlset(*(
            url(f"{HARBOUR}{n}", lastmod=f"2026-11-12T10:00:00{offset}")
            for n, offset in enumerate(["+14:00", "-12:00", "-14:00", "+05:45", "-00:00", "+13:59"])
        ))}, [],
    ),
    "an index whose sitemaps are elsewhere": ({INDEX: good().files[INDEX]}, []),
    "a sitemap that nothing names": ({SHARD: good().files[SHARD]}, ["no-entry"]),
    "a sitemap that robots.txt names": (
        {SHARD: good().files[SHARD], "robots.txt": f"Sitemap: {BASE}{SHARD}\n".encode()}, [],
    ),
    "a robots.txt alone": ({"robots.txt": f"Sitemap: {BASE}{INDEX}\n{OTHER}".encode()}, ["child-missing"]),
}  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_a_few_files_breaks_these_rules(folder: str, tmp_path: Path) -> None:
    files, names = FOLDERS[folder]
    for name, body in files.items():
        (tmp_path / name).write_bytes(body)

    assert [finding.rule.name for finding in findings(tmp_path, BASE)] == names


def test_an_index_of_another_name_is_an_entry_if_robots_txt_lists_it(tmp_path: Path) -> None:
    site = good()
    site.files["index.xml"] = site.files.pop(INDEX)
    check_planted.swap(check_good_site.ROBOTS, INDEX, "index.xml")(site)
    shard = site.files[SHARD]
    site.files[SHARD + ".gz"] = gzip.compress(shard)

    assert findings(save(site, tmp_path)) == []


def test_a_sitemap_xml_in_a_subfolder_is_not_an_entry(tmp_path: Path) -> None:
    (tmp_path / "news.xml").write_bytes(urlset(url(HARBOUR)))

    assert findings(tmp_path, f"{BASE}2026/") == []
