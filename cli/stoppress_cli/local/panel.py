"""What the page of a site has only on a local stack: forms that publish, edit and unpublish articles, and that move the clock.

A form becomes a webhook to the stack's own API. It is signed with the secret of the site's first source with the
adapter `standard`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit

from botocore.exceptions import ClientError
from jinja2 import Environment, StrictUndefined

from stoppress.aws import sites, table
from stoppress.aws.items import claim_key
from stoppress.model.site import BadConfiguration, Site
from stoppress.model.site_sources import secret_path
from stoppress.primitives.instants import iso
from stoppress.show.read_page import PAGE_SECRET, is_page_token, page_token
from stoppress_cli.local.gateway import Answer, Request
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.signing import standard

# How far a button moves the clock, in hours.
HOURS = (1, 12, 48)
ACTIONS = {"publish": "article.published", "edit": "article.updated", "unpublish": "article.unpublished"}
BODY_BYTES_MAX = 10_000
# The forms come before this part of the page.
_BEFORE = b'<div class="columns">'

_FORM = re.compile(r"(?P<page>/sites/(?P<host>[^/]+)/(?P<token>[^/]+))/(?P<form>article|clock)")
_JINJA = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_TEMPLATE = _JINJA.from_string(Path(__file__).with_name("panel.html").read_text(encoding="utf-8"))


class Panel:
    """The forms on the pages of a stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def addresses(self, base: str) -> list[str]:
        """Return the addresses of the pages of all sites. `base` is the server's URL, with a slash at its end."""
        secrets = self._secrets(PAGE_SECRET)
        with self._stack.as_operator():
            hosts = sites.hosts() if secrets else []
        return [f"{base}sites/{host}/{page_token(secrets[0], host)}" for host in hosts]

    def takes(self, request: Request) -> bool:
        """Return True if a request is a form of a page."""
        return request.method == "POST" and request.path.startswith("/sites/")

    def extended(self, request: Request, answer: Answer) -> Answer:
        """Return the answer to a request, with the forms if it is a page."""
        if answer.status != 200 or not request.path.startswith("/sites/"):
            return answer
        site = self._site(request.path.split("/")[2])
        if site is None:
            return answer
        question = dict(parse_qsl(request.query)).get("q", "")
        forms = _TEMPLATE.render(
            action=f"{request.path.rstrip('/')}/",
            can_publish=_source(site) is not None,
            hours=HOURS,
            url=question if question.startswith(site.home) else site.home,
        )
        before, place, after = answer.body.partition(_BEFORE)
        # Under `no-referrer` a browser sends its forms with the origin `null`.
        headers = {**answer.headers, "referrer-policy": "same-origin"}
        return replace(answer, headers=headers, body=before + forms.encode() + place + after)

    def answer(self, request: Request) -> Answer:
        """Do what a form asks for, let the stack come to rest, and redirect to the page."""
        if not _is_own(request.headers):
            return _text(403, "A form is taken only from a page of this server.")
        form = _FORM.fullmatch(request.path)
        is_page = form is not None and is_page_token(form["token"], self._secrets(PAGE_SECRET), form["host"])
        site = self._site(form["host"]) if form and is_page else None
        if form is None or site is None or len(request.body) > BODY_BYTES_MAX:
            return _text(404, "There is no such form: open the page again.")
        fields = dict(parse_qsl(request.body.decode(errors="replace")))
        return self._move(form["page"], fields) if form["form"] == "clock" else self._send(form["page"], site, fields)

    def _move(self, page: str, fields: Mapping[str, str]) -> Answer:
        hours = fields.get("hours", "")
        if hours not in map(str, HOURS):
            return _text(400, f"hours: give one of {', '.join(map(str, HOURS))}.")
        self._stack.clock.jump(timedelta(hours=int(hours)))
        self._stack.come_due()
        return _redirect(page)

    def _send(self, page: str, site: Site, fields: Mapping[str, str]) -> Answer:
        kind, source = ACTIONS.get(fields.get("do", "")), _source(site)
        if kind is None or source is None:
            return _text(400, f"do: give one of {', '.join(ACTIONS)}.")
        try:
            url = urljoin(site.home, fields.get("url", "").strip())
        except ValueError as error:
            return _text(400, f"url: {error}: give the address of a story, such as {site.home}flood.")
        secrets = self._secrets(secret_path("webhooks", site.host, site.sources[source].secret or ""))
        if not secrets:
            command = f"stoppress secrets put {site.host} {source}"
            return _text(503, f"The source {source} has no secret: make one with `{command}`.")
        now, data = self._stack.clock.now(), {"id": self._article(site, source, url), "url": url}
        if fields.get("title"):
            data["title"] = fields["title"]
        if kind == "article.published" and "dated" in fields:
            data["published_at"] = iso(now)
        if kind == "article.updated":
            data["updated_at"] = iso(now)
        body = json.dumps({"type": kind, "timestamp": now.isoformat(), "data": data}).encode()
        headers = standard(secrets[0], {}, body, f"panel-{now.timestamp()}", now) | {"content-type": "application/json"}
        answer = self._stack.request(Request("POST", f"/webhooks/{site.host}/{source}", "", headers, body))
        if answer.status >= 500:
            return answer
        self._stack.come_due()
        return _redirect(f"{page}?{urlencode({'q': url}, quote_via=quote)}")

    def _article(self, site: Site, source: str, url: str) -> str:
        """Return the id of the source's article at a URL. The id of a new article is the path."""
        try:
            with self._stack.as_operator():
                owner = str((table.get(*claim_key(site.host, url)) or {}).get("owner", ""))
        except ValueError:  # the webhook answers what is wrong with the URL
            owner = ""
        name, _, article = owner.partition("#")
        return article if name == source and article else urlsplit(url).path.strip("/") or "home"

    def _site(self, host: str) -> Site | None:
        with self._stack.as_operator():
            try:
                return sites.load(host)
            except (sites.UnknownSite, BadConfiguration):
                return None

    def _secrets(self, name: str) -> list[str]:
        """Return the secrets under a name; none if it does not exist. The page's exists only if the parameter StatusPage is yes."""
        full = f"{self._stack.variable('SECRETS_PATH')}/{name}"
        try:
            text: str = self._stack.client("secretsmanager").get_secret_value(SecretId=full)["SecretString"]
        except ClientError:
            return []
        return text.split()


def _source(site: Site) -> str | None:
    """Return the first source that takes our own format, signed."""
    return next((name for name, each in site.sources.items() if each.adapter == "standard" and each.secret), None)


def _is_own(headers: Mapping[str, str]) -> bool:
    """Return True if a page of this server sent the form.

    The origin must be the server, and the server's name an IP address or `localhost`: anyone can let another name point
    to this machine.
    """
    host = headers.get("host", "")
    try:
        name = urlsplit(f"http://{host}").hostname or ""
        if name != "localhost":
            ip_address(name)
    except ValueError:
        return False
    return headers.get("origin") == f"http://{host}"


def _redirect(address: str) -> Answer:
    return Answer(303, {"location": address, "cache-control": "no-store"}, b"")


def _text(status: int, text: str) -> Answer:
    return Answer(status, {"content-type": "text/plain; charset=utf-8"}, f"{text}\n".encode())
