"""The sitemaps of a folder, and the URLs at which readers find them."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
_SAY = "--base-url says otherwise"
_SHOWN_AS = {"ContentType": "content-type", "ContentEncoding": "content-encoding", "CacheControl": "cache-control"}


class Unreadable(Exception):
    """There is nothing to check; the text says why and what to do."""


@dataclass
class Collected:
    """The sources, notes on what was assumed, and whether the sources are the whole site."""

    sources: list[Source] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_all: bool = True


def collect(path: Path, base_url: str | None) -> Collected:
    """The files of a folder, or one file, each with its URL. Raises Unreadable, OSError."""
    if not path.exists():
        raise Unreadable(f"there is no {path}: name a folder, a file or a URL")
    if path.is_file():
        return _one_file(path, base_url)
    base = base_place(base_url) if base_url is not None else None
    files = (file for file in path.rglob("*") if file.is_file() and _is_candidate(file, path))
    paths = {file.relative_to(path).as_posix(): file for file in sorted(files)[:FILES_MAX]}
    if not paths:
        raise Unreadable(f"there is no sitemap in {path}: name the folder that has them")
    collected = Collected()
    served = _served(path.resolve(), collected)
    names = list(paths)
    roots = _roots(path.resolve().name, names)
    urls = _urls_by_root(path, names, roots, base, collected) if roots else _urls(path, names, base, collected)
    for name, file in paths.items():
        headers = served.get(name if name in served else f"{path.resolve().name}/{name}")
        collected.sources.append(Source(name, urls.get(name), file, headers))
    return collected


def _roots(folder: str, names: list[str]) -> dict[str, str]:
    """The prefix of each host's file names, if the folders are named like hosts; else empty."""
    hosts = sorted({name.partition("/")[0] for name in names})
    if all("/" in name for name in names) and all(map(_is_host, hosts)):
        return {host: f"{host}/" for host in hosts}
    return {folder: ""} if _is_host(folder) else {}


def _one_file(path: Path, base_url: str | None) -> Collected:
    if base_url is not None:
        return Collected([Source(path.name, of_file(base_url, path.name), path)], is_all=False)
    root = _usual(_places(path.parent, [path.name]))
    note = f"taking {_shown(root) if root else 'the host of the first URL'} as the place of {path.name}; {_SAY}"
    return Collected([Source(path.name, under(root, path.name) if root else None, path)], [note], is_all=False)


def base_place(base_url: str) -> Place:
    """The place of the folder that --base-url names. Raises Unreadable."""
    place = place_of(base_url)
    if place is None:
        raise Unreadable(f"--base-url {base_url!r} is no absolute http or https URL such as https://www.example.com/")
    path = place.path.partition("?")[0]
    last = path.rpartition("/")[2]
    directory = path[: len(path) - len(last)] if "." in last else f"{path.rstrip('/')}/"
    return Place(place.scheme, place.host, directory)


def of_file(base_url: str, name: str) -> str:
    """The URL of a file; --base-url is the URL of its folder, or its own. Raises Unreadable."""
    base = base_place(base_url)
    return base_url if name and base_url.rpartition("/")[2] == name else under(base, name)


def under(base: Place, name: str) -> str:
    """The URL of a file in a folder."""
    return f"{base.scheme}://{base.host}{base.directory}{quote(name, safe='/!$&()*+,;=:@~-._%')}"


def _urls_by_root(
    path: Path, names: list[str], roots: Mapping[str, str], base: Place | None, collected: Collected
) -> dict[str, str]:
    """URLs of files in folders that are named like their hosts."""
    urls: dict[str, str] = {}
    for host, prefix in roots.items():
        inside = [name for name in names if name.startswith(prefix)]
        place = base
        if base is None or (base.host != host.lower() and len(roots) > 1):
            root = base or _usual([place for place in _places(path, inside) if place.host == host.lower()])
            place = Place(root.scheme if root else "https", host.lower(), "/")
            collected.notes.append(f"taking {_shown(place)} as the place of {host}; {_SAY}")
        assert place
        urls |= {name: under(place, name.removeprefix(prefix)) for name in inside}
    return urls


def _urls(path: Path, names: list[str], base: Place | None, collected: Collected) -> dict[str, str]:
    """URLs of files in a folder of any name: from --base-url, else from an index among the files."""
    if base is not None:
        return {name: under(base, name) for name in names}
    indexes = [name for name in names if "sitemapindex" in _head(path / name)]
    listed = _places(path, indexes)
    root = _usual(listed)
    if root is None:
        collected.notes.append(f"hosts are taken from each file's own URLs; {_SAY}")
        roots = {name: _usual(_places(path, [name])) for name in names}
        return {name: under(own, name) for name, own in roots.items() if own}
    place = _directory(root, listed, names)
    collected.notes.append(f"taking {_shown(place)} as the place of these files, from {indexes[0]}; {_SAY}")
    return {name: under(place, name) for name in names}


def _directory(root: Place, listed: list[Place], names: list[str]) -> Place:
    """Where the files are: the folder in which an index lists one of them on the root's host, else the root."""
    for place in listed:
        name = next((name for name in names if place.path.endswith(f"/{name}")), None)
        if place.host == root.host and name:
            return Place(root.scheme, root.host, place.path.removesuffix(name))
    return root


def _usual(places: list[Place]) -> Place | None:
    """The root of the most frequent scheme and host of these places."""
    if not places:
        return None
    (scheme, host), _ = Counter((place.scheme, place.host) for place in places).most_common(1)[0]
    return Place(scheme, host, "/")


def _shown(place: Place) -> str:
    return f"{place.scheme}://{place.host}{place.directory}"


def _places(path: Path, names: list[str]) -> list[Place]:
    """The places of the first URLs in these files."""
    places = []
    for name in names:
        places += [place_of(loc) for loc in _LOC.findall(_head(path / name))[:_LOCS_MAX]]
        if len(places) >= _LOCS_MAX:
            break
    return [place for place in places if place is not None]


def _head(path: Path) -> str:
    with path.open("rb") as stream:
        return peek(stream.read)


def _is_candidate(path: Path, folder: Path) -> bool:
    """Whether a file looks like a sitemap, by its name or its beginning."""
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
    """Headers by `<host>/<file>`, from the file that `stoppress play` saves beside the folder or beside its parent."""
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
