"""XML as a stream of entries: the children of the root one by one, each as a small tree.

No entity is expanded and nothing is loaded: parsing stops at an entity declaration. Depth and the sizes of tags, entries and
texts are limited, so any file is parsed in limited memory.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pyexpat import ErrorString, ExpatError, ParserCreate, errors

DEPTH_MAX = 32  # a video's tags are five deep
TAG_BYTES_MAX = 1_048_576  # of a tag, comment or other token
NODES_MAX = 50_000  # elements in one entry; 1,000 images need 2,000
TEXT_CHARACTERS_MAX = 16_384  # kept of an element's text; the rest is only counted

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
_RAW = re.compile("[\"'>]")


@dataclass(slots=True, eq=False)
class Node:
    """An element and its content. The namespace is "" if there is none, None for an undeclared prefix."""

    namespace: str | None
    name: str
    prefix: str
    line: int
    attributes: dict[str, str]
    parts: list[str] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)
    size: int = 0  # characters of its text, kept or not
    cdata: bool = False
    raw: bool = False  # has a quotation mark, an apostrophe or a > that is not escaped

    @property
    def text(self) -> str:
        """Return the element's own text, up to TEXT_CHARACTERS_MAX."""
        return "".join(self.parts)

    @property
    def tag(self) -> str:
        """Return prefix and name, as written."""
        return f"{self.prefix}:{self.name}" if self.prefix else self.name


class Broken(Exception):
    """An error at which parsing ends. `rule` is the name of a rule of `stoppress check` that the file breaks."""

    def __init__(self, rule: str, line: int, message: str) -> None:
        super().__init__(message)
        self.rule, self.line, self.message = rule, line, message


OnText = Callable[[str, int, str], None]
# (namespace or None where the prefix is not declared, prefix, name, line) -> namespace
Meant = Callable[[str | None, str, str, int], str | None]


