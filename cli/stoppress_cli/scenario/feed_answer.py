"""What a feed's URL answers in a scenario: perhaps late, slowly, with a wrong length, or compressed."""

import gzip
import zlib
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, IPvAnyAddress

_ZEROS = b"\0" * 1_000_000


def body_bytes(body: Any) -> Any:
    """Return a text or null of a step as the bytes of a body. A lone surrogate becomes invalid UTF-8."""
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else b"" if body is None else body


# Bodies and headers of a step, as they are sent: header names are lower case.
Body = Annotated[bytes, BeforeValidator(body_bytes)]
Headers = Annotated[dict[str, str], AfterValidator(lambda given: {name.lower(): given[name] for name in given})]


class Strict(BaseModel):
    """A model without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FeedAnswer(Strict):
    """The answer of a feed's URL.

    `delay_s` passes before the answer, `drip_s` between its bytes. `length` replaces the true Content-Length. `gzip` compresses
    the body. With `bomb_bytes` the body is gzip that inflates to so many zeros. With `changing_etag` each answer has a new ETag.
    `addresses` are the addresses of the URL's host.
    """

    status: int = 200
    headers: Headers = {}
    body: Body = b""
    delay_s: float = Field(default=0, ge=0)
    drip_s: float = Field(default=0, ge=0)
    length: int | None = Field(default=None, ge=0)
    gzip: bool = False
    bomb_bytes: int = Field(default=0, ge=0)
    changing_etag: bool = False
    addresses: tuple[IPvAnyAddress, ...] = ()

    @property
    def slow(self) -> bool:
        """Whether the answer is delayed."""
        return bool(self.delay_s or self.drip_s)

    def sent(self) -> bytes:
        """Return the body as it is sent."""
        if self.status in (204, 304):
            return b""
        if self.bomb_bytes:
            return _bomb(self.bomb_bytes)
        return gzip.compress(self.body, mtime=0) if self.gzip else self.body


def _bomb(size_bytes: int) -> bytes:
    deflate = zlib.compressobj(wbits=31)
    whole, rest = divmod(size_bytes, len(_ZEROS))
    return b"".join(
        [*(deflate.compress(_ZEROS) for _ in range(whole)), deflate.compress(_ZEROS[:rest]), deflate.flush()]
    )
