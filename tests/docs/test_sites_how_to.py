"""docs/how-to/sites.md: each command of a section is run in its order, on a stack of its own."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoppress.aws import bucket
from stoppress.http import client as http
from stoppress_cli.app import app
from tests.cli.test_sites import Operator, on_a_stack, valid, waiting
from tests.docs.pages import blocks, text_of
from tests.support.event_files import objects
from tests.support.operated import later

pytestmark = pytest.mark.moto

PAGE = text_of("docs/how-to/sites.md")
SITE = "www.example.org"
FEED_URL = f"https://{SITE}/rss.xml"
FEED = "<rss version='2.0'><channel><item><title>A</title><link>/a</link></item></channel></rss>"
SCREEN_LINES = 40


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(http, "fetch", lambda url, _headers=None: http.Response(200, {}, FEED.encode(), url))
    with on_a_stack([], tmp_path, monkeypatch) as operator:
        waiting(operator, monkeypatch)
        yield operator


def type_in(operator: Operator, title: str) -> None:
    """Run the commands of a section, and edit `site.json` where the section shows what is in it."""
    for language, code in re.findall(r"^```(sh|json)\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL):
        if language == "json":
            path = operator.folder / "site.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({**known, **json.loads(code)}))
            continue
        for line in code.splitlines():
            words = shlex.split(line, comments=True)
            assert words.pop(0) == "stoppress"
            file = words.pop() if ">" in words else ""
            words = [word for word in words if word != ">"]
            done = CliRunner().invoke(app, words, input="y\n")
            assert done.exit_code == 0, f"{line}\n{done.output}"
            if file:
                (operator.folder / file).write_text(done.stdout)
            later(operator.stack, 1)


def test_the_commands_of_the_page_do_what_their_sections_say(run: Operator) -> None:
    type_in(run, "Add a site")
    assert f"{SITE}/sitemap.xml" in objects(run.stack)
    [secret] = valid(run, f"{SITE}/cms")

    type_in(run, "Add a feed")
    assert run.parameter(SITE)["feeds"] == [FEED_URL]
    assert f"https://{SITE}/a".encode() in b"".join(objects(run.stack).values())

    type_in(run, "Change a setting")

    type_in(run, "Rotate a secret")
    assert len(valid(run, f"{SITE}/cms")) == 1
    assert valid(run, f"{SITE}/cms") != [secret]

    type_in(run, "Remove a site")
    assert [file.file for file in bucket.listed(SITE)]
    assert SITE not in run("sites", "list").stdout


def test_each_section_fits_on_a_screen() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert {"Add a site", "Add a feed", "Rotate a secret", "Remove a site"} <= set(titles)
    assert [title for title in titles if len(section(title).splitlines()) > SCREEN_LINES] == []
    assert blocks(PAGE, "sh")
