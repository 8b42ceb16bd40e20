"""The sitemaps of a URL: one file, or all files on its host that an index or a robots.txt at this URL names.

With --base-url the files are checked as if they were served below the base URL.
"""

import time
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from stoppress.http import address
from stoppress.http.errors import reason_of
from stoppress.model.file_names import BYTES_MAX
from stoppress_cli.check.checker import named_in
from stoppress_cli.check.findings import Findings, shown
from stoppress_cli.check.input import CHUNK_BYTES, Source
from stoppress_cli.check.one_pass import Facts
from stoppress_cli.check.value_rules import Place, place_of
from stoppress_cli.inputs.folder import Unreadable, base_place, under

USER_AGENT = "Stoppress/1 (sitemap validator)"
FILES_MAX = 500
REDIRECTS_MAX = 5
CONNECT_SECONDS_MAX = 10.0
READ_SECONDS_MAX = 30.0
FILE_SECONDS_MAX = 120.0
RUN_SECONDS_MAX = 1_800.0
_TIMEOUT = urllib3.Timeout(connect=CONNECT_SECONDS_MAX, read=READ_SECONDS_MAX)
_KEPT_HEADERS = {"content-type", "content-encoding", "cache-control"}


class Fetcher:
    """Fetches files from one host, within limits. `notes` are about files that were not fetched.

    `server` is an address and port to which every connection goes, instead of those of the URL.
    """

    def __init__(self, findings: Findings, server: tuple[str, int] | None = None) -> None:
        self._findings, self._server = findings, server
        self._pool = urllib3.PoolManager()
        self._deadline = time.monotonic() + RUN_SECONDS_MAX
        self._seen: set[str] = set()
        self._base: Place | None = None  # the place that readers see: of --base-url, else of the first URL
        self._here: str | None = None  # with --base-url: the URL prefix from which files are fetched
        self._elsewhere: set[str] = set()  # sitemaps on other hosts are not fetched
        self._is_limited = False

    def first(self, url: str, base_url: str | None = None) -> Source:
        """Fetch the file at the given URL. Raises Unreadable."""
        place = place_of(url)
        if place is None or urlsplit(url).username is not None:
            raise Unreadable(f"{url!r} is no http or https URL that can be fetched")
        self._base, stated = place, url
        if base_url is not None:
            name = urlsplit(url).path.rpartition("/")[2]
            self._base = base_place(base_url, name)
            self._here = f"{place.scheme}://{place.host}{place.directory}"
            stated = under(self._base, name)
        self._seen.add(stated)
        try:
            return self._fetch(stated, url)
        except Unreadable as error:
            raise Unreadable(f"{url} {error}") from None

    def follow(self, facts: Facts) -> Iterator[Source]:
        """Fetch the files on the same host that an index or a robots.txt names, each when it is asked for."""
        for url, line in named_in(facts):
            if url in self._seen or (address := self._address(url)) is None:
                continue
            if len(self._seen) >= FILES_MAX or time.monotonic() > self._deadline:
                self._is_limited = True
                return
            self._seen.add(url)
            try:
                yield self._fetch(url, address)
            except Unreadable as error:
                self._findings.add(facts.name, "not-served", line, f"{shown(url)} {error}")

    @property
    def notes(self) -> list[str]:
        """The sitemaps on other hosts, and whether a limit ended the run."""
        limits = f"{FILES_MAX} files or {RUN_SECONDS_MAX / 60:g} minutes are the limit: not all sitemaps were fetched"
        notes = [limits] if self._is_limited else []
        for host, number in Counter("/".join(url.split("/")[:3]) for url in sorted(self._elsewhere)).items():
            hint = "" if self._here else f"; if these files will be published there, give --base-url {host}/"
            notes.append(f"sitemaps on {host} are not fetched ({number:,}){hint}")
        return notes

    def _address(self, url: str) -> str | None:
        """Return the URL from which a sitemap is fetched; None for a sitemap that is not checked."""
        place = place_of(url)
        if place is None or self._base is None:
            return None
        if place.host != self._base.host:
            self._elsewhere.add(url)
            return None
        if self._here is None:
            return url
        if not place.path.startswith(self._base.directory):
            return None
        return self._here + _path(url).removeprefix(self._base.directory)

    def _fetch(self, stated: str, url: str) -> Source:
        """Fetch the file that readers find at the URL `stated`. Raises Unreadable unless the answer is 200."""
        try:
            answer, body, target = self._follow_redirects(url)
        except (HTTPError, OSError, ValueError) as error:
            raise Unreadable(f"cannot be fetched: {reason_of(error)}") from None
        if answer.status != 200:
            raise Unreadable(f"answers {answer.status}: put the file there, or name another URL")
        name = urlsplit(stated).path.lstrip("/") or "(home page)"
        if target != url:
            self._findings.add(name, "redirected", None, f"it redirects to {shown(target)}: name that URL instead")
        headers = {key.lower(): value for key, value in answer.headers.items() if key.lower() in _KEPT_HEADERS}
        return Source(name, stated, body, headers)

    def _follow_redirects(self, url: str) -> tuple[urllib3.BaseHTTPResponse, bytes, str]:
        """Return the last answer, its body and its URL."""
        deadline = min(self._deadline, time.monotonic() + FILE_SECONDS_MAX)
        for _ in range(REDIRECTS_MAX + 1):
            answer = self._open(url)
            try:
                location = answer.get_redirect_location()
                if not isinstance(location, str):
                    return answer, _read(answer, deadline), url
            finally:
                answer.close()
            url = _target(url, location)
        raise ValueError(f"more than {REDIRECTS_MAX} redirects")

    def _open(self, url: str) -> urllib3.BaseHTTPResponse:
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
        pool: urllib3.PoolManager | urllib3.HTTPConnectionPool = self._pool
        target = url
        if self._server:
            parts = urlsplit(url)
            pool = address.pool_at(self._server, parts.scheme, parts.hostname or "")
            headers["Host"], target = parts.netloc, _path(url)
        return pool.urlopen(
            "GET",
            target,
            headers=headers,
            retries=False,
            timeout=_TIMEOUT,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )


def _target(url: str, location: str) -> str:
    target = urljoin(url, location)
    place, here = place_of(target), place_of(url)
    if place is None or here is None or place.host != here.host:
        raise ValueError(f"it redirects to {target[:200]}, on another host: give that URL to check the files there")
    return target


def _read(answer: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    """Return the body, at most about a chunk more than the limit: the check reports a larger one."""
    body = bytearray()
    for chunk in answer.stream(CHUNK_BYTES, decode_content=False):
        if time.monotonic() > deadline:
            raise ValueError(f"it took longer than {FILE_SECONDS_MAX:g} seconds")
        body += chunk
        if len(body) > BYTES_MAX:
            break
    return bytes(body)


def _path(url: str) -> str:
    """Return the path of a URL with its query."""
    return urlsplit(url)._replace(scheme="", netloc="", fragment="").geturl()
