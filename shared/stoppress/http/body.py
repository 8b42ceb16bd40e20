"""The body of an answer: read up to a limit, and decompressed where it is gzip."""

import gzip
import io
import zlib
from collections.abc import Iterable

from stoppress.http.errors import TooLarge, Unreachable

# The usual limit for the compressed and for the decompressed body, so that it stops a gzip bomb. The largest real feed that we know
# has a fiftieth of this size.
BODY_BYTES_MAX = 10_000_000
CHUNK_BYTES = 65_536

_GZIP_MAGIC = b"\x1f\x8b"


def read_body(chunks: Iterable[bytes], encoding: str = "", bytes_max: int | None = None) -> bytes:
    """Join the chunks of a body; decompress gzip, whatever the Content-Encoding says: many servers get it wrong.

    Gzip that breaks off is decompressed as far as it goes. Bytes after the gzip are dropped. Raises TooLarge, and Unreachable
    for damaged gzip and other encodings.
    """
    bytes_max = BODY_BYTES_MAX if bytes_max is None else bytes_max
    body = bytearray()
    for chunk in chunks:
        # Compressed bytes count too: a gzip stream that inflates to nothing may never end.
        body += chunk
        if len(body) > bytes_max:
            raise TooLarge(f"the body is larger than {bytes_max:,} bytes")
    if body.startswith(_GZIP_MAGIC):
        return _gunzip(body, bytes_max)
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise Unreachable(f"the body has the encoding {encoding[:40]!r}, and the request accepts only gzip")
    return bytes(body)


def _gunzip(packed: bytearray, bytes_max: int) -> bytes:
    body = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while piece := file.read1(CHUNK_BYTES):
                body += piece
                if len(body) > bytes_max:
                    raise TooLarge(f"the body, decompressed, is larger than {bytes_max:,} bytes")
    except EOFError:
        pass  # it breaks off
    except (gzip.BadGzipFile, zlib.error) as error:
        if not str(error).startswith("Not a gzipped file"):  # bytes after the gzip
            raise Unreachable(f"the body is damaged gzip: {error}") from None
    return bytes(body)
