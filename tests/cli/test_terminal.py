"""Commands print the output in tests/fixtures/terminal at 80 and 120 columns; `pytest --terminal` writes the files again.

`pytest --screenshots` writes the pictures of terminals in the documentation again.
"""

import io
import os
import re
from contextlib import chdir, nullcontext
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

from stoppress_cli.app import app
from stoppress_cli.local.process import environment
from stoppress_cli.local.stack import Stack
from stoppress_cli.output import COLOURS
from tests.simulation.stack import StackOnDoubles
from tests.support import check_good_site as published, operated, playing
from tests.support.operated import CMS, HOST, event, on_the_bus, url
from tests.support.playing import Step

FOLDER = Path(__file__).parents[1] / "fixtures/terminal"
IMAGES = Path(__file__).parents[2] / "docs/images"
FEED, BROKEN = "https://www.example.com/rss.xml", "https://feeds.example.net/politics/broken.xml"
LONG_HOST = "northern-harbours.example.org"
ITEM = f"<item><link>{url('ferry')}</link><title>Ferry</title><pubDate>Fri, 20 Nov 2026 06:30:00 GMT</pubDate></item>"
LINK = {"link": "<https://hub.example.net/>; rel=hub"}
WRONG = {"webhook-id": "a", "webhook-timestamp": "1795176000", "webhook-signature": "v1,AAAA"}
STEPS: list[Step] = [
    *operated.MADE[:1],
    {"site": operated.SITE | {"timezone": "Europe/Berlin", "feeds": [FEED, BROKEN], "language": "de"}},
    {"site": {"host": LONG_HOST, "publication": "Harbours"}},
    {"feed": FEED, "body": f'<rss version="2.0"><channel>{ITEM}</channel></rss>', "headers": LINK},
    {"feed": BROKEN, "status": 500},
    {"hub": "https://hub.example.net/"},
    event(1, "1", "news/flood-closes-the-harbour-and-the-old-market-hall-for-at-least-two-days"),
    event(2, "2", "news/election", published_at="2026-11-21T05:00:00Z"),
    *(event(minute, "", "", id=None, url=None) for minute in (3, 4, 5)),
    {"post": CMS, "body": "{}", "headers": WRONG},
    on_the_bus(id="7", url=url("news/market"), title="", published_at="soon"),
    {"at": "2026-11-20T15:30:00Z", "save": "files"},
]
COMMANDS = {
    "status": ["status"],
    "status-of-a-site": ["status", HOST],
    "explain-listed": ["explain", "cms#1", "--site", HOST],
    "explain-held": ["explain", "cms#2", "--site", HOST],
    "explain-never-received": ["explain", url("news/never-sent")],
    "feeds-show": ["feeds", "show", HOST],
    "sites-list": ["sites", "list"],
    "sites-history": ["sites", "history", HOST],
    "quarantine-list": ["quarantine", "list"],
    "check": ["check", "site", "--base-url", published.BASE, "--now", published.NOW],
}
# A news sitemap with a story that is too old, and one without the publication's language.
CHECKED = published.urlset(
    published.url(published.FLOOD, published.ARTICLE),
    published.url(published.HARBOUR, published.ARTICLE.replace("2026-11-20T07", "2026-11-17T07")),
    published.url(published.CONCERT, published.ARTICLE.replace(published.LANGUAGE, "")),
    spaces=f"{published.SITEMAP_SPACE} {published.NEWS_SPACE}",
)
# The pictures in the documentation, each of a command as it is typed.
PICTURES = ("status", "explain-listed", "check")
# What rich exports, without the fonts of another host, and in colours that can be read beside light and dark text.
SVG = """<svg class="terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>{unique_id}</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }}
.{unique_id}-title {{ font: bold 18px system-ui, sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
PIPED, COLOURED, WIDTHS = 0, -1, (80, 120)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    """Return the output of each command after the steps, at each width and piped."""
    texts: dict[tuple[str, int], str] = {}

    def ask(stack: Stack) -> None:
        assert isinstance(stack, StackOnDoubles)
        with environment(stack.wiring.variables()):
            for name, words in COMMANDS.items():
                for width in (PIPED, *WIDTHS):
                    columns = {"COLUMNS": str(width)} if width else {}
                    with mock.patch.dict(os.environ, columns):
                        texts[name, width] = CliRunner().invoke(app, words).stdout
                with mock.patch.dict(os.environ, {"COLUMNS": "80", "FORCE_COLOR": "1"}):
                    texts[name, COLOURED] = CliRunner().invoke(app, words).stdout

    folder = tmp_path_factory.mktemp("made")
    (folder / "site").mkdir()
    (folder / "site/sitemap-news.xml").write_bytes(CHECKED)
    with mock.patch("stoppress_cli.connect.open_stack", return_value=nullcontext()), chdir(folder):
        played = playing.play(playing.written(STEPS), folder, watch=ask)
    assert played.failures == []
    return texts


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_what_its_fixture_shows(
    name: str, width: int, printed: dict[tuple[str, int], str], request: pytest.FixtureRequest
) -> None:
    file, text = FOLDER / f"{name}-{width}.txt", printed[name, width]
    if request.config.option.terminal:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")

    assert text == file.read_text(encoding="utf-8")
    # No word is broken, and only a word or a command to be copied makes a line too long.
    assert sorted(text.split()) == sorted(printed[name, PIPED].split())
    for line in text.splitlines():
        assert len(line) <= width or " " not in line.strip() or line.startswith("  stoppress "), line
        assert line == line.rstrip()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_a_terminal_shows_what_the_command_prints(
    name: str, printed: dict[tuple[str, int], str], request: pytest.FixtureRequest
) -> None:
    file, console = IMAGES / f"terminal-{name}.svg", Console(record=True, width=80, file=io.StringIO())
    console.print(f"[bold]$ stoppress {' '.join(COMMANDS[name])}[/bold]", highlight=False)
    console.print(Text.from_ansi(printed[name, COLOURED]))
    title = f"stoppress {COMMANDS[name][0]}"
    picture = console.export_svg(title=title, code_format=SVG, unique_id=name)
    if request.config.option.screenshots:
        file.write_text(picture, encoding="utf-8")

    assert picture == file.read_text(encoding="utf-8"), "run: make screenshots"


@pytest.mark.parametrize("name", COMMANDS)
def test_only_states_are_coloured(name: str, printed: dict[tuple[str, int], str]) -> None:
    text = printed[name, COLOURED]
    coloured = set(re.findall(r"\x1b\[3\dm(.*?)\x1b\[0m", text))

    assert re.sub(r"\x1b\[\d+m", "", text) == printed[name, 80]
    assert coloured <= set().union(*COLOURS.values()) | {"4 problems"}
    assert coloured or name in ("quarantine-list", "sites-history")
