"""`stoppress check` as its users meet it: arguments, lines, JSON, exit codes."""

import json
from pathlib import Path

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

    assert (result.exit_code, result.stdout) == (0, "9 files, 12 URLs, no findings\n")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (0, {"findings": []})


def test_a_finding_exits_with_1_and_is_one_line_with_file_line_severity_and_rule(tmp_path: Path) -> None:
    site = good()
    loc(f"{HARBOUR}#top")(site)
    result = run(save(site, tmp_path))
    lines = result.stdout.splitlines()

    assert result.exit_code == 1
    assert lines[0] == (f"{HOST}/{SHARD}:3: warning R1.6 '{HARBOUR}#top' has a fragment: leave out what follows the #")
    assert lines[2].split() == [
        "1", "R1.6", "loc-fragment", *"A URL has no fragment (Google, Build a sitemap)".split()
    ]  # fmt: skip
    assert lines[-1] == "9 files, 12 URLs, 1 finding"


def test_of_ten_thousand_faults_of_a_kind_twenty_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_bytes(TEN_THOUSAND)
    report = json.loads(run(tmp_path, "--base-url", BASE, "--json").stdout)
    lines = run(tmp_path, "--base-url", BASE, "--max", "1").stdout.splitlines()

    assert len(report["findings"]) == 40
    assert report["omitted"] == {"R1.4": 9_980, "R1.17": 9_980}
    assert [line.split()[0] for line in lines[3:5]] == ["10,000", "10,000"]
    assert lines[5] == "19,998 more of the same are not shown; --max shows more"


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
def test_the_base_url_says_host_protocol_and_directory(base_url: str, clean: bool) -> None:
    assert run(GOLDEN / "shard.xml", "--base-url", base_url).exit_code == (0 if clean else 1)


def test_where_no_base_is_given_the_one_taken_is_said() -> None:
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
        (["{}", "--now", "today"], "--now 'today' is no ISO 8601 instant"),
    ],
)
def test_what_cannot_be_checked_exits_with_2_and_says_why(arguments: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text("<p>no sitemap</p>")
    result = run(*(argument.format(tmp_path) for argument in arguments))

    assert result.exit_code == 2
    assert words in result.stderr


def test_files_that_are_no_sitemaps_are_left_alone(tmp_path: Path) -> None:
    root = save(good(), tmp_path) / HOST
    (root / "readme.txt").write_text("Words, and no URL.\n")
    (root / "data.json").write_text("{}")
    (root / "index.html").write_text("<html></html>")
    (root / ".hidden.xml").write_text("<x/>")
    (root / "logo.png").write_bytes(b"\x89PNG\r\n")
    (root / "0123456789abcdef.txt").write_text("0123456789abcdef")

    assert run(root.parent).exit_code == 0
