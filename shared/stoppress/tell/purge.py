"""A CDN forgets the news sitemaps and the index when they change: what it is sent, and what its refusals mean. Pure.

Sources: Amazon CloudFront's API reference and developer guide; Standard Webhooks 1.0.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import PRESETS
from stoppress.signatures import parametric
from stoppress.tell.indexnow import WRONG_SECONDS, Meaning

CONTENT_TYPE = "application/json; charset=utf-8"
FIX = "correct `engines.purge.url`, or give its receiver the secret `engines.purge.secret`"
# Refusals of CloudFront that pass: too many invalidations at once, or too many requests.
_PASSING = {"TooManyInvalidationsInProgress", "Throttling", "ThrottlingException", "RequestLimitExceeded"}
_FIXES = {
    "AccessDenied": "add the distribution's ARN to the parameter `ReaderDistributionArns`",
    "NoSuchDistribution": "correct `engines.purge.distribution`",
}
_OTHER_FIX = "report this to Stoppress, because the request is wrong"


def paths(host: str, files: Iterable[str]) -> list[str]:
    """The paths of files on a distribution, sorted: as a reader requests a file, and as the function FilePaths rewrites it.

    Where a function rewrites the path of a request, AWS advises to invalidate both paths (developer guide, "What you need to know
    when invalidating files").
    """
    return sorted(path for file in files for path in (f"/{file}", f"/{host}/{file}"))


def refusal(code: str, status: int, message: str) -> Meaning:
    """What an error of CloudFront means, by its code and HTTP status."""
    reason = f"{code}: {message}"
    if code in _PASSING or status >= 500 or status == 429:
        return Meaning("later", reason, is_certain=status < 500)
    return Meaning("wrong", f"{reason}: {_FIXES.get(code, _OTHER_FIX)}", WRONG_SECONDS, is_certain=True)


def request_body(host: str, urls: Sequence[str]) -> bytes:
    """The body of the POST to a purge program."""
    return json.dumps({"site": host, "urls": list(urls)}, ensure_ascii=False, separators=(",", ":")).encode()


def signed_headers(secrets: Sequence[str], id_: str, body: bytes, now: datetime) -> dict[str, str]:
    """The headers of Standard Webhooks, with a signature by each secret that can be used. Raises BadSecret if none can."""
    scheme = PRESETS["standard"]
    headers = {"webhook-id": id_, "webhook-timestamp": str(int(now.timestamp()))}
    text = parametric.message(scheme, Request(headers, body), headers["webhook-timestamp"])
    signatures = [scheme.prefix + parametric.sign(scheme, key, text) for key in parametric.keys(scheme, [*secrets])]
    return headers | {scheme.header: scheme.separator.join(signatures)}