class Document:
    """Parses text in pieces. `root` is set as soon as its tag is parsed.

    `on_text(what, line, text)` is called for each comment, for the document type, and for text outside the entries. `what` is
    "comment", "doctype" or "text". `meant` corrects a misspelt namespace. `entry_depth` returns the depth of the entries in
    a document with this root; the root's own depth is 1.
    """

    def __init__(
        self, on_text: OnText, meant: Meant, first_line: int = 1, entry_depth: Callable[[Node], int] = lambda _root: 2
    ) -> None:
        self.root: Node | None = None
        self._on_text, self._meant = on_text, meant
        self._entry_depth_of = entry_depth
        self._entry_depth = 2
        self._offset = first_line - 1
        self._stack: list[Node] = []
        # The namespaces by prefix: before the root, then in each open element.
        self._spaces: list[dict[str, str]] = [{"": "", "xml": XML_NAMESPACE}]
        self._resolved: dict[str, tuple[str | None, str, str]] = {}
        self._done: list[Node] = []
        self._nodes = 0
        self._in_cdata = False
        self._piece, self._base, self._fed = b"", 0, 0
        parser = ParserCreate("utf-8")
        parser.buffer_text = False
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartCdataSectionHandler = self._cdata_start
        parser.EndCdataSectionHandler = self._cdata_end
        parser.CommentHandler = lambda text: on_text("comment", self.line, text[:TEXT_CHARACTERS_MAX])
        parser.StartDoctypeDeclHandler = lambda *_: on_text("doctype", self.line, "")
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = self._skipped
        self._parser = parser

    @property
    def line(self) -> int:
        """Return the parser's current line, from 1."""
        return self._parser.CurrentLineNumber + self._offset

    def entries(self, pieces: Iterable[str]) -> Iterator[Node]:
        """Yield the entries in order. Raises Broken after the last complete entry."""
        for piece in pieces:
            yield from self._parse(piece.encode("utf-8", "replace"), last=False)
        yield from self._parse(b"", last=True)

    def _parse(self, piece: bytes, *, last: bool) -> Iterator[Node]:
        self._base, self._piece = self._fed, piece
        self._fed += len(piece)
        broken: Broken | None = None
        try:
            self._parser.Parse(piece, last)
            if self._fed - max(0, self._parser.CurrentByteIndex) > TAG_BYTES_MAX + len(piece):
                broken = Broken("hostile", self.line, f"a tag or comment is longer than {TAG_BYTES_MAX:,} bytes")
        except ExpatError as error:
            broken = self._explain(error)
        except Broken as error:
            broken = error
        done, self._done = self._done, []
        yield from done
        if broken:
            raise broken

    def _explain(self, error: ExpatError) -> Broken:
        what = ErrorString(error.code)
        line = error.lineno + self._offset
        if what == errors.XML_ERROR_BAD_CHAR_REF:
            return Broken("control-character", line, "&#…; stands for a character that XML forbids: take it out")
        if what == errors.XML_ERROR_MISPLACED_XML_PI:
            return Broken("leading-bytes", line, "an XML declaration stands in the middle of the file")
        index = self._parser.ErrorByteIndex - self._base
        near = self._piece[max(0, index - 20) : index + 20].decode("utf-8", "replace") if index >= 0 else ""
        at = f" near {near.strip()!r}" if near.strip() else ""
        if what in (errors.XML_ERROR_INVALID_TOKEN, errors.XML_ERROR_UNDEFINED_ENTITY):
            at += ": write & as &amp; and < as &lt;"
        if self._stack and what in (errors.XML_ERROR_NO_ELEMENTS, errors.XML_ERROR_UNCLOSED_TOKEN):
            at = f": the file ends inside {self._stack[-1].tag}"
        return Broken("not-well-formed", line, f"{what}{at}")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        depth = len(self._stack) + 1
        if depth > DEPTH_MAX:
            raise Broken("hostile", self.line, f"elements are nested more than {DEPTH_MAX} deep")
        spaces = self._spaces[-1]
        if declared := {name[6:]: url for name, url in attributes.items() if name == "xmlns" or name[:6] == "xmlns:"}:
            spaces = spaces | declared
            self._resolved = {}
        self._spaces.append(spaces)
        namespace, name, prefix = self._resolved.get(tag) or self._resolve(tag)
        node = Node(namespace, name, prefix, self.line, attributes)
        if depth == 1:
            self.root = node
            self._entry_depth = self._entry_depth_of(node)
        elif depth > self._entry_depth:
            self._nodes += 1
            if self._nodes > NODES_MAX:
                raise Broken("hostile", self.line, f"an entry has more than {NODES_MAX:,} elements")
            self._stack[-1].children.append(node)
        self._stack.append(node)

    def _end(self, _tag: str) -> None:
        node = self._stack.pop()
        if len(self._stack) + 1 == self._entry_depth:
            self._done.append(node)
            self._nodes = 0
        if self._spaces.pop() is not self._spaces[-1]:
            self._resolved = {}

    def _characters(self, text: str) -> None:
        node = self._stack[-1]
        if node.size < TEXT_CHARACTERS_MAX:
            node.parts.append(text[: TEXT_CHARACTERS_MAX - node.size])
        node.size += len(text)
        if len(self._stack) < self._entry_depth and not text.isspace():
            self._on_text("text", self.line, text)
        if self._in_cdata:
            node.cdata = True
        elif node.name == "loc" and not node.raw and _RAW.search(text):
            # expat reports an escaped character in a separate call; in the bytes it begins with &.
            index = self._parser.CurrentByteIndex - self._base
            node.raw = len(text) > 1 or (index >= 0 and self._piece[index : index + 1] != b"&")

    def _cdata_start(self) -> None:
        self._in_cdata = True
        if self._stack:
            self._stack[-1].cdata = True

    def _cdata_end(self) -> None:
        self._in_cdata = False

    def _entity(self, *declared: object) -> None:
        raise Broken("entities", self.line, "the document type declares entities; nothing after it was read")

    def _skipped(self, name: str, _is_parameter: bool) -> None:
        raise Broken("not-well-formed", self.line, f"the entity &{name[:40]}; is not declared: write the character")

    def _resolve(self, tag: str) -> tuple[str | None, str, str]:
        prefix, colon, name = tag.partition(":")
        if not colon:
            prefix, name = "", tag
        resolved = (self._meant(self._spaces[-1].get(prefix), prefix, name, self.line), name, prefix)
        if len(self._resolved) < NODES_MAX:
            self._resolved[tag] = resolved
        return resolved
