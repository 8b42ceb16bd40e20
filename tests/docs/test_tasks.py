"""The commands in the pages' sections do their tasks."""

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoppress.aws import bucket
from stoppress.http import client as http
from stoppress_cli.app import app
from tests.cli.test_sites import Operator, on_a_stack, valid
from tests.docs.pages import fenced, section
from tests.support.event_files import objects
from tests.support.operated import later

SITE = "www.example.org"
FEED_URL = f"https://{SITE}/rss.xml"
FEED = "<rss version='2.0'><channel><item><title>A</title><link>/a</link></item></channel></rss>"
OLD = "".join(f"<url><loc>https://www.example.com/2019/03/{name}</loc></url>" for name in ("flood", "fire"))
SITEMAP = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{OLD}</urlset>'

FOLDER = "docs/how-to"


def section_of(link: str) -> str:
    page, name = link.split("#")
    return section(f"{FOLDER}/{page}", name)


def web(url: str, _headers: object = None, **_limits: object) -> http.Response:
    """Answer as the Internet: with an old sitemap, and feeds everywhere else."""
    return http.Response(200, {}, (SITEMAP if "sitemap" in url else FEED).encode(), url)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(http, "fetch", web)
    with on_a_stack([], tmp_path, monkeypatch) as operator:
        yield operator


def type_in(operator: Operator, link: str) -> None:
    """Run the commands of a section, and edit `site.json` where the section shows what is in it."""
    for language, code in fenced(section_of(link)):
        if language == "json":
            path = operator.folder / "site.json"
            before = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({**before, **json.loads(code)}))
        if language != "sh":
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


def has_added_the_site(run: Operator) -> None:
    assert f"{SITE}/sitemap.xml" in objects(run.stack)
    has_one_secret(run)


def has_added_the_feed(run: Operator) -> None:
    assert FEED_URL in run.document(SITE)["feeds"]
    assert f"https://{SITE}/a".encode() in b"".join(objects(run.stack).values())


def has_the_site(run: Operator) -> None:
    assert SITE in run("sites", "list").stdout


def has_one_secret(run: Operator) -> None:
    assert len(valid(run, f"webhooks/{SITE}/cms")) == 1


def has_removed_the_site(run: Operator) -> None:
    assert [file.file for file in bucket.listed(SITE)]
    assert SITE not in run("sites", "list").stdout


def has_imported_the_archive(run: Operator) -> None:
    assert b"/2019/03/flood<" in objects(run.stack)["www.example.com/sitemap-2019-03.xml"]


# The sections in the order in which they are typed, and the check after each.
TYPED: dict[str, Callable[[Operator], None]] = {
    "sites.md#add-a-site": has_added_the_site,
    "feeds.md#add-a-feed": has_added_the_feed,
    "sites.md#change-a-setting": has_the_site,
    "sites.md#go-back-to-an-earlier-version": has_the_site,
    "sites.md#rotate-a-secret": has_one_secret,
    "operate.md#write-files-again": has_the_site,
    "sites.md#remove-a-site": has_removed_the_site,
    "import.md#import-an-archive": has_imported_the_archive,
    "migrate.md#replace-the-sitemaps-of-a-cms-or-plug-in": lambda _run: None,
}


@pytest.mark.moto
def test_the_commands_of_the_sections_do_their_tasks(run: Operator) -> None:
    secrets = set()
    for link, check in TYPED.items():
        type_in(run, link)
        check(run)
        secrets.update(valid(run, f"webhooks/{SITE}/cms"))

    assert len(secrets) == 2, "rotate-a-secret left the first secret"
