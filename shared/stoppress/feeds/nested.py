"""Items of RSS without what only looks like theirs: the title, link, guid and date of something that stands inside them.

A related story, an author or a picture may have a title and a link of its own. feedparser would take them for the item's.
"""

import re

# Deeper nested is nothing that anybody has written.
LEVELS_MAX = 32

_ITEM = re.compile(r"<item[\s>]")
# Nothing gives back what it took: a name may be as long as a tag, and its end missing.
_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]*+)([^<>]*+)>|<!(?:--|\[CDATA\[)")
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}
_OWN = {"title", "link", "guid", "pubdate"}
# What is inside these is markup that nobody has escaped, or stands there because an end is missing.
_TEXTS = _OWN | {"description", "content:encoded", "content", "summary"}


def without_nested(text: str) -> str:
    """The feed without the titles, links, guids and dates in its items that are not their own children."""
    parts = text.split("</item")
    for number, part in enumerate(parts[:-1]):
        start = part.rfind("<item")
        # Hardly any has two, and then it takes a hundred times as long.
        if start >= 0 and any(part.count(name, start) > 1 for name in ("<title", "<link", "<guid", "<pubDate")):
            parts[number] = _own(part)
    return "</item".join(parts)


def _own(part: str) -> str:
    """A part of a feed that ends with an item, without what is not the item's."""
    starts = [found.end() for found in _ITEM.finditer(part)]
    open_tags: list[tuple[str, int]] = []
    inside: list[tuple[int, int]] = []
    cut: list[tuple[int, int]] = []
    has_own = False
    position = starts[-1] if starts else len(part)
    while tag := _TAG.search(part, position):
        position = tag.end()
        if tag[2] is None:
            end = _ENDS[tag[0]]
            position = part.find(end, position)
            if position < 0:
                break
            continue
        name, is_end = tag[2].lower(), bool(tag[1])
        if not is_end:
            open_tags.append((name, tag.start()))
        if len(open_tags) > LEVELS_MAX:
            break
        if not is_end and not tag[3].endswith("/"):
            continue
        # What was still open inside it has no end.
        level = next((level for level in reversed(range(len(open_tags))) if open_tags[level][0] == name), None)
        if level is None:
            continue
        start = open_tags[level][1]
        del open_tags[level:]
        if level and name in _OWN:
            while inside and inside[-1][0] > start:
                inside.pop()
            inside.append((start, position))
        elif not level:
            has_own = has_own or name in _OWN
            cut += [] if name in _TEXTS else inside
            inside.clear()
    # Else all that it has stands inside something: an element around the whole, or one whose end is another's.
    return _without(part, cut) if has_own else part


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, position = [], 0
    for start, end in spans:
        pieces.append(text[position:start])
        position = end
    return "".join([*pieces, text[position:]])
