"""Every rule that is claimed finds what is planted for it, where it was planted; a site that keeps the rules has no findings."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from stoppress.checking import checker
from stoppress.checking.findings import Finding, Findings
from stoppress.checking.rulebook import NOT_CHECKABLE, RULES
from stoppress_cli.checking.folders import collect
from tests.check import good_site, planted
from tests.check.good_site import (
    BASE,
    ENGLISH,
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
from tests.check.planted import CASES, Fault

AT = datetime.fromisoformat(NOW)
GZIPPED = {**SERVED, "ContentType": "application/gzip"}
TEXT = {**SERVED, "ContentType": "text/plain; charset=utf-8"}


def save(site: Site, folder: Path, *, meta: bool = True) -> Path:
    """As `stoppress play` saves: the files below their host, the headers beside the folder."""
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
    found = Findings(each_max=20)
    checker.check(collect(folder, base_url).sources, found, AT)
    return list(found)


def test_a_site_that_keeps_the_rules_has_no_findings(tmp_path: Path) -> None:
    assert findings(save(good(), tmp_path)) == []


@pytest.mark.parametrize("base_url", [None, BASE, f"https://{HOST}", f"{BASE}sitemap.xml"])
def test_files_in_a_folder_of_any_name_have_no_findings_either(base_url: str | None, tmp_path: Path) -> None:
    root = save(good(), tmp_path)

    assert findings((root / HOST).rename(tmp_path / "site"), base_url) == []


@pytest.mark.parametrize(("name", "fault"), [(n, f) for n, _, f in CASES], ids=[f"{n} {what}" for n, what, _ in CASES])
def test_a_planted_fault_is_found_under_its_rule(name: str, fault: Fault, tmp_path: Path) -> None:
    site = good()
    fault(site)

    assert name in {finding.rule.name for finding in findings(save(site, tmp_path))}


def test_every_rule_that_is_claimed_has_a_planted_fault() -> None:
    assert {name for name, _, _ in CASES} | planted.FETCHED == RULES.keys()


def test_a_rule_is_claimed_or_said_to_be_uncheckable_not_both() -> None:
    assert not {rule.id for rule in RULES.values()} & NOT_CHECKABLE.keys()


@pytest.mark.parametrize(
    ("fault", "file", "line", "name"),
    [
        (planted.loc(f"{HARBOUR}#top"), SHARD, 3, "loc-fragment"),
        (planted.swap(SHARD, "08:00:00Z</lastmod>", "08:00:00</lastmod>"), SHARD, 4, "date-form"),
        (planted.swap(SHARD, "<?xml", "\n\n<?xml"), SHARD, 1, "leading-bytes"),
        (planted.both(planted.loc("/x"), planted.swap(SHARD, "<?xml", "\n\n<?xml")), SHARD, 5, "loc-not-absolute"),
        (planted.swap(NEWS, good_site.TITLE, "\n<news:title/>"), NEWS, 4, "title-empty"),
        (planted.swap(MEDIA, 'hreflang="en"', '\nhreflang="gr"'), MEDIA, 5, "hreflang"),
        (planted.swap(SHARD, "</urlset>", "\x0b</urlset>"), SHARD, 5, "control-character"),
        (planted.swap(SHARD, "</urlset>", ""), SHARD, 6, "not-well-formed"),
        (planted.put(INDEX, good_site.index(SHARD, good_site.OLD, MEDIA, NEWS, "x.xml")), INDEX, 7, "child-missing"),
        (planted.swap(good_site.PAGES, "\n", "\nimprint\n"), good_site.PAGES, 2, "text-line"),
        (planted.swap(good_site.ROBOTS, f"Sitemap: {BASE}pages", "Sitemap: pages"), good_site.ROBOTS, 7, "robots-value"),
    ],
)  # fmt: skip
def test_a_finding_says_where(fault: Fault, file: str, line: int, name: str, tmp_path: Path) -> None:
    site = good()
    fault(site)

    assert [(found.file, found.line) for found in findings(save(site, tmp_path)) if found.rule.name == name] == [
        (f"{HOST}/{file}", line)
    ]


def test_the_page_of_rules_is_the_rulebook() -> None:
    page = (Path(__file__).parents[2] / "docs/check.md").read_text(encoding="utf-8")
    rows = [f"| {rule.id} | {rule.name} | {rule.severity} | {rule.text} | {rule.source} |" for rule in RULES.values()]

    assert [line for line in page.splitlines() if line.startswith("| R")] == [
        *rows,
        *(f"| {number} | {why} |" for number, why in NOT_CHECKABLE.items()),
    ]


ELSEWHERE = FRENCH.replace("www.example.com/fr", "www.example.fr")


@pytest.mark.parametrize(
    ("urls", "found"),
    [
        ([url(f"{BASE}en/about", ENGLISH + ELSEWHERE)], []),
        ([url(f"{BASE}en/about", ENGLISH + FRENCH)], ["alternate-not-mutual"]),
        ([url(f"{BASE}en/about", ENGLISH + FRENCH), url(f"{BASE}fr/about", ENGLISH + FRENCH)], []),
        ([url(f"{BASE}en/about", ENGLISH + FRENCH), url(f"{BASE}fr/about", FRENCH)], ["alternate-not-mutual"]),
    ],
)
def test_alternates_on_other_hosts_are_left_to_their_own_sitemaps(
    urls: list[str], found: list[str], tmp_path: Path
) -> None:
    (tmp_path / "sitemap.xml").write_bytes(urlset(*urls, spaces=f"{SITEMAP_SPACE} {XHTML_SPACE}"))

    assert [finding.rule.name for finding in findings(tmp_path, BASE)] == found


def test_a_host_is_a_guest_where_its_robots_txt_names_the_sitemap(tmp_path: Path) -> None:
    site = good()
    planted.loc("https://news.example.org/harbour")(site)
    root = save(site, tmp_path, meta=False)
    before = {finding.rule.name for finding in findings(root)}
    (root / "news.example.org").mkdir()
    (root / "news.example.org/robots.txt").write_text(f"Sitemap: {BASE}{SHARD}\n")

    assert before == {"other-host"}
    assert findings(root) == []


def test_an_index_whose_sitemaps_are_all_elsewhere_misses_none(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(good().files[INDEX])

    assert findings(tmp_path, BASE) == []
