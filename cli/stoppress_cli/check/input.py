"""From a file's bytes to its text: decompresses, decodes, and keeps to the limits.

Reports each fault through `tell(name of the rule, line, message)` and reads on where possible. Unlike the decompression
in `http`, which refuses a damaged body, this one reports all faults of a stream.
"""

import codecs
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from stoppress_cli.check.findings import shown
from stoppress_cli.check.rulebook import BYTES_MAX
from stoppress_cli.check.value_rules import CONTROLS

CHUNK_BYTES = 65_536
HEAD_CHARACTERS = 32_768  # must hold the declaration and the root element

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
_GZIP_LAYERS_MAX = 2
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
_DECLARED = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
# Encodings that real sitemaps declare. Any other is read as ISO-8859-1.
_ENCODINGS = re.compile(
    r"utf-?8|us-ascii|ascii|iso-8859-\d{1,2}|latin-?1|windows-125\d|cp125\d|koi8-[ru]|utf-16(?:-?[lb]e)?|shift[_-]jis"
    r"|euc-(?:jp|kr)|gb2312|gbk|gb18030|big5|macintosh",
    re.IGNORECASE,
)
UTF_8 = {"utf-8", "utf8", "us-ascii", "ascii"}  # ASCII is a part of UTF-8
# A server's warning in HTML.
_WARNING = re.compile(r"\s*<(?:br|b|p|div)\b", re.IGNORECASE)
_XML_START = re.compile(r"<\?xml[\s?]|<(?:[\w.-]+:)?(?:urlset|sitemapindex|rss|feed|RDF)[\s>/]")

TellLine = Callable[[str, int | None, str], None]
Read = Callable[[int], bytes]  # the `read` of a stream


@dataclass(frozen=True)
class Source:
    """A file to check: its name in the report, its URL (None if unknown), its path or its bytes, and its headers.

    Header names are lower case. `headers` is None if they are unknown.
    """

    name: str
    url: str | None
    content: Path | bytes
    headers: Mapping[str, str] | None = None

    def open(self) -> BinaryIO:
        """Open the file. Raises OSError."""
        return BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")


@dataclass
class Text:
    """A file's text: the first piece `head`, the further pieces `rest`, and the line of the first character.

    `bytes` and `checksum` are those of the uncompressed bytes that have been read.
    """

    head: str = ""
    rest: Iterator[str] = field(default_factory=lambda: iter(()))
    line: int = 1
    bytes: int = 0
    checksum: int = 0
    compressed: bool = False
    cut: bool = False  # the end was not read: the file is too large or damaged

    def pieces(self) -> Iterator[str]:
        yield self.head
        yield from self.rest

    @property
    def is_xml(self) -> bool:
        return self.head.lstrip().startswith("<")


def read_text(read: Read, tell: TellLine) -> Text:
    """The text of a file, without the text before the document."""
    text = Text()
    text.rest = _decoded(_limited(_plain(read, tell, text), tell, text), tell)
    for piece in text.rest:
        text.head += piece
        if len(text.head) >= HEAD_CHARACTERS:
            break
    _drop_what_leads(text, tell)
    return text


def peek(path: Path) -> str:
    """The first characters of a file, decompressed, without reports: enough to see what it is."""
    with path.open("rb") as stream:
        return read_text(stream.read, lambda *_: None).head


def _plain(read: Read, tell: TellLine, text: Text, layer: int = 1) -> Iterator[bytes]:
    """The bytes, decompressed if they are gzip."""
    first = read(CHUNK_BYTES)
    if first.startswith(ZIP):
        text.cut = True
        tell("zip", None, "this is a zip archive: compress with gzip, or not at all")
        return
    if not first.startswith(GZIP):
        yield first
        yield from iter(lambda: read(CHUNK_BYTES), b"")
        return
    text.compressed = True
    inflated = _inflated(first, read, tell, text)
    start = next(inflated, b"")
    pieces = chain([start], inflated)
    if not start.startswith(GZIP):
        yield from pieces
        return
    tell("compressed-name", None, "this is compressed twice: compress once")
    if layer < _GZIP_LAYERS_MAX:
        yield from _plain(lambda _size: next(pieces, b""), tell, text, layer + 1)


