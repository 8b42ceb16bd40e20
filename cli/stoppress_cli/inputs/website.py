"""The sitemaps of a URL: one file, or all files on its host that an index or a robots.txt at this URL names.

With --base-url the files are checked as if they were served below the base URL.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from stoppress.http import address
from stoppress.http.errors import reason_of
from stoppress.model.places import BYTES_MAX
from stoppress_cli.check.checker import named_in
from stoppress_cli.check.findings import Findings, shown
from stoppress_cli.check.input import CHUNK_BYTES, Source
from stoppress_cli.check.one_pass import Facts
from stoppress_cli.check.values import Place, place_of
from stoppress_cli.inputs.folder import Unreadable, base_place, of_file

USER_AGENT = "Stoppress/1 (sitemap validator)"
FILES_MAX = 500
REDIRECTS_MAX = 5
CONNECT_SECONDS_MAX = 10.0
READ_SECONDS_MAX = 30.0
FILE_SECONDS_MAX = 120.0
RUN_SECONDS_MAX = 1_800.0
_TIMEOUT = urllib3.Timeout(connect=CONNECT_SECONDS_MAX, read=READ_SECONDS_MAX)
_KEPT_HEADERS = {"content-type", "content-encoding", "cache-control"}


@dataclass
class _Fetched:
    """An answer: status, headers, the file that holds the body, and the URL after redirects."""

    status: int
    headers: dict[str, str]
    path: Path
    url: str


class Fetcher:
    """Fetches files from one host into a folder, within limits."""

    def __init__(
        self, folder: Path, findings: Findings, notes: list[str], server: tuple[str, int] | None = None
    ) -> None:
        """`server` is an address and port to which every connection goes, instead of those of the URL."""
        self._folder, self._findings, self._notes, self._server = folder, findings, notes, server
        self._pool = urllib3.PoolManager()
        self._deadline = time.monotonic() + RUN_SECONDS_MAX
        self._seen: set[str] = set()
        self._base: Place | None = None  # the place that readers see: of --base-url, else of the first URL
        self._here: str | None = None  # with --base-url: the URL prefix from which files are fetched
        self._elsewhere: set[str] = set()  # sitemaps on other hosts are not fetched

    def first(self, url: str, base_url: str | None = None) -> Source:
        """The file at the given URL. Raises Unreadable."""
        place = place_of(url)
        if place is None or urlsplit(url).username is not None:
            raise Unreadable(f"{url!r} is no http or https URL that can be fetched")
        self._base, stated = place, url
        if base_url is not None:
            self._base = base_place(base_url)
            self._here = f"{place.scheme}://{place.host}{place.directory}"
            stated = of_file(base_url, _path(url).rpartition("/")[2])
        self._seen.add(stated)
        try:
            fetched = self._fetch(url)
        except (HTTPError, OSError, ValueError) as error:
            raise Unreadable(f"{url} cannot be fetched: {reason_of(error)}") from None
        if fetched.status != 200:
            raise Unreadable(f"{url} answers {fetched.status}: name a URL that answers 200")
        return self._source(stated, url, fetched)

    def follow(self, facts: Facts) -> Iterator[Source]:
        """The files on the same host that an index or a robots.txt names."""
        for url, line in named_in(facts):
            if url in self._seen or (address := self._address(url)) is None:
                continue
            if len(self._seen) >= FILES_MAX or time.monotonic() > self._deadline:
                self._notes.append(
                    f"{FILES_MAX} files or {RUN_SECONDS_MAX / 60:g} minutes are the limit: not all sitemaps were fetched"
                )
                return
            self._seen.add(url)
            try:
                fetched = self._fetch(address)
            except (HTTPError, OSError, ValueError) as error:
                message = f"{shown(url)} cannot be fetched: {reason_of(error)}"
                self._findings.add(facts.name, "not-served", line, message)
                continue
            if fetched.status != 200:
                message = f"{shown(url)} answers {fetched.status}: put it there, or take it out"
                self._findings.add(facts.name, "not-served", line, message)
                continue
            yield self._source(url, address, fetched)

    def _address(self, url: str) -> str | None:
        """The URL from which a sitemap is fetched; None for a sitemap that is not checked."""
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

    def note_elsewhere(self) -> None:
        """Notes the sitemaps on other hosts, which were not fetched."""
        for host, number in Counter("/".join(url.split("/")[:3]) for url in sorted(self._elsewhere)).items():
            hint = "" if self._here else f"; if these files will be published there, give --base-url {host}/"
            self._notes.append(f"sitemaps on {host} are not fetched ({number:,}){hint}")

    def _source(self, url: str, address: str, fetched: _Fetched) -> Source:
        name = urlsplit(url).path.lstrip("/") or "(home page)"
        if fetched.url != address:
            message = f"it redirects to {shown(fetched.url)}: name that URL instead"
            self._findings.add(name, "redirected", None, message)
        headers = {key: value for key, value in fetched.headers.items() if key in _KEPT_HEADERS}
        return Source(name, url, fetched.path, headers)

    def _fetch(self, url: str) -> _Fetched:
        deadline = min(self._deadline, time.monotonic() + FILE_SECONDS_MAX)
        for _ in range(REDIRECTS_MAX + 1):
            answer = self._open(url)
            try:
                headers = {name.lower(): value for name, value in answer.headers.items()}
                location = answer.get_redirect_location()
                if not isinstance(location, str):
                    return _Fetched(answer.status, headers, self._kept(answer, deadline), url)
            finally:
                answer.close()
            url = self._target(url, location)
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

    def _target(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        place, here = place_of(target), place_of(url)
        if place is None or here is None or place.host != here.host:
            raise ValueError(f"it redirects to {target[:200]}, on another host: give that URL to check the files there")
        return target

    def _kept(self, answer: urllib3.BaseHTTPResponse, deadline: float) -> Path:
        """Writes the body to a file, at most one byte more than the limit, and returns its path."""
        path = self._folder / str(len(self._seen))
        left = BYTES_MAX + 1
        with path.open("wb") as file:
            for chunk in answer.stream(CHUNK_BYTES, decode_content=False):
                if time.monotonic() > deadline:
                    raise ValueError(f"it took longer than {FILE_SECONDS_MAX:g} seconds")
                file.write(chunk[:left])
                left -= len(chunk)
                if left <= 0:
                    break
        return path


@contextmanager
def fetching(findings: Findings, notes: list[str], server: tuple[str, int] | None = None) -> Iterator[Fetcher]:
    """A fetcher; its files are deleted when the block ends."""
    with tempfile.TemporaryDirectory(prefix="stoppress-check-") as folder:
        fetcher = Fetcher(Path(folder), findings, notes, server)
        yield fetcher
        fetcher.note_elsewhere()


def _path(url: str) -> str:
    """The path of a URL with its query."""
    return urlsplit(url)._replace(scheme="", netloc="", fragment="").geturl()
