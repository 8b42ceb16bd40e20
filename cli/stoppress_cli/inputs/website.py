"""The sitemaps of a URL: one file, or all files on its host that an index or a robots.txt at this URL lists.

With --base-url the files are checked as if they were served below the base URL.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urljoin, urlsplit

from stoppress.http import address, client
from stoppress.http.errors import FetchError
from stoppress.model.file_names import BYTES_MAX
from stoppress_cli.check.findings import Findings, shown
from stoppress_cli.check.input import Source
from stoppress_cli.check.one_pass import Facts
from stoppress_cli.check.value_rules import Place, place_of
from stoppress_cli.inputs.folder import Unreadable, base_place, under

USER_AGENT = "Stoppress/1 (sitemap validator)"
FILES_MAX = 500
FILE_SECONDS_MAX = 120.0
RUN_SECONDS_MAX = 1_800.0


def get_as_sent(url: str) -> client.Response:
    """Request a URL of a host that the user gave, whatever its address. Raises FetchError."""
    _, host, port = address.split_url(url)
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
    limits = {"bytes_max": BYTES_MAX, "seconds_max": FILE_SECONDS_MAX}
    return client.fetch(url, headers, redirects=False, server=(host, port), unpack=False, **limits)  # type: ignore[arg-type]


class Fetcher:
    """Fetches files from one host, within limits. `notes` are about files that were not fetched.

    `get` requests a URL, follows no redirect and returns the body as it was sent.
    """

    def __init__(self, findings: Findings, get: Callable[[str], client.Response] = get_as_sent) -> None:
        self._findings, self._get = findings, get
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
            raise Unreadable(f"{url} {error}: give the URL of a sitemap, an index or a robots.txt") from None

    def follow(self, facts: Facts) -> Iterator[Source]:
        """Fetch the files on the same host that an index or a robots.txt lists, each on demand."""
        for url, (line, _) in facts.children.items():
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
        """Return the sitemaps on other hosts, and whether a limit ended the run."""
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
        path = urlsplit(url)._replace(scheme="", netloc="", fragment="").geturl()
        return self._here + path.removeprefix(self._base.directory)

    def _fetch(self, stated: str, url: str) -> Source:
        """Fetch the file that readers find at the URL `stated`. Raises Unreadable unless the answer is 200."""
        try:
            answer, redirects = self._follow_redirects(url)
        except (FetchError, ValueError) as error:
            raise Unreadable(f"cannot be fetched: {error}") from None
        if answer.status != 200:
            raise Unreadable(f"answers {answer.status}")
        name = urlsplit(stated).path.lstrip("/") or "(home page)"
        if redirects:
            times = f"{redirects} times, at last " if redirects > 1 else ""
            self._findings.add(name, "redirected", None, f"it redirects {times}to {shown(answer.url)}")
        return Source(name, stated, answer.body, answer.headers)

    def _follow_redirects(self, url: str) -> tuple[client.Response, int]:
        """Return the last answer and the number of redirects."""
        for redirects in range(client.REDIRECTS_MAX + 1):
            answer = self._get(url)
            location = answer.headers.get("location")
            if answer.status not in client.REDIRECTS or not location:
                return answer, redirects
            here, url = place_of(url), urljoin(url, location)
            place = place_of(url)
            if place is None or here is None or place.host != here.host:
                raise ValueError(
                    f"it redirects to {url[:200]}, on another host: give that URL to check the files there"
                )
        raise ValueError(f"more than {client.REDIRECTS_MAX} redirects")
