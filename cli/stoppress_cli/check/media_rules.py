"""Checks the images (R3), videos (R4) and alternates (R5) of a `<url>`."""

import re
from collections import Counter

from stoppress.primitives.text import COUNTRIES
from stoppress.primitives.xml import Node
from stoppress_cli.check import rulebook
from stoppress_cli.check.findings import shown
from stoppress_cli.check.one_pass import Pass
from stoppress_cli.check.rulebook import EXTENSIONS, IMAGES_MAX, VIDEO
from stoppress_cli.check.value_rules import hreflang_fault, is_escaped_twice, place_of, read_date

# Links into apps, which Google read from sitemaps in the past.
_APP_LINKS = ("android-app:", "ios-app:")

_VIDEO_REQUIRED = ("thumbnail_loc", "title", "description")
_VIDEO_URLS = ("thumbnail_loc", "content_loc", "player_loc")


def check_images(images: list[Node], loc: str, at: Pass) -> None:
    """Check the image:image of the `<url>` with the given loc."""
    if len(images) > IMAGES_MAX:
        fault = f"the page has {len(images):,} images, and the limit is {IMAGES_MAX:,}"
        at.report("too-many-images", images[IMAGES_MAX].line, fault)
    for image in images:
        locs = at.read_children(image, ("loc",)).get("loc", [])
        if len(locs) != 1:
            at.report("image-loc", image.line, f"{image.tag} has {len(locs)} loc")
        for address in locs:
            _check_address("image-loc", address, at)
            if address.text.strip() == loc:
                at.report("image-loc", address.line, f"{address.tag} is the URL of the page")


def check_video(video: Node, loc: str, at: Pass) -> None:
    """Check a video:video of the `<url>` with the given loc."""
    children = at.read_children(video, EXTENSIONS[VIDEO].elements)
    missing = [name for name in _VIDEO_REQUIRED if name not in children]
    missing += [] if children.keys() & {"content_loc", "player_loc"} else ["content_loc and no player_loc"]
    for name in missing:
        at.report("video-required", video.line, f"{video.tag} has no {name}")
    for name, nodes in children.items():
        if len(nodes) > (most := rulebook.VIDEO_TAGS_MAX if name == "tag" else 1):
            at.report("video-child-count", video.line, f"{video.tag} has {len(nodes)} {name}, and the limit is {most}")
        for child in nodes:
            _check_video_tag(child, loc, at)


def _check_video_tag(child: Node, loc: str, at: Pass) -> None:
    text = child.text.strip()
    if child.name in _VIDEO_URLS:
        _check_address("video-url", child, at)
        if text and text == loc and child.name != "thumbnail_loc":
            at.report("video-url", child.line, f"{child.tag} is the URL of the page itself")
        for name in sorted({"allow_embed", "autoplay"} & child.attributes.keys()):
            at.report("video-dead-tag", child.line, f"the attribute {name} was retired in 2022")
    elif child.name in _VIDEO_REQUIRED:
        _check_video_text(child, text, at)
    elif fault := _find_value_fault(child, text, loc):
        at.report("video-value", child.line, f"{child.tag} {shown(text)} {fault}")


def _check_video_text(child: Node, text: str, at: Pass) -> None:
    if not text:
        at.report("video-required", child.line, f"{child.tag} is empty")
    most = rulebook.VIDEO_TITLE_MAX if child.name == "title" else rulebook.VIDEO_DESCRIPTION_MAX
    if child.size > most:
        fault = f"the {child.name} has {child.size:,} characters, and the limit is {most:,}"
        at.report(f"video-{child.name}", child.line, fault)
    if is_escaped_twice(text):
        at.report("escaped-twice", child.line, f"{child.tag} {shown(text)} was escaped twice")


def _find_value_fault(child: Node, text: str, loc: str) -> str | None:
    """Return the fault of an optional tag of a video (R4.2), or None."""
    if value := EXTENSIONS[VIDEO].values.get(child.name):
        is_valid = re.fullmatch(value.pattern, text) and (
            value.most is None or value.least <= float(text) <= value.most
        )
        return None if is_valid else value.fault
    if child.name in {"expiration_date", "publication_date"}:
        return "is neither a date nor a time with seconds and zone" if read_date(text)[1] else None
    return _find_uploader_fault(child, loc) if child.name == "uploader" else _find_list_fault(child)


