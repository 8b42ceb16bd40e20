"""An editor with the page, in Chromium: is my story in, why not, and when does it leave?

The Chromium is the machine's (Debian's package `chromium`). Without it, or without playwright, these tests are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stoppress_cli.scenario.signing import standard

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
HOST = "www.example.com"
SECRET = "whsec_c3RvcHByZXNzLWRlbW8tc2VjcmV0LTI0Yg=="  # of the demo
STORY = f"https://{HOST}/news/bridge-opens"
WIDTHS = (400, 1_400)
CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",  # a container has no user namespaces
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The page of the demo, served by a process of its own, because the last test moves that process's clock."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH: install Debian's package chromium")
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: run make .venv/installed-dev")
    command = [sys.executable, "-m", "stoppress_cli", "demo", "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as demo:  # noqa: S603 - itself
        assert demo.stdout
        addresses = (re.search(rf"http://\S+/sites/{HOST}/\S+", line) for line in demo.stdout)
        yield next(match[0] for match in addresses if match)
        demo.terminate()
        demo.stdout.read()


@pytest.fixture(scope="module")
def chromium(address: str) -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: "Browser", address: str) -> Iterator["Page"]:
    opened = chromium.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(address)
    yield opened
    opened.close()
    assert complaints == []  # the policy of the page refused nothing


def ask(page: "Page", address: str) -> str:
    """The answer to the question whether a story is in."""
    page.get_by_label("Address of the story, or a part of it").fill(address)
    page.get_by_role("button", name="Look").click()
    return page.locator("#answer").inner_text()


def news_file(address: str) -> str:
    with urllib.request.urlopen(address.partition("/sites/")[0] + "/sitemap-news.xml") as answer:  # noqa: S310 - loopback
        return str(answer.read().decode())


def send(page: "Page", kind: str, url: str, title: str = "") -> None:
    """Have the webhook of the demo receive an event of a story, and load the page when the files follow."""
    now = datetime.now(UTC)
    data = {"id": url, "url": url} | ({"title": title, "published_at": now.isoformat()} if title else {})
    body = json.dumps({"type": kind, "timestamp": now.isoformat(), "data": data}).encode()
    headers = {"content-type": "application/json", **standard(SECRET, {}, body, f"msg_{now.timestamp()}", now)}
    server = page.url.partition("/sites/")[0]
    urllib.request.urlopen(urllib.request.Request(f"{server}/webhooks/{HOST}/cms", body, headers)).read()  # noqa: S310 - loopback
    deadline = time.monotonic() + 20
    while (f"<loc>{url}<" in news_file(page.url)) is not bool(title):
        assert time.monotonic() < deadline, url
        time.sleep(0.2)
    page.goto(page.url)


def window(page: "Page") -> str:
    return page.get_by_role("region", name="In the news now").inner_text()


def barriers(page: "Page") -> list[str]:
    """What axe-core finds that is serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {node['html']}"
        for violation in violations
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def test_a_long_word_does_not_make_the_page_wider_than_a_telephone(page: "Page") -> None:
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    url = f"https://{HOST}/{'long-' * 40}"
    send(page, "article.published", url, "Donaudampfschifffahrtsgesellschaftskapitänsmützenverordnung")
    assert "Donaudampf" in window(page)

    assert page.evaluate("document.documentElement.scrollWidth") == WIDTHS[0]
    send(page, "article.unpublished", url)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_no_barrier_and_the_page_fits(
    chromium: "Browser", address: str, width: int, scheme: Any, request: pytest.FixtureRequest
) -> None:
    with chromium.new_context(viewport={"width": width, "height": 1_600}, color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(address)
        ask(page, f"https://{HOST}/news/flood-closes-the-harbour")

        assert barriers(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if request.config.getoption("--screenshots") and scheme == "light":
            IMAGES.mkdir(exist_ok=True)
            page.screenshot(path=IMAGES / f"page-{width}.png", full_page=width == WIDTHS[-1])


def test_the_page_works_by_keyboard_alone(page: "Page") -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type(f"https://{HOST}/news/ferry-sails-again")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**?q=*")

    assert "In the news sitemap: yes" in page.locator("#answer").inner_text()


def test_the_page_works_without_a_script(chromium: "Browser", address: str) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(address)

        assert "yes" in ask(page, "ferry-sails-again")
        assert "leaves in 47 h" in window(page)


# The clock moves: this test comes last.
def test_a_story_is_published_and_leaves_48_hours_later(page: "Page", address: str) -> None:
    send(page, "article.published", STORY, "Bridge <b>opens</b>")
    assert "In the news sitemap: yes" in ask(page, STORY)
    assert "Bridge" in window(page)

    send(page, "article.unpublished", STORY)
    assert "Bridge" not in window(page)
    send(page, "article.published", STORY, "Bridge opens again")
    assert "Bridge opens again" in window(page)

    page.goto(address.partition("/sites/")[0])
    page.get_by_role("button", name="+48 h").click()
    page.goto(address)
    assert "none was published in the last 48 hours" in window(page)
    assert STORY not in news_file(address)
    assert "the window ended" in ask(page, STORY)
