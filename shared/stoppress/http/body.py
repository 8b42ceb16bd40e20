"""The body of an answer: read up to a limit, and decompressed where it is gzip."""

import zlib
from collections.abc import Iterable, Iterator

from stoppress.http.errors import TooLarge, Unreachable

# The usual limit for the compressed and for the decompressed body, so that it stops a gzip bomb. The largest real feed that we know
# has a fiftieth of this size.
BODY_BYTES_MAX = 10_000_000
CHUNK_BYTES = 65_536

_GZIP_MAGIC = b"\x1f\x8b"


def read_body(chunks: Iterable[bytes], encoding: str = "", bytes_max: int | None = None) -> bytes:
    """Join the chunks of a body; decompress gzip, whatever the Content-Encoding says: many servers get it wrong.

    Gzip that breaks off is decompressed as far as it goes. Bytes after the gzip are dropped. The chunks must be small
    (CHUNK_BYTES), because zlib copies what follows each gzip member. Raises TooLarge, and Unreachable for damaged gzip
    and other encodings.
    """
    bytes_max = BODY_BYTES_MAX if bytes_max is None else bytes_max
    pieces = _limit(chunks, bytes_max)
    start = _with_magic(b"", pieces)
    if not start.startswith(_GZIP_MAGIC):
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise Unreachable(f"the body has the encoding {encoding[:40]!r}, and the request accepts only gzip")
        return b"".join([start, *pieces])
    body = bytearray()
    try:
        while start.startswith(_GZIP_MAGIC):
            start = _with_magic(_gunzip_member(body, start, pieces, bytes_max), pieces)
    except zlib.error as error:
        raise Unreachable(f"the body is damaged gzip: {error}") from None
    return bytes(body)


def _limit(chunks: Iterable[bytes], bytes_max: int) -> Iterator[bytes]:
    size_bytes = 0
    for chunk in chunks:
        # Compressed bytes count too: a gzip stream that inflates to nothing may never end.
        size_bytes += len(chunk)
        if size_bytes > bytes_max:
            raise TooLarge(f"the body is larger than {bytes_max:,} bytes")
        yield chunk


def _with_magic(start: bytes, pieces: Iterator[bytes]) -> bytes:
    """Take more pieces until `start` is long enough to recognise gzip. Its first two bytes may come in two pieces."""
    while len(start) < len(_GZIP_MAGIC) and (piece := next(pieces, b"")):
        start += piece
    return start


def _gunzip_member(body: bytearray, piece: bytes, pieces: Iterator[bytes], bytes_max: int) -> bytes:
    """Decompress one gzip member to the end of `body`. Returns the bytes of its last piece that follow the member."""
    inflate = zlib.decompressobj(wbits=31)
    while piece:
        body += inflate.decompress(piece, bytes_max + 1 - len(body))
        if len(body) > bytes_max:
            raise TooLarge(f"the body, decompressed, is larger than {bytes_max:,} bytes")
        if inflate.eof:
            return inflate.unused_data
        piece = next(pieces, b"")
    return b""
