"""Judges a delivery as it arrives: the source that it is for, whether its signature is valid, and what the adapter makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from stoppress.cms.mapping import MappingFile
from stoppress.cms.verdicts import Verdict
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme, check_settings
from stoppress.model.site import Site
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify
from stoppress_cli.inputs.delivery import mapping_of, verdicts_of


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
        """How to read a delivery. None if there is no `mapping` and the end of the path names no source of the site."""
        source = self.site.sources.get(request.path.rpartition("/")[2]) if self.site else None
        settings = {**(source.settings if source else {}), **self.settings}
        if self.mapping is not None:
            return ReadAs(self.mapping, settings)
        return ReadAs(mapping_of(source.adapter), settings) if source else None

    def signature(self, request: Request, source: ReadAs, now: datetime) -> str:
        """`valid`, or `invalid` and why."""
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
        """What the adapter makes of the delivery."""
        return verdicts_of(source.mapping, request, source.settings, self.site, now)
