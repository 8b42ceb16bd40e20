"""The page of a site as HTML: a frame with the search, and its content, which the frame loads and refreshes. Pure."""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stoppress.model.news_window import NEWS_WINDOW, select_news, window_end
from stoppress.primitives.instants import iso, local_time, utc
from stoppress.show.read_page import SitePage
from stoppress.show.read_story import Received

# How many stories and deliveries the page shows unfolded, and how many files and matches it shows.
UNFOLDED_MAX = 25
FILES_MAX = 20
MATCHES_MAX = 50

_TEMPLATES = Path(__file__).parent / "templates"
# CSS class of the tag that shows a state; other states get `plain`.
_TONES = {
    **dict.fromkeys(("listed", "in the news", "in the general sitemap", "healthy"), "good"),
    "held": "wait",
    **dict.fromkeys(("refused", "quarantined", "failing", "gone"), "bad"),
}


def render_frame(host: str, question: str, content: str = "", moment: str = "") -> str:
    """Return the HTML document. Its script loads the content and replaces it each minute; without a script give it here."""
    return _ENVIRONMENT.get_template("page.html").render(
        host=host,
        question=question,
        moment=moment,
        content=Markup(content),  # noqa: S704 - rendered by render_content
        style=_read("page.css"),
        script=_read("page.js"),
    )


def render_content(page: SitePage) -> str:
    """Return the present state of the table and the files as HTML for the frame. Its times are in the newsroom's time zone."""
    [site] = page.status.sites
    return _ENVIRONMENT.get_template("content.html").render(
        page=page,
        site=site,
        matches_max=MATCHES_MAX,
        stories=select_news(page.news, page.site, page.status.at),
        deliveries=fold_deliveries(page.deliveries),
        unfolded_max=UNFOLDED_MAX,
        files_max=FILES_MAX,
        local=lambda instant: local_time(instant, page.site.zone),
        window=NEWS_WINDOW,
        window_end=window_end,
    )


def fold_deliveries(deliveries: Iterable[Received]) -> list[tuple[Received, int]]:
    """Return the newest of equal deliveries, each with their number. Deliveries of a story are equal if they look the same."""
    rows: defaultdict[tuple[str, ...], list[Received]] = defaultdict(list)
    for delivery in deliveries:
        source = delivery.by.partition("#")[0]
        rows[source, delivery.action, delivery.outcome, delivery.reason, delivery.url or ""].append(delivery)
    return [(equal[0], len(equal)) for equal in rows.values()]


def headers() -> dict[str, str]:
    """Return the headers of the page: it must not be stored, indexed or framed. It loads nothing and runs only its own script."""
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
def _read(name: str) -> Markup:
    return Markup((_TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - a file of this package


def _source(name: str) -> str:
    """Return the CSP source of an inline style or script: the SHA-256 of its text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(_read(name).encode()).digest()).decode()}'"


def _path(url: str) -> str:
    """Return path and query of a URL; any other text unchanged."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a refused delivery may have any text
        return url
    return f"{parts.path}{f'?{parts.query}' if parts.query else ''}" if parts.scheme else url


def _distance(instant: datetime, now: datetime) -> str:
    """Return `in 3 h 12 min`, `5 min ago`, `just now`. `page.js` must write the same words."""
    minutes = abs(utc(instant) - now) // timedelta(minutes=1)
    if minutes < 1:
        return "now" if instant > now else "just now"
    days, hours = minutes // 1_440, minutes // 60
    text = f"{days} days" if days > 2 else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
    return f"in {text}" if instant > now else f"{text} ago"


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "capital": lambda text: text[:1].upper() + text[1:],
    "iso": iso,
    "distance": _distance,
    "path": _path,
    "tone": lambda state: _TONES.get(state, "plain"),
}
