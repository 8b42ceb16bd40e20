"""Refuses a file that would break the protocol. It does not judge articles' texts, so that no article holds back its file."""

from pyexpat import ErrorString, ExpatError, ParserCreate

from stoppress.model.file_names import IMAGE, NEWS, ROBOTS_FILE, SITEMAP, VIDEO, XHTML
from stoppress.model.places import BYTES_MAX, NEWS_ENTRIES_MAX, URLS_MAX
from stoppress.sitemaps.render import Rendered

SHOWN_CHARACTERS_MAX = 100
WHITE_SPACE = " \t\r\n"  # of XML
# The parser gives an element's name with its namespace.
_LOC, _ARTICLE, _ENTRIES = f"{SITEMAP} loc", f"{NEWS} news", (f"{SITEMAP} url", f"{SITEMAP} sitemap")
# Elements without a text of their own: every other element needs one.
_CONTAINERS = (
    *(f"{SITEMAP} urlset", f"{SITEMAP} sitemapindex", *_ENTRIES, _ARTICLE, f"{NEWS} publication"),
    *(f"{IMAGE} image", f"{VIDEO} video", f"{XHTML} link"),
)


class BrokenFile(ValueError):
    """A file would break a rule of the protocol. Nothing is written; the last good file remains."""


def assert_valid(file: str, rendered: Rendered, origin: str) -> None:
    """Check the bytes of a file before they are put. A folded file is checked by its new lines alone, a robots.txt not at all.

    Raises BrokenFile if it is not well-formed XML with declared namespaces, an element is empty, or a URL is not below `origin`.
    Raises it too if the entries are not as many as were rendered, or entries or bytes exceed the protocol's limits.
    """
    if file == ROBOTS_FILE:
        return
    try:
        _check(rendered, f"{origin}/")
    except BrokenFile as error:
        raise BrokenFile(f"{file} would break the protocol, and is not written: {error}") from None


def _check(rendered: Rendered, home: str) -> None:
    body = rendered.body if rendered.fresh is None else rendered.fresh
    if not body:  # folding removed lines and wrote none
        return
    counts, locs, texts = dict.fromkeys(_CONTAINERS, 0), 0, list[str]()
    parser = ParserCreate("utf-8", " ")

    def end(name: str) -> None:
        nonlocal locs
        text = "".join(texts).strip(WHITE_SPACE)
        texts.clear()
        if name == _LOC:
            locs += 1
            if not text.startswith(home):
                raise _broken(parser.CurrentLineNumber, f"R1.7 {text[:SHOWN_CHARACTERS_MAX]!r} is not below {home}")
        elif name in counts:
            counts[name] += 1
            if text:
                raise _broken(
                    parser.CurrentLineNumber,
                    f"R1.11 {text[:SHOWN_CHARACTERS_MAX]!r} is outside the elements with a text",
                )
        elif not text:
            raise _broken(parser.CurrentLineNumber, f"R1.11 {name.rpartition(' ')[2]} is empty")

    parser.buffer_text = True
    parser.CharacterDataHandler = texts.append
    parser.EndElementHandler = end
    try:
        parser.Parse(body, True)
    except ExpatError as error:
        raise _broken(error.lineno, f"R1.2 {ErrorString(error.code)}") from None
    entries, articles = sum(counts[name] for name in _ENTRIES), counts[_ARTICLE]
    # A file without pages lists the home page.
    wanted = entries if rendered.fresh else rendered.urls or 1
    if not 0 < entries == locs == wanted <= URLS_MAX or articles > NEWS_ENTRIES_MAX or len(rendered.body) > BYTES_MAX:
        numbers = f"{entries:,} entries, {articles:,} with news, {locs:,} URLs and {len(rendered.body):,} bytes"
        raise BrokenFile(f"R1.10 {numbers}, where {wanted:,} entries were rendered")


def _broken(line: int, reason: str) -> BrokenFile:
    return BrokenFile(f"line {line}: {reason}")
