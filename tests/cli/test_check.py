"""`stoppress check` from the command line: arguments, lines, JSON, exit codes."""

import csv
import io
import json
from pathlib import Path

import lxml.html
import pytest
from typer.testing import CliRunner, Result

from stoppress_cli.app import app
from tests.cli.check.test_planted import save
from tests.support.check_good_site import BASE, HARBOUR, HOST, NOW, SHARD, good, url, urlset
from tests.support.check_planted import loc

GOLDEN = Path(__file__).parents[1] / "fixtures/golden"
TEN_THOUSAND = urlset(*(url(f"/{number}", lastmod="yesterday") for number in range(10_000)))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["check", "--now", NOW, *map(str, arguments)], catch_exceptions=False)


def test_a_clean_site_exits_with_0(tmp_path: Path) -> None:
    result, as_json = (run(save(good(), tmp_path), "--base-url", BASE, *options) for options in ([], ["--json"]))

    assert (result.exit_code, result.stdout) == (0, "no findings in 9 files, 12 URLs checked\n")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (0, {"findings": []})


def test_a_finding_exits_with_1_and_is_in_a_group_with_rule_place_and_fix(tmp_path: Path) -> None:
    site = good()
    loc(f"{HARBOUR}#top")(site)
    result = run(save(site, tmp_path))

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "warning     1 × R1.6 loc-fragment: A URL has no fragment (Google, Build a sitemap)",
        f"              {HOST}/{SHARD}:3: '{HARBOUR}#top' has a fragment",
        "              fix: leave out what follows the #",
        "",
        "1 warning in 9 files, 12 URLs checked",
    ]


def test_three_of_ten_thousand_equal_faults_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_bytes(TEN_THOUSAND)
    report = json.loads(run(tmp_path, "--base-url", BASE, "--json").stdout)
    lines = run(tmp_path, "--base-url", BASE).stdout.splitlines()

    assert len(report["findings"]) == 40
    assert report["omitted"] == {"R1.4": 9_980, "R1.17": 9_980}
    assert [line.split()[1] for line in lines if line.startswith("error")] == ["10,000", "10,000"]
    assert [len(line.split()) for line in lines].count(3) == 2, "and 9,997 more"
    assert lines[-1] == "20,000 errors in 1 file, 10,000 URLs checked"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Write a malformed file with warnings, errors and hostile text before the malformed part."""
    path = tmp_path / "broken/sitemap.xml"
    path.parent.mkdir()
    order = url("/a").replace("<loc>", "<lastmod>2026-11-12</lastmod><loc>")
    rows = [
        order,
        *(url(f"/{number}?q=<b>&amp;x".replace("<", "&lt;")) for number in range(6)),
        "<url><loc>=1+1</loc></url>",
    ]
    path.write_bytes(urlset(*rows, "<url><loc>a & b</loc></url>", url("/y"), url("/z")))
    return path.parent


def test_further_faults_of_a_malformed_file_are_counted(broken: Path) -> None:
    lines = run(broken, "--base-url", BASE).stdout.splitlines()

    assert lines[-1].endswith("in 1 file, 8 of 11 URLs checked")
    assert "not checked sitemap.xml: 3 of 11 entries" in lines
    assert json.loads(run(broken, "--base-url", BASE, "--json").stdout)["unchecked"] == {"sitemap.xml": 3}


def test_errors_come_first_and_the_order_of_elements_is_a_warning(broken: Path) -> None:
    lines = run(broken, "--base-url", BASE).stdout.splitlines()
    groups = [line.partition(" ")[0] for line in lines if not line.startswith(" ")]

    assert groups[: groups.index("not")] == sorted(groups[: groups.index("not")])
    assert next(line for line in lines if "child-order" in line).startswith("warning")


def test_csv_has_a_row_for_each_finding_and_no_formula(broken: Path) -> None:
    (broken / "=1+1.xml").write_bytes(urlset(url("/a#top")))
    rows = list(csv.DictReader(io.StringIO(run(broken, "--base-url", BASE, "--format", "csv").stdout)))
    as_json = json.loads(run(broken, "--base-url", BASE, "--format", "json").stdout)

    assert [row["message"] for row in rows] == [finding["message"] for finding in as_json["findings"]]
    assert {row["file"] for row in rows} == {"sitemap.xml", "'=1+1.xml"}


def test_html_is_one_file_that_escapes_what_sitemaps_contain(broken: Path) -> None:
    page = run(broken, "--base-url", BASE, "--format", "html").stdout
    root = lxml.html.document_fromstring(page)

    assert "<b>" not in page
    assert root.xpath("count(//section)") == len({row["name"] for row in findings_of(broken)}) + 1
    assert len(root.xpath("//tbody/tr")) == len(findings_of(broken))
    assert not root.xpath("//script | //link | //img | //@href | //@src")


def findings_of(folder: Path) -> list[dict[str, str]]:
    report: dict[str, list[dict[str, str]]] = json.loads(run(folder, "--base-url", BASE, "--json").stdout)
    return report["findings"]


def test_warnings_can_be_left_out(tmp_path: Path) -> None:
    site = good()
    loc(f"{HARBOUR}#top")(site)

    assert run(save(site, tmp_path), "--errors-only").exit_code == 0


@pytest.mark.parametrize(
    ("base_url", "clean"),
    [
        ("https://www.example.com/", True),
        ("https://www.example.com", True),
        ("https://www.example.com/shard.xml", True),
        ("https://www.example.com/2026", True),
        ("https://www.example.com/2026/11/18/", False),
        ("https://www.example.com/2026/11/18/shard.xml", False),
        ("http://www.example.com/", False),
        ("https://example.com/", False),
    ],
)
def test_the_base_url_sets_host_protocol_and_directory(base_url: str, clean: bool) -> None:
    assert run(GOLDEN / "shard.xml", "--base-url", base_url).exit_code == (0 if clean else 1)


def test_without_base_url_the_detected_base_is_printed() -> None:
    result = run(GOLDEN / "shard.xml")

    assert result.exit_code == 0
    assert "taking https://www.example.com/ as the place of shard.xml" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{}/nowhere"], "there is no "),
        (["{}"], "there is no sitemap in "),
        (["{}", "--base-url", "www.example.com"], "--base-url 'www.example.com' is no absolute"),
        (["http://user:pw@127.0.0.1/"], "is no http or https URL that can be fetched"),
        (["http://127.0.0.1:9/sitemap.xml"], "cannot be fetched"),
        (["{}", "--now", "today"], "--now: 'today' is not an ISO 8601 instant"),
    ],
)
def test_unusable_input_exits_with_2_and_the_reason(arguments: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text("<p>no sitemap</p>")
    result = run(*(argument.format(tmp_path) for argument in arguments))

    assert result.exit_code == 2
    assert words in result.stderr


def test_files_that_are_no_sitemaps_are_ignored(tmp_path: Path) -> None:
    root = save(good(), tmp_path) / HOST
    (root / "readme.txt").write_text("Words, and no URL.\n")
    (root / "data.json").write_text("{}")
    (root / "index.html").write_text("<html></html>")
    (root / ".hidden.xml").write_text("<x/>")
    (root / "logo.png").write_bytes(b"\x89PNG\r\n")
    (root / "0123456789abcdef.txt").write_text("0123456789abcdef")

    assert run(root.parent).exit_code == 0
