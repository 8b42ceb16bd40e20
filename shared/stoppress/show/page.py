"""The page of a site as HTML: a frame with the search, and its content, which the frame loads and refreshes. Pure."""

import base64
import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stoppress.model.news_window import NEWS_WINDOW, select_news, window_end
from stoppress.primitives.instants import iso, local_time, utc
from stoppress.show.read_page import SitePage
from stoppress.show.read_story import Received

# How many stories and deliveries the page shows unfolded, and how many files it shows.
UNFOLDED_MAX = 25
FILES_MAX = 20

_TEMPLATES = Path(__file__).parent / "templates"
# CSS class of the tag that shows a state; other states get `plain`.
_TONES = {
    "good": ("listed", "in the news", "in the general sitemap", "healthy"),
    "wait": ("held",),
    "bad": ("refused", "quarantined", "failing", "gone"),
}


def render_frame(host: str, question: str, content: str = "") -> str:
    """Return the HTML document. Its script loads the content and replaces it each minute; without a script give it here."""
    return _fill(
        "page.html",
        host=host,
        question=question,
        content=Markup(content),  # noqa: S704 - made by render_content
        style=_markup("page.css"),
        script=_markup("page.js"),
    )


def render_content(page: SitePage) -> str:
    """Return what the table and the files have now, as HTML for the frame."""
    zone, now, [site] = page.site.zone, page.status.at, page.status.sites

    def time(instant: datetime | None) -> Markup:
        """Return an instant in the newsroom's time zone."""
        return _time(instant, local_time(instant, zone) if instant else "never")

    def distance(instant: datetime | None) -> Markup:
        """Return an instant as the time until then, or since then. The script keeps it current."""
        return _time(
            instant, _distance(instant, now) if instant else "never", title=local_time(instant, zone) if instant else ""
        )

    files = sorted(site["files"], key=itemgetter("changed"), reverse=True)
    return _fill(
        "content.html",
        page=page,
        site=site,
        story=page.story,
        stories=select_news(page.news, page.site, now),
        coming=[(held.release or held.published_at, held) for held in page.coming],
        deliveries=fold_deliveries(page.deliveries),
        files=files,
        waiting=sum(queue.messages for queue in page.status.queues if not queue.dead),
        unfolded_max=UNFOLDED_MAX,
        files_max=FILES_MAX,
        time=time,
        distance=distance,
        zone=page.site.timezone,
        left=lambda entry: f"{(window_end(entry.published) - now) / NEWS_WINDOW * 100:.0f}",
        leaves_at=lambda entry: window_end(entry.published),
    )


def fold_deliveries(deliveries: Iterable[Received]) -> list[tuple[Received, int]]:
    """Return the newest of equal deliveries, each with their number. Deliveries of a story are equal if no reader could tell them apart."""
    rows: dict[tuple[str, ...], list[Received]] = {}
    for delivery in deliveries:
        source = delivery.by.partition("#")[0]
        rows.setdefault((source, delivery.action, delivery.outcome, delivery.reason, delivery.url or ""), []).append(
            delivery
        )
    return [(equal[0], len(equal)) for equal in rows.values()]


def headers() -> dict[str, str]:
    """The headers of the page: nobody may store, index or frame it. It loads nothing and runs only its own script."""
    return {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "content-security-policy": (
            f"default-src 'none'; style-src {_source('page.css')}; script-src {_source('page.js')}; connect-src 'self';"
            " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        ),
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow, noarchive",
    }


@cache
def _text(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _source(name: str) -> str:
    """The CSP source of an inline style or script: the SHA-256 of its text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(_text(name).encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(path=_path, tone=_tone)
    return environment


def _tone(state: str) -> str:
    return next((tone for tone, states in _TONES.items() if state in states), "plain")


def _path(url: str) -> str:
    """Path and query of a URL; any other text unchanged."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a refused delivery may name anything
        return url
    return f"{parts.path}{f'?{parts.query}' if parts.query else ''}" if parts.scheme else url


def _fill(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


def _markup(name: str) -> Markup:
    return Markup(_text(name))  # noqa: S704 - a file of this package


def _time(instant: datetime | None, text: str, *, title: str = "") -> Markup:
    if instant is None:
        return Markup("{}").format(text)
    attributes = Markup(' title="{}" data-relative').format(title) if title else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(iso(instant), attributes, text)


def _distance(instant: datetime, now: datetime) -> str:
    """`in 3 h 12 min`, `5 min ago`. `page.js` must write the same words."""
    minutes = abs(utc(instant) - now) // timedelta(minutes=1)
    if minutes < 1:
        return "now"
    days, hours = minutes // 1_440, minutes // 60
    text = f"{days} days" if days > 2 else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
    return f"in {text}" if instant > now else f"{text} ago"
