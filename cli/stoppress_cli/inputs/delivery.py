"""A delivery of a CMS: whether its signature is valid, and what an adapter makes of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stoppress.cms.engine import read_delivery
from stoppress.cms.envelopes import BadDelivery
from stoppress.cms.mapping import BadMapping, MappingFile, UnknownAdapter, load, read_file
from stoppress.cms.verdicts import Verdict
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme, check_settings
from stoppress.model.site import BadConfiguration, Site, read_site
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify

# What `reader_of` raises for options that cannot be used.
UNUSABLE = (OSError, ValueError, TypeError, UnknownAdapter, BadMapping, BadConfiguration)


@dataclass(frozen=True)
class ReadAs:
    """How one delivery is read: the mapping and the settings of its source."""

    mapping: MappingFile
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Reader:
    """How deliveries are read: by one mapping, or by the mapping of the site's source that the end of the path names.

    `settings` override the source's. Without `secrets` no signature is checked.
    """

    mapping: MappingFile | None = None
    site: Site | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    secrets: Sequence[str] = ()

    def source_of(self, request: Request) -> ReadAs | None:
        """Return how to read a delivery. None if there is no `mapping` and the end of the path names no source of the site."""
        source = self.site.sources.get(request.path.rpartition("/")[2]) if self.site else None
        settings = {**(source.settings if source else {}), **self.settings}
        if self.mapping is not None:
            return ReadAs(self.mapping, settings)
        return ReadAs(load(source.adapter), settings) if source else None

    def signature(self, request: Request, source: ReadAs, now: datetime) -> str:
        """Return `valid`, or `invalid` and why."""
        settings = source.settings
        path = settings.get("signed_path", request.path)
        signed = Request(request.headers, request.body, request.method, path, request.query)
        try:
            check_settings(settings)
            tolerance = timedelta(seconds=settings["tolerance_s"]) if "tolerance_s" in settings else TOLERANCE
            verify(settings.get("signature", source.mapping.signature), signed, self.secrets, now, tolerance)
        except (BadSignature, BadSecret, BadScheme) as error:
            return f"invalid: {error}"
        return "valid"

    def verdicts(self, request: Request, source: ReadAs, now: datetime) -> list[Verdict]:
        """Return a verdict for each item of a delivery; an incomplete one for a body to which the webhook answers 400."""
        try:
            return read_delivery(source.mapping, request, source.settings, self.site, now)
        except BadDelivery as error:
            return [Verdict(disposition="incomplete", missing=("body",), reason=str(error))]


def reader_of(
    adapter: str | None,
    settings: str | None,
    site: Path | None,
    recorded: Mapping[str, Any] = MappingProxyType({}),
    secrets: Sequence[str] = (),
) -> Reader:
    """Return the reader that options describe: an adapter's name or a .toml file, settings as JSON, and a site's document.

    The given settings override the `recorded` ones. Raises UNUSABLE.
    """
    given = json.loads(settings) if settings else {}
    if not isinstance(given, dict):
        raise ValueError("--settings: give a JSON object")
    mapping = read_file(Path(adapter)) if adapter and adapter.endswith(".toml") else load(adapter) if adapter else None
    return Reader(
        mapping, read_site(site.read_text(encoding="utf-8"), 0) if site else None, {**recorded, **given}, secrets
    )