def _inflated(first: bytes, read: Read, tell: TellLine, text: Text) -> Iterator[bytes]:
    """The content of a gzip file's members, in pieces of at most CHUNK_BYTES."""
    data = first
    while data.startswith(GZIP):
        inflate = zlib.decompressobj(wbits=31)
        while True:
            try:
                piece = inflate.decompress(data, CHUNK_BYTES)
            except zlib.error as error:
                text.cut = True
                tell("gzip-damaged", None, f"the gzip stream is damaged ({error}): compress the file again")
                return
            if piece:
                yield piece
            if inflate.eof:
                break
            data = inflate.unconsumed_tail or read(CHUNK_BYTES)
            if not data:
                text.cut = True
                tell("gzip-damaged", None, "the gzip stream is cut off: upload the whole file")
                return
        data = inflate.unused_data or read(CHUNK_BYTES)
    if data.strip(b"\0"):
        tell("gzip-trailing", None, f"{shown(data[:40].decode('latin-1'))} follows the gzip stream: take it out")


def _limited(chunks: Iterator[bytes], tell: TellLine, text: Text) -> Iterator[bytes]:
    for chunk in chunks:
        text.bytes += len(chunk)
        text.checksum = zlib.crc32(chunk, text.checksum)
        if text.bytes > BYTES_MAX:
            text.cut = True
            tell(
                "too-large", None, f"it has more than {BYTES_MAX:,} bytes uncompressed: split it; the rest was not read"
            )
            return
        yield chunk


def _decoded(chunks: Iterator[bytes], tell: TellLine) -> Iterator[str]:
    """Decodes the bytes. Replaces undecodable bytes and characters that XML forbids, and reports them."""
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= 256:
            break
    encoding, first = _encoding_of(first, tell)
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    line = 1
    for chunk in chain([first], chunks, [b""]):  # the empty one is the end
        state = decoder.getstate()
        try:
            text = decoder.decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            at = line + error.object[: error.start].count(b"\n")
            byte = error.object[error.start]
            tell("not-utf-8", at, f"the byte 0x{byte:02X} is no {encoding.upper()}: write the file in UTF-8")
            decoder = codecs.getincrementaldecoder(encoding)("replace")
            decoder.setstate(state)
            text = decoder.decode(chunk, not chunk)
        yield _legal(text, line, tell)
        line += text.count("\n")


def _encoding_of(first: bytes, tell: TellLine) -> tuple[str, bytes]:
    """The encoding by byte order mark, zero bytes or declaration; and the bytes without the mark."""
    if first.startswith(codecs.BOM_UTF8):
        tell("byte-order-mark", 1, "it starts with a byte order mark: save it without")
        return "utf-8", first.removeprefix(codecs.BOM_UTF8)
    if encoding := _UTF_16.get(first[:2]):
        tell("not-utf-8", 1, "it is UTF-16: write it in UTF-8")
        return encoding, first if b"<" in first[:2] else first[2:]
    declared = _DECLARED.search(first[:CHUNK_BYTES])
    name = declared[1].decode("ascii") if declared else "utf-8"
    if name.lower() in UTF_8:
        return "utf-8", first
    line = first[: declared.start() if declared else 0].count(b"\n") + 1
    tell("declared-encoding", line, f"it declares {shown(name)}: write it in UTF-8 and declare that")
    if name.lower().startswith("utf-16"):
        return "utf-8", first
    with suppress(LookupError):
        if _ENCODINGS.fullmatch(name):
            return codecs.lookup(name).name, first
    return "iso-8859-1", first


def _legal(text: str, line: int, tell: TellLine) -> str:
    """Replaces control characters by spaces and reports the first of the piece."""
    if control := CONTROLS.search(text):
        at = line + text.count("\n", 0, control.start())
        tell("control-character", at, f"U+{ord(control[0]):04X} is in it: take control characters out")
        return CONTROLS.sub(" ", text)
    return text


def _drop_what_leads(text: Text, tell: TellLine) -> None:
    """Drop and report stray text before the XML declaration or the root element. A file without them stays as it is."""
    start = _XML_START.search(text.head)
    if start is None:
        return
    before = text.head[: start.start()]
    declared = start[0].startswith("<?xml")
    if not declared and before.lstrip().startswith("<") and not _WARNING.match(before):
        return  # the parser judges a comment or a document type before the root element
    if before and (declared or before.strip()):
        what = "the XML declaration" if declared else "the root element"
        tell("leading-bytes", 1, f"{shown(before[:60])} comes before {what}: take it out")
    text.head, text.line = text.head[start.start() :], 1 + before.count("\n")
