"""The page of a site as HTML: one story's answer, the news window, deliveries, files, feeds and quarantine. Pure."""

import base64
import hashlib
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stoppress.model.news_window import NEWS_WINDOW, select_news, window_end
from stoppress.primitives.instants import iso, utc
from stoppress.show.read_page import SitePage

# How many stories and files the page shows.
STORIES_MAX = 200
FILES_MAX = 20

_TEMPLATES = Path(__file__).parent / "templates"
# CSS class of the tag that shows an outcome; other outcomes get `bad`.
_TONES = {"listed": "good", "held": "wait", "duplicate": "plain", "late": "plain", "ignored": "plain"}


def render(page: SitePage) -> str:
    """The page as HTML. It loads no other file."""
    zone, now, [site] = page.site.zone, page.status.at, page.status.sites

    def time(instant: datetime | None) -> Markup:
        """An instant in the newsroom's time zone."""
        return _time(instant, _local(instant, zone, now) if instant else "never")

    def distance(instant: datetime | None) -> Markup:
        """An instant as the time until then, or since then. The script keeps it current."""
        return _time(instant, _distance(instant, now) if instant else "never", relative=True)

    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            site=site,
            story=page.story,
            stories=select_news(page.news, page.site, now),
            files=sorted(site["files"], key=itemgetter("changed"), reverse=True),
            stories_max=STORIES_MAX,
            files_max=FILES_MAX,
            time=time,
            distance=distance,
            zone=page.site.timezone,
            left=lambda entry: f"{(window_end(entry.published) - now) / NEWS_WINDOW * 100:.2f}",
            leaves_at=lambda entry: window_end(entry.published),
            style=Markup(_text("page.css")),  # noqa: S704 - a file of this package
            script=Markup(_text("page.js")),  # noqa: S704 - a file of this package
        )
    )


def headers() -> dict[str, str]:
    """The headers of the page: nobody may store, index or frame it. It loads nothing and runs only its own script."""
    return {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "content-security-policy": (
            f"default-src 'none'; style-src {_source('page.css')}; script-src {_source('page.js')}; form-action 'self';"
            " base-uri 'none'; frame-ancestors 'none'"
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
    environment.filters.update(path=_path, tone=lambda outcome: _TONES.get(outcome, "bad"))
    return environment


def _path(url: str) -> str:
    """Path and query of a URL; any other text unchanged."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a refused delivery may name anything
        return url
    return f"{parts.path}{f'?{parts.query}' if parts.query else ''}" if parts.scheme else url


def _time(instant: datetime | None, text: str, *, relative: bool = False) -> Markup:
    if instant is None:
        return Markup("{}").format(text)
    attribute = Markup(" data-relative") if relative else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(iso(instant), attribute, text)


def _local(instant: datetime, zone: ZoneInfo, now: datetime) -> str:
    local = instant.astimezone(zone)
    year = f" {local.year}" if local.year != now.astimezone(zone).year else ""
    return f"{local.day} {local:%b}{year} {local:%H:%M} {local:%Z}"


def _distance(instant: datetime, now: datetime) -> str:
    """`in 3 h 12 min`, `5 min ago`. `page.js` must write the same words."""
    minutes = abs(utc(instant) - now) // timedelta(minutes=1)
    if minutes < 1:
        return "now"
    days, hours = minutes // 1_440, minutes // 60
    text = f"{days} days" if days > 2 else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
    return f"in {text}" if instant > now else f"{text} ago"