def _find_list_fault(child: Node) -> str | None:
    """Return the fault of a restriction or platform, or None. The schema allows spaces between the words, and nothing else."""
    words = child.text.split()
    unknown = [code for code in words if code not in COUNTRIES]
    if child.name == "restriction" and unknown:
        return f"has {shown(unknown[0])}, which is no ISO 3166 code in capitals"
    if child.name == "platform" and not (words and set(words) <= rulebook.VIDEO_PLATFORMS):
        return "has words other than web, mobile and tv"
    if not re.fullmatch(r"(?:\S+(?: +\S+)*)?", child.text):
        return "has white space that is not a space between two words"
    is_valid = child.attributes.get("relationship") in {"allow", "deny"}
    return None if is_valid else "has no relationship, allow or deny"


def _find_uploader_fault(child: Node, loc: str) -> str | None:
    if child.size > rulebook.VIDEO_UPLOADER_MAX:
        return f"is longer than {rulebook.VIDEO_UPLOADER_MAX} characters"
    info = child.attributes.get("info")
    if info is None:
        return None
    page, place = place_of(loc), place_of(info.strip())
    if place is None or (page and _domain(place.host) != _domain(page.host)):
        return f"has the info {shown(info)}, which is not on the domain of the page"
    return None


def _domain(host: str) -> str:
    """Return the last two labels of a host, in most cases its registered domain."""
    return ".".join(host.partition(":")[0].split(".")[-2:])


def _check_address(rule: str, node: Node, at: Pass) -> None:
    """Check the URL of a file: absolute, and escaped once."""
    url = node.text.strip()
    if place_of(url) is None:
        at.report(rule, node.line, f"{node.tag} {shown(url)} is no URL")
    elif is_escaped_twice(url):
        at.report("escaped-twice", node.line, f"{node.tag} {shown(url)} was escaped twice")
    elif not url.isascii() or re.search(r"\s", url):
        at.report("loc-characters", node.line, f"{node.tag} {shown(url)} has other characters")


def check_alternates(links: list[Node], loc: str, line: int, at: Pass) -> None:
    """Check the xhtml:link of a `<url>`, one by one and together."""
    codes: Counter[str] = Counter()
    hrefs: dict[str, int] = {}
    for link in links:
        code, href = _check_link(link, at)
        if not href:
            continue
        codes[code.lower()] += 1
        if codes[code.lower()] == 2:
            at.report("alternate-twice", link.line, f"hreflang {shown(code)} is there twice")
        hrefs.setdefault(href, link.line)
    if not hrefs or not loc:
        return
    if loc not in hrefs:
        at.report("alternate-without-self", line, f"the alternates of {shown(loc)} do not include the page")
    page = place_of(loc)
    for href, where in hrefs.items():
        if href != loc:
            there = place_of(href)
            is_near = page is not None and there is not None and page.host == there.host
            at.urls.add_alternate(loc, href, at.facts.number, where, is_near=is_near)


def _check_link(link: Node, at: Pass) -> tuple[str, str]:
    """Return the hreflang and the href of a link; both empty where it is not a usable alternate."""
    attributes = link.attributes
    if link.children or link.text.strip():
        at.report("alternate-attributes", link.line, f"{link.tag} has content")
    code, href = attributes.get("hreflang", "").strip(), attributes.get("href", "").strip()
    is_for_screens = "media" in attributes and "hreflang" not in attributes
    if is_for_screens or href.lower().startswith(_APP_LINKS):
        return "", ""
    if attributes.get("rel", "").strip().lower() != "alternate" or not code or not href:
        at.report("alternate-attributes", link.line, f'{link.tag} lacks rel="alternate", hreflang or href')
        return "", ""
    if fault := hreflang_fault(code):
        at.report("hreflang", link.line, f"hreflang {shown(code)} {fault}")
    if place_of(href) is None:
        at.report("alternate-attributes", link.line, f"href {shown(href)} is no URL")
        return "", ""
    return code, href
