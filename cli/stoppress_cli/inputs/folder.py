"""The sitemaps of a folder, and the URLs at which readers find them."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from stoppress_cli.check.input import Source, peek
from stoppress_cli.check.value_rules import Place, place_of
from stoppress_cli.check.xml_documents import looks_like_sitemap

FILES_MAX = 50_000  # the most that a sitemap index may list

_SITEMAP_SUFFIXES = {".xml", ".gz", ".gzip", ".rss", ".atom"}
_NO_SUFFIXES = {*".json .html .htm .js .css .png .jpg .jpeg .gif .svg .webp .ico .md".split()}
# XML files at the root of many sites that are no sitemaps.
_OTHERS = {"crossdomain.xml", "clientaccesspolicy.xml", "browserconfig.xml", "opensearch.xml"}
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*(?::\d+)?|localhost(?::\d+)?", re.IGNORECASE)
_NO_HOST = {".xml", ".gz", ".txt", ".d", ".old", ".bak", ".tmp", ".zip"}
# A page's URL in a sitemap, a feed or a list of URLs.
_LOC = re.compile(
    r"(?:<loc>\s{0,200}(?:<!\[CDATA\[\s{0,200})?|<link>\s{0,200}|^[ \t]{0,200})(https?://[^\s<]+)",
    re.IGNORECASE | re.MULTILINE,
)
_LOCS_MAX = 50
_HEADERS = TypeAdapter(dict[str, dict[str, str | None]])
# The headers that `stoppress play` saves of each file, and their names there.
SAVED_HEADERS = {"ContentType": "content-type", "ContentEncoding": "content-encoding", "CacheControl": "cache-control"}


class Unreadable(Exception):
    """There is nothing to check; the text is the reason and what to do."""


@dataclass
class Collected:
    """The sources, notes on assumptions, and whether the sources are the whole site."""

    sources: list[Source] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_all: bool = True


def collect(path: Path, base_url: str | None) -> Collected:
    """Return the files of a folder, or one file, each with its URL. Raises Unreadable, OSError."""
    if not path.exists():
        raise Unreadable(f"there is no {path}: name a folder, a file or a URL")
    base = base_place(base_url, path.name if path.is_file() else "") if base_url is not None else None
    folder, names = (path, _find_names(path)) if path.is_dir() else (path.parent, [path.name])
    collected = Collected(is_all=path.is_dir())
    headers = _read_headers(folder.resolve(), collected.notes)
    hosts = _hosts(folder.resolve().name, names) if path.is_dir() else {"": ""}
    for prefix, host in hosts.items():
        inside = [name for name in names if name.startswith(prefix)]
        place = base
        if base is None or (base.host != host and len(hosts) > 1):
            place = _guess_place(folder, inside, prefix, host)
            shown = f"{place.scheme}://{place.host}{place.directory}" if place else "the host of the first URL"
            label = host or path.resolve().name
            collected.notes.append(f"taking {shown} as the place of {label}; --base-url sets another")
        collected.sources += _sources(folder, inside, prefix, place, headers)
    return collected


def _sources(
    folder: Path, names: list[str], prefix: str, place: Place | None, headers: dict[str, dict[str, str]]
) -> Iterator[Source]:
    for name in names:
        url = under(place, name.removeprefix(prefix)) if place else None
        yield Source(name, url, folder / name, headers.get(name))


def _find_names(folder: Path) -> list[str]:
    """Return the names of the files in a folder that look like sitemaps, relative to the folder. Raises Unreadable."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and _is_candidate(file, folder))
    if not files:
        raise Unreadable(f"there is no sitemap in {folder}: name the folder that has them")
    return [file.relative_to(folder).as_posix() for file in files[:FILES_MAX]]


def _hosts(folder: str, names: list[str]) -> dict[str, str]:
    """Return the prefix of the files' names in each folder that is named like a host, with the host; else one prefix for all files."""
    hosts = sorted({name.partition("/")[0] for name in names})
    if all("/" in name for name in names) and all(map(_is_host, hosts)):
        return {f"{host}/": host.lower() for host in hosts}
    return {"": folder.lower() if _is_host(folder) else ""}


def _guess_place(folder: Path, names: list[str], prefix: str, host: str) -> Place | None:
    """Return the place from which these files are served: the folder in which an index lists one of them, else the root of their host.

    The host is given, or the most frequent one of the first URLs in the indexes, or in the files. None: there is no URL.
    """
    indexes = [name for name in names if "sitemapindex" in peek(folder / name)]
    urls = (url for name in indexes or names for url in _LOC.findall(peek(folder / name)))
    places = [place for url in islice(urls, _LOCS_MAX) if (place := place_of(url)) and host in ("", place.host)]
    if not places:
        return Place("https", host, "/") if host else None
    [((scheme, host), _)] = Counter((place.scheme, place.host) for place in places).most_common(1)
    paths = [place.path for place in places if place.host == host]
    endings = [f"/{name.removeprefix(prefix)}" for name in names]
    matches = ((path, ending) for path in paths for ending in endings if path.endswith(ending))
    path, ending = next(matches, ("/", "/"))
    return Place(scheme, host, f"{path.removesuffix(ending)}/")


def base_place(base_url: str, name: str = "") -> Place:
    """Return the place of the folder at --base-url, or of the file `name` in it. Raises Unreadable."""
    place = place_of(base_url)
    if place is None:
        raise Unreadable(f"--base-url {base_url!r} is no absolute http or https URL such as https://www.example.com/")
    path = place.path.partition("?")[0]
    last = path.rpartition("/")[2]
    directory = path[: len(path) - len(last)] if "." in last or last == name else f"{path.rstrip('/')}/"
    return Place(place.scheme, place.host, directory)


def under(base: Place, name: str) -> str:
    return f"{base.scheme}://{base.host}{base.directory}{quote(name, safe='/!$&()*+,;=:@~-._%')}"


def _is_candidate(path: Path, folder: Path) -> bool:
    """Return True if a file looks like a sitemap, by its name or its beginning."""
    if any(part.startswith(".") for part in path.relative_to(folder).parts) or path.name.lower() in _OTHERS:
        return False
    suffix = path.suffix.lower()
    if suffix in _NO_SUFFIXES:
        return False
    is_list = suffix == ".txt" and "sitemap" in path.name.lower()
    return is_list or suffix in _SITEMAP_SUFFIXES or path.name == "robots.txt" or looks_like_sitemap(peek(path))


def _is_host(name: str) -> bool:
    return _HOST.fullmatch(name) is not None and Path(name).suffix.lower() not in _NO_HOST


def _read_headers(folder: Path, notes: list[str]) -> dict[str, dict[str, str]]:
    """Return the headers of the files that `stoppress play` saved, from the file beside the folder or beside its parent."""
    for place, prefix in ((folder, ""), (folder.parent, f"{folder.name}/")):
        path = place.with_name(f"{place.name}.meta.json") if place.name else place
        if path.is_file():
            try:
                saved = _HEADERS.validate_json(path.read_bytes())
            except ValidationError:
                notes.append(f"{path} is not what `stoppress play` saves: headers are not checked")
                continue
            return {
                name.removeprefix(prefix): {SAVED_HEADERS.get(key, key): value or "" for key, value in headers.items()}
                for name, headers in saved.items()
            }
    return {}
