"""The page of a site: its content, and the protection against untrusted text."""

import base64
import hashlib
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from stoppress.model.entries import NewsEntry
from stoppress.model.site import Site
from stoppress.show.page import _path, fold_deliveries, headers, render_content, render_frame
from stoppress.show.read_page import SitePage, is_page_token, page_token
from stoppress.show.read_site import Quarantine, SiteFacts, StackFacts, Unknown
from stoppress.show.read_story import Facts, Received
from stoppress.show.stack_status import Access, stack_status
from stoppress.show.story import answer_story

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOST = "www.example.com"
SITE = Site.model_validate({"host": HOST, "publication": "News", "timezone": "Europe/Paris"})
EMPTY = Quarantine()
HOSTILE = '<script>alert(1)</script><img src=x onerror="a">\'"&{{ 7 * 7 }}'


def entry(path: str, hours: float = 1, title: str = "Flood") -> NewsEntry:
    return NewsEntry(f"https://{HOST}/{path}", title, NOW - timedelta(hours=hours))


def page(*news: NewsEntry, quarantine: Quarantine = EMPTY, unknown: Any = (), question: str = "", **more: Any) -> str:
    facts = SiteFacts(SITE, {}, (), (), news, None, quarantine)
    status = stack_status(StackFacts((facts,), rolled_at=NOW, unknown=unknown), NOW, Access())
    return render_frame(HOST, question, render_content(SitePage(SITE, status, news, **more)))


def story(url: str) -> Any:
    return answer_story(Facts(asked=url, site=SITE, url=url, general={}), NOW)


class Tags(HTMLParser):
    """The tags of a page, each with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))


def everything_hostile() -> str:
    return page(
        entry(f"a?{HOSTILE}", title=HOSTILE),
        quarantine=Quarantine(1, newest_at=NOW, newest_reason=HOSTILE),
        unknown=(Unknown("secrets", HOSTILE),),
        deliveries=(Received(NOW, HOSTILE, HOSTILE, HOSTILE, HOSTILE, url=HOSTILE),),
        quarantined=(Received(NOW, "", "", "quarantined", HOSTILE),),
        question=HOSTILE,
        answer=story(f"https://{HOST}/{HOSTILE}"),
    )


def test_untrusted_text_is_escaped() -> None:
    harmless = Tags(page()).all
    hostile = Tags(everything_hostile()).all

    assert [tag for tag, _ in hostile].count("script") == [tag for tag, _ in harmless].count("script") == 1
    assert "img" not in {tag for tag, _ in hostile}
    assert "{{ 7 * 7 }}" in everything_hostile()


def test_the_page_has_no_inline_attribute_that_its_policy_forbids() -> None:
    names = {name for _, attributes in Tags(everything_hostile()).all for name in attributes}

    assert not {name for name in names if name == "style" or name.startswith("on")}


def test_the_policy_contains_the_hashes_of_style_and_script() -> None:
    html, policy = page(), headers()["content-security-policy"]
    for tag in ("style", "script"):
        [text] = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy

    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy


def test_the_page_loads_nothing_and_links_only_to_itself() -> None:
    for tag, attributes in Tags(everything_hostile()).all:
        for name in ("src", "href", "action", "srcset"):
            target = attributes.get(name) or ""
            assert not target or target.startswith(("?", "#")), (tag, target)
    assert "@import" not in page()
    assert "url(" not in page()


def test_a_story_shows_when_it_leaves_in_the_time_zone_of_the_newsroom() -> None:
    html = page(entry("a", hours=47))

    leaves = (
        '<time datetime="2026-11-20T13:00:00Z" title="2026-11-20 14:00:00 +01:00" data-relative>in 1 h 0 min</time>'
    )
    assert leaves in html
    assert 'class="rest" width="2"' in html


def test_the_page_forbids_caching_indexing_and_framing() -> None:
    sent = headers()

    assert sent["cache-control"] == "no-store"
    assert sent["x-robots-tag"].startswith("noindex")
    assert sent["x-frame-options"] == "DENY"
    assert sent["referrer-policy"] == "no-referrer"
    assert '<meta name="robots" content="noindex' in page()


OLD, NEW = page_token("old-secret", HOST), page_token("new-secret", HOST)


@pytest.mark.parametrize(
    ("token", "secrets", "host", "is_valid"),
    [
        (NEW, ["new-secret"], HOST, True),
        (OLD, ["new-secret", "old-secret"], HOST, True),  # while the secret is rotated
        (OLD, ["new-secret"], HOST, False),
        *((NEW, ["new-secret"], host, False) for host in ("other.example.com", f"{HOST}.", "")),
        *((text, ["new-secret"], HOST, False) for text in ("", "x", "ä" * 43, f"{NEW}=", "\ud800" * 43)),
    ],
)
def test_a_token_is_valid_for_its_host_and_the_stacks_secrets(
    token: str, secrets: list[str], host: str, *, is_valid: bool
) -> None:
    assert is_page_token(token, lambda: secrets, host) is is_valid


@pytest.mark.parametrize(
    ("address", "shown"),
    [("https://www.example.com/a?b=1", "/a?b=1"), ("https://[draft]/a", "https://[draft]/a"), ("42", "42")],
)
def test_a_refused_address_is_shown_even_if_it_is_no_url(address: str, shown: str) -> None:
    assert _path(address) == shown


def test_equal_deliveries_are_one_row_with_their_number_and_the_newest_time() -> None:
    ignored = [Received(NOW - timedelta(minutes=minute), "", "cms", "ignored", "user.created") for minute in range(6)]
    other = Received(NOW, "publish", "cms#7", "listed", url=f"https://{HOST}/a")

    assert fold_deliveries([other, *ignored]) == [(other, 1), (ignored[0], 6)]
