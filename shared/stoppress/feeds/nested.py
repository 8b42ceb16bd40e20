"""Drop nested titles, links, guids and dates from RSS items: those of an image, a related story or an author.

feedparser would take them for the item's own. aktuality.sk has an `<image>` with a title and a link in each item.
"""

import re
from collections.abc import Iterator

# Below this level the search ends, so that a hostile document cannot make it slow.
LEVELS_MAX = 32

_ITEM = re.compile(r"<item[\s>]")
# Possessive quantifiers, so that a long name in a tag without an end cannot make the search slow.
_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]*+)([^<>]*+)>|<!(?:--|\[CDATA\[)")
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}
_OWN = {"title", "link", "guid", "pubdate"}
# Elements nested in these are not dropped: they are unescaped markup, or follow an element whose end is missing.
_TEXTS = _OWN | {"description", "content:encoded", "content", "summary"}


def without_nested(text: str) -> str:
    """Drop titles, links, guids and dates that are not direct children of an item."""
    parts = text.split("</item")
    for number, part in enumerate(parts[:-1]):
        start = part.rfind("<item")
        # This check spares nearly all items the search, which takes a hundred times as long.
        if start >= 0 and any(part.count(name, start) > 1 for name in ("<title", "<link", "<guid", "<pubDate")):
            parts[number] = _own(part)
    return "</item".join(parts)


def _own(part: str) -> str:
    """Drop nested elements from the last item in `part`, a piece of a feed that ends before that item's end tag."""
    nested: list[tuple[int, int]] = []
    cut: list[tuple[int, int]] = []
    has_own = False
    for name, level, start, end in _elements(part):
        if level and name in _OWN:
            while nested and nested[-1][0] > start:
                nested.pop()
            nested.append((start, end))
        elif not level:
            has_own = has_own or name in _OWN
            cut += [] if name in _TEXTS else nested
            nested.clear()
    # An item without own elements has one element around all others, or a missing end. Then nothing is dropped.
    return _without(part, cut) if has_own else part


def _elements(part: str) -> Iterator[tuple[str, int, int, int]]:
    """The elements of the last item as they end: name, level below the item (from 0), and start and end in `part`."""
    starts = [start.end() for start in _ITEM.finditer(part)]
    open_tags: list[tuple[str, int]] = []
    for tag in _tags(part, starts[-1] if starts else len(part)):
        name = tag[2].lower()
        if not tag[1]:
            open_tags.append((name, tag.start()))
            if len(open_tags) > LEVELS_MAX:
                return
            if not tag[3].endswith("/"):
                continue
        level = next((level for level in reversed(range(len(open_tags))) if open_tags[level][0] == name), None)
        if level is not None:
            start = open_tags[level][1]
            del open_tags[level:]  # with the tags inside it that have no end
            yield name, level, start, tag.end()


def _tags(part: str, position: int) -> Iterator[re.Match[str]]:
    """The tags from `position` on, outside comments and CDATA."""
    while tag := _TAG.search(part, position):
        position = tag.end()
        if tag[2] is not None:
            yield tag
        elif (position := part.find(_ENDS[tag[0]], position)) < 0:
            return


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, position = [], 0
    for start, end in spans:
        pieces.append(text[position:start])
        position = end
    return "".join([*pieces, text[position:]])
