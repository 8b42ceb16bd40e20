"""The files of a folder and the URLs they stand at."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stoppress.check.documents import looks_like_sitemap
from stoppress.check.input import Source, peek
from stoppress.check.values import Place, place_of

FILES_MAX = 50_000  # an index takes no more

_SITEMAP_SUFFIXES = {".xml", ".gz", ".gzip", ".rss", ".atom"}
_NO_SUFFIXES = {
    ".json",
    ".html",
    ".htm",
    ".js",
    ".css",
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".svg",
    ".webp",
    ".ico",
    ".md",
}
# XML that stands at the root of many sites and is none of ours.
_OTHERS = {"crossdomain.xml", "clientaccesspolicy.xml", "browserconfig.xml", "opensearch.xml"}
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*(?::\d+)?|localhost(?::\d+)?", re.IGNORECASE)
_NO_HOST = {".xml", ".gz", ".txt", ".d", ".old", ".bak", ".tmp", ".zip"}
# A page's URL in a sitemap, a feed or a list of URLs.
_LOC = re.compile(
    r"(?:<loc>\s{0,200}(?:<!\[CDATA\[\s{0,200})?|<link>\s{0,200}|^[ \t]{0,200})(https?://[^\s<]+)",
    re.IGNORECASE | re.MULTILINE,
)
_LOCS_MAX = 50
_SAY = "--base-url says otherwise"
_SHOWN_AS = {"ContentType": "content-type", "ContentEncoding": "content-encoding", "CacheControl": "cache-control"}


class Unreadable(Exception):
    """There is nothing to check; the text says why, and what to do."""


@dataclass
class Collected:
    """Sources, what was taken for granted about them, and whether they are all that is published."""

    sources: list[Source] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_all: bool = True


def collect(path: Path, base_url: str | None) -> Collected:
    """What is to be checked in a folder, or one file. Raises Unreadable, OSError."""
    if not path.exists():
        raise Unreadable(f"there is no {path}: name a folder, a file or a URL")
    if path.is_file():
        return _one_file(path, base_url)
    base = base_place(base_url) if base_url is not None else None
    paths = sorted(one for one in path.rglob("*") if one.is_file() and _is_candidate(one, path))[:FILES_MAX]
    if not paths:
        raise Unreadable(f"there is no sitemap in {path}: name the folder that has them")
    collected = Collected()
    served = _served(path.resolve(), collected)
    names = [one.relative_to(path).as_posix() for one in paths]
    hosts = sorted({name.partition("/")[0] for name in names})
    if all("/" in name for name in names) and all(_is_host(host) for host in hosts):
        roots = {host: f"{host}/" for host in hosts}
    elif _is_host(path.resolve().name):
        roots = {path.resolve().name: ""}
    else:
        roots = {}
    urls = _urls_by_root(path, names, roots, base, collected) if roots else _urls(path, names, base, collected)
    for one, name in zip(paths, names, strict=True):
        headers = served.get(name if name in served else f"{path.resolve().name}/{name}")
        collected.sources.append(Source(name, urls.get(name), one, headers))
    return collected


def _one_file(path: Path, base_url: str | None) -> Collected:
    if base_url is None:
        own = _usual(_places(path.parent, [path.name]))
        note = f"taking {_shown(own) if own else 'the host of the first URL'} as the place of {path.name}; {_SAY}"
        return Collected([Source(path.name, under(own, path.name) if own else None, path)], [note], is_all=False)
    return Collected([Source(path.name, of_file(base_url, path.name), path)], is_all=False)


def base_place(base_url: str) -> Place:
    """The folder that --base-url names. Raises Unreadable."""
    place = place_of(base_url)
    if place is None:
        raise Unreadable(f"--base-url {base_url!r} is no absolute http or https URL such as https://www.example.com/")
    path = place.path.partition("?")[0]
    last = path.rpartition("/")[2]
    directory = path[: len(path) - len(last)] if "." in last else f"{path.rstrip('/')}/"
    return Place(place.scheme, place.host, directory)


def of_file(base_url: str, name: str) -> str:
    """The URL of one file, where --base-url names its folder or itself. Raises Unreadable."""
    base = base_place(base_url)
    return base_url if name and base_url.rpartition("/")[2] == name else under(base, name)


def under(base: Place, name: str) -> str:
    """The URL of a file in a folder."""
    return f"{base.scheme}://{base.host}{base.directory}{quote(name, safe='/!$&()*+,;=:@~-._%')}"


def _urls_by_root(
    path: Path, names: list[str], roots: Mapping[str, str], base: Place | None, collected: Collected
) -> dict[str, str]:
    """URLs of files that stand in folders named like their hosts."""
    urls: dict[str, str] = {}
    for host, prefix in roots.items():
        inside = [name for name in names if name.startswith(prefix)]
        if base is not None and (base.host == host.lower() or len(roots) == 1):
            place = base
        else:
            own = _usual([found for found in _places(path, inside) if found.host == host.lower()])
            place = Place(base.scheme if base else own.scheme if own else "https", host.lower(), "/")
            collected.notes.append(f"taking {_shown(place)} as the place of {host}; {_SAY}")
        urls |= {name: under(place, name.removeprefix(prefix)) for name in inside}
    return urls


def _urls(path: Path, names: list[str], base: Place | None, collected: Collected) -> dict[str, str]:
    """URLs of files in a folder of any name: by the base, else by what an index among them says."""
    if base is not None:
        return {name: under(base, name) for name in names}
    indexes = [name for name in names if "sitemapindex" in _head(path / name)]
    listed = _places(path, indexes)
    place = _usual(listed)
    if place is None:
        collected.notes.append(f"hosts are taken from each file's own URLs; {_SAY}")
        each = {name: _usual(_places(path, [name])) for name in names}
        return {name: under(own, name) for name, own in each.items() if own}
    for found in listed:
        name = next((name for name in names if found.path.endswith(f"/{name}")), None)
        if found.host == place.host and name:
            place = Place(place.scheme, place.host, found.path.removesuffix(name))
            break
    collected.notes.append(f"taking {_shown(place)} as the place of these files, from {indexes[0]}; {_SAY}")
    return {name: under(place, name) for name in names}


def _usual(places: list[Place]) -> Place | None:
    """The root of the host and protocol that most of these lead to."""
    if not places:
        return None
    (scheme, host), _ = Counter((place.scheme, place.host) for place in places).most_common(1)[0]
    return Place(scheme, host, "/")


def _shown(place: Place) -> str:
    return f"{place.scheme}://{place.host}{place.directory}"


def _places(path: Path, names: list[str]) -> list[Place]:
    """Where the first URLs of these files lead."""
    found = []
    for name in names:
        found += [place_of(loc) for loc in _LOC.findall(_head(path / name))[:_LOCS_MAX]]
        if len(found) >= _LOCS_MAX:
            break
    return [place for place in found if place is not None]


def _head(path: Path) -> str:
    with path.open("rb") as stream:
        return peek(stream.read)


def _is_candidate(path: Path, folder: Path) -> bool:
    """Whether a file claims to be a sitemap, by its name or by what it says."""
    if any(part.startswith(".") for part in path.relative_to(folder).parts) or path.name.lower() in _OTHERS:
        return False
    suffix = path.suffix.lower()
    if suffix in _NO_SUFFIXES:
        return False
    is_list = suffix == ".txt" and "sitemap" in path.name.lower()
    return is_list or suffix in _SITEMAP_SUFFIXES or path.name == "robots.txt" or looks_like_sitemap(_head(path))


def _is_host(name: str) -> bool:
    return _HOST.fullmatch(name) is not None and Path(name).suffix.lower() not in _NO_HOST


def _served(folder: Path, collected: Collected) -> dict[str, dict[str, str]]:
    """Headers by `<host>/<file>`, as `stoppress play` saves them beside the folder, or beside the one above it."""
    for place in (folder, folder.parent):
        path = place.with_name(f"{place.name}.meta.json")
        if not place.name or not path.is_file():
            continue
        try:
            read: Any = json.loads(path.read_text(encoding="utf-8"))
            return {
                name: {
                    _SHOWN_AS[key]: str(value)
                    for key, value in headers.items()
                    if key in _SHOWN_AS and value is not None
                }
                for name, headers in read.items()
            }
        except (ValueError, AttributeError):
            collected.notes.append(f"{path} is not what `stoppress play` saves: headers are not checked")
    return {}
