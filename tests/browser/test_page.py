"""The editors' page in Chromium: is my story listed, why not, when does it leave, and which stories come next?

The tests use the machine's Chromium (Debian's package `chromium`). Without it, or without playwright, these tests are skipped.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario import player
from tests.browser.page_states import STATES
from tests.support import playing
from tests.support.operated import CMS, HOST, MADE, SITE, event, serving, url
from tests.support.playing import TEMPLATE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

IMAGES = Path(__file__).parents[2] / "docs/images"
WIDTHS = (390, 768, 1_280, 1_920)
# The screenshots of the documentation, each with its state and width.
SCREENSHOTS = {
    "page.png": ("200 stories", 1_280),
    "page-answer.png": ("wrong signature", 1_280),
    "page-telephone.png": ("held", 390),
}
HEIGHT_MAX = {390: 9_000, 768: 5_000, 1_280: 3_500, 1_920: 3_500}
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
RULES = [{"exclude": "all", "section": "advertorial"}]
STEPS = [
    MADE[0],
    {"site": SITE | {"rules": RULES}},
    event(0, "1", "news/flood"),
    event(1, "2", "news/offer", title="The best mattresses", section="advertorial"),
    event(1, "3", "news/undated", title="Ferry sails", published_at="yesterday"),
    event(2, "4", "news/report", title="The secret report", published_at="2026-11-20T14:00:00Z"),
    event(2, "5", "news/mistake", title="Mayor resigns"),
    event(3, "5", "news/mistake", kind="article.deleted"),
    event(3, "6", "news/private", title="Wedding photos", noindex=True),
    event(3, "7", "news/old", title="Storm of last week", published_at="2026-11-13T12:00:00Z"),
    {"at": "2026-11-20T12:04:00Z", "post": CMS, "body": {"type": "article.published"}, "sign": False},
    {"at": "2026-11-20T12:04:01Z", "post": CMS, "body": {"type": "article.published"},
     "headers": {"webhook-id": "m", "webhook-timestamp": "1795176241", "webhook-signature": "v1,AAAA"}},
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH: install Debian's package chromium")
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: run make .venv/installed-dev")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(chromium: "Browser", tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page of a stack in which each kind of delivery was received."""
    lines, folder = playing.written(STEPS), tmp_path_factory.mktemp("page")
    with Stack(TEMPLATE, start=lines[0].at) as stack:
        with player.playing(stack, folder / "made.jsonl", folder, lambda _line, _text: None) as scenario:
            scenario.play(lines)
        with serving(stack) as server:
            yield next(page for page in server.pages() if HOST in page)


@pytest.fixture
def page(chromium: "Browser", address: str) -> Iterator["Page"]:
    opened = chromium.new_page()
    messages: list[str] = []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.goto(address)
    opened.wait_for_selector("#read-at")
    yield opened
    opened.close()
    assert [text for text in messages if "503" not in text] == []  # the page's Content-Security-Policy blocked nothing


def ask(page: "Page", words: str) -> str:
    """Return the answer to a question, which takes two actions: type it, and press Enter."""
    page.get_by_role("searchbox", name="Find a story").fill(words)
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer")
    return page.locator("#answer").inner_text()


def find_violations(page: "Page", **options: Any) -> list[str]:
    """Return the violations that axe-core finds, of all rules or with axe's options."""
    from axe_playwright_python.sync_playwright import Axe

    violations: list[dict[str, Any]] = (
        Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    )
    return [f"{violation['id']}: {node['html']}" for violation in violations for node in violation["nodes"]]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("flood closes", "In the news sitemap: yes"),
        ("flood closes", "leaves"),
        ("mattresses", "rule 1 of the site (section advertorial) excludes it"),
        ("ferry sails", "was refused: published_at"),
        ("secret report", "is held until 2026-11-20 14:00:00 +00:00"),
        ("mayor resigns", "its source removed article cms#5"),
        ("wedding", "the page asks not to be indexed"),
        ("news/old", "it was published more than 48 hours ago"),
        (url("news/never-sent"), "no event has mentioned this URL"),
        (url("news/never-sent"), "had a wrong signature today"),
    ],
)
def test_an_editor_has_the_answer_after_two_actions(page: "Page", words: str, answer: str) -> None:
    text = ask(page, words)

    assert answer in text or (answer == "leaves" and "until 2026-11-22 12:00:00 +00:00" in text)


def test_the_form_also_answers_for_an_earlier_moment(page: "Page") -> None:
    page.get_by_text("At an earlier time").click()
    page.get_by_label("Date and time").fill("2026-11-20T12:00")

    assert "In a sitemap at 2026-11-20 12:00:00 +00:00" in ask(page, "flood closes")
    assert page.get_by_label("Date and time").input_value() == "2026-11-20T12:00"


def test_coming_stories_are_shown_without_a_question(page: "Page") -> None:
    coming = page.get_by_role("region", name="Coming up").inner_text()

    assert "The secret report" in coming
    assert "2026-11-20 14:00:00 +00:00" in coming


@pytest.mark.parametrize("state", STATES)
def test_each_state_fits_every_screen_and_axe_finds_no_violation(
    chromium: "Browser", state: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "page.html").write_text(STATES[state], encoding="utf-8")
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
            assert size[0] <= width
            assert size[1] <= HEIGHT_MAX[width]
            small = page.evaluate(
                "[...document.querySelectorAll('a, button, input, summary')].filter((target) => target.offsetParent"
                " && target.className !== 'skip' && target.getBoundingClientRect().height < 24).map((target) => target.outerHTML)"
            )
            assert small == []  # WCAG 2.2, 2.5.8: targets have 24 pixels
            for name, shown in SCREENSHOTS.items():
                if request.config.getoption("--screenshots") and shown == (state, width):
                    page.screenshot(path=IMAGES / name)
        assert find_violations(page) == []
        page.emulate_media(color_scheme="dark")
        assert find_violations(page, runOnly=["color-contrast", "link-in-text-block"]) == []


def test_the_page_works_by_keyboard_alone(page: "Page") -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Tab")
    page.keyboard.type(url("news/flood"))
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer")

    assert "In the news sitemap: yes" in page.locator("#answer").inner_text()


def test_the_page_works_without_a_script(chromium: "Browser", address: str) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}?q=flood")
        page.wait_for_selector("#answer")

        assert "In the news sitemap: yes" in page.locator("#answer").inner_text()


def test_a_failed_refresh_offers_a_retry_and_keeps_the_typed_text(page: "Page") -> None:
    field = page.get_by_role("searchbox", name="Find a story")
    field.fill("half a ques")
    page.get_by_role("searchbox", name="Filter").fill("flood")
    page.route("**/*part=content*", lambda route: route.fulfill(status=503))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # it refreshes when the reader comes back
    page.wait_for_selector("#failed:not([hidden])")
    assert "cannot be read" in page.locator("#failed").inner_text()
    assert "Flood" in page.get_by_role("region", name="In the news sitemap").inner_text()

    page.unroute("**/*part=content*")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#failed", state="hidden")
    assert (field.input_value(), page.get_by_role("searchbox", name="Filter").input_value()) == (
        "half a ques",
        "flood",
    )
