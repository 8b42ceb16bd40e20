"""Reads the bytes of a file as text: decompresses, decodes, and keeps to the limits.

Reports each fault through `report(name of the rule, line, message)` and continues where possible. Unlike the decompression
in `http`, which rejects a damaged body, this code reports all faults of a stream.
"""

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader, BytesIO
from itertools import chain
from pathlib import Path

from stoppress_cli.check.findings import shown
from stoppress_cli.check.rulebook import BYTES_MAX
from stoppress_cli.check.value_rules import CONTROLS

CHUNK_BYTES = 65_536
HEAD_CHARACTERS = 32_768  # must contain the declaration and the root element

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

ReportLine = Callable[[str, int | None, str], None]
Stream = BufferedReader | gzip.GzipFile


@dataclass(frozen=True)
class Source:
    """A file to check: its name in the report, its URL (None if unknown), its path or its bytes, and its headers.

    Header names are lower case. `headers` is None if they are unknown.
    """

    name: str
    url: str | None
    content: Path | bytes
    headers: Mapping[str, str] | None = None

    @property
    def is_gzip_by_name(self) -> bool:
        return self.name.lower().endswith((".gz", ".gzip"))

    def open(self) -> BufferedReader:
        return BufferedReader(BytesIO(self.content)) if isinstance(self.content, bytes) else self.content.open("rb")


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


def read_text(stream: Stream, report: ReportLine) -> Text:
    """Return the text of a file, without the text before the document."""
    text = Text()
    text.rest = _decode(_limit_size(_decompress(stream, report, text), report, text), report)
    for piece in text.rest:
        text.head += piece
        if len(text.head) >= HEAD_CHARACTERS:
            break
    _drop_leading_text(text, report)
    return text


def peek(path: Path) -> str:
    """Return the first characters of a file, decompressed, without reports: enough to see what it is."""
    with path.open("rb") as stream:
        return read_text(stream, lambda *_: None).head


def _decompress(stream: Stream, report: ReportLine, text: Text, layer: int = 1) -> Iterator[bytes]:
    """Yield the content of a file in pieces, decompressed if it is gzip."""
    beginning = stream.peek(len(ZIP))
    if beginning.startswith(ZIP):
        text.cut = True
        report("zip", None, "this is a zip archive")
    elif not beginning.startswith(GZIP):
        yield from iter(lambda: stream.read1(CHUNK_BYTES), b"")
    elif layer <= _GZIP_LAYERS_MAX:
        text.compressed = True
        if layer > 1:
            report("compressed-name", None, "this is compressed twice")
        try:
            yield from _decompress(gzip.GzipFile(fileobj=stream, mode="rb"), report, text, layer + 1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            if str(error).startswith("Not a gzipped file"):  # after the last member
                report("gzip-trailing", None, "something else follows the gzip stream")
            else:
                text.cut = True
                report("gzip-damaged", None, f"the gzip stream is damaged ({error})")


def _limit_size(chunks: Iterator[bytes], report: ReportLine, text: Text) -> Iterator[bytes]:
    for chunk in chunks:
        text.bytes += len(chunk)
        text.checksum = zlib.crc32(chunk, text.checksum)
        if text.bytes > BYTES_MAX:
            text.cut = True
            report("too-large", None, f"it has more than {BYTES_MAX:,} bytes uncompressed; the rest was not read")
            return
        yield chunk


def _decode(chunks: Iterator[bytes], report: ReportLine) -> Iterator[str]:
    """Decode the bytes. Replace undecodable bytes and characters that XML forbids, and report them."""
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= 256:
            break
    encoding, first = _encoding_of(first, report)
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    line = 1
    for chunk in chain([first], chunks, [b""]):  # the empty chunk is the end
        state = decoder.getstate()
        try:
            text = decoder.decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            at = line + error.object[: error.start].count(b"\n")
            byte = error.object[error.start]
            report("not-utf-8", at, f"the byte 0x{byte:02X} is no {encoding.upper()}")
            decoder = codecs.getincrementaldecoder(encoding)("replace")
            decoder.setstate(state)
            text = decoder.decode(chunk, not chunk)
        if control := CONTROLS.search(text):
            at = line + text.count("\n", 0, control.start())
            report("control-character", at, f"U+{ord(control[0]):04X} is in it")
            text = CONTROLS.sub(" ", text)
        yield text
        line += text.count("\n")


def _encoding_of(first: bytes, report: ReportLine) -> tuple[str, bytes]:
    """Return the encoding by byte order mark, zero bytes or declaration; and the bytes without the mark."""
    if first.startswith(codecs.BOM_UTF8):
        report("byte-order-mark", 1, "it starts with a byte order mark")
        return "utf-8", first.removeprefix(codecs.BOM_UTF8)
    if encoding := _UTF_16.get(first[:2]):
        report("not-utf-8", 1, "it is UTF-16")
        return encoding, first if b"<" in first[:2] else first[2:]
    declared = _DECLARED.search(first[:CHUNK_BYTES])
    name = declared[1].decode("ascii") if declared else "utf-8"
    if name.lower() in UTF_8:
        return "utf-8", first
    line = first[: declared.start() if declared else 0].count(b"\n") + 1
    report("declared-encoding", line, f"it declares {shown(name)}")
    if name.lower().startswith("utf-16"):
        return "utf-8", first
    with suppress(LookupError):
        if _ENCODINGS.fullmatch(name):
            return codecs.lookup(name).name, first
    return "iso-8859-1", first


def _drop_leading_text(text: Text, report: ReportLine) -> None:
    """Drop and report stray text before the XML declaration or the root element. A file without them stays as it is."""
    start = _XML_START.search(text.head)
    if start is None:
        return
    before = text.head[: start.start()]
    declared = start[0].startswith("<?xml")
    if not declared and before.lstrip().startswith("<") and not _WARNING.match(before):
        return  # the parser checks a comment or a document type before the root element
    if before and (declared or before.strip()):
        what = "the XML declaration" if declared else "the root element"
        report("leading-bytes", 1, f"{shown(before[:60])} comes before {what}")
    text.head, text.line = text.head[start.start() :], 1 + before.count("\n")
