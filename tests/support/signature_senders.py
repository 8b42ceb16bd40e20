"""How each sender signs, written from its documentation and independent of the code under test."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import quote

from stoppress.model.http_request import Request

MORNING = datetime(2026, 11, 20, 8, tzinfo=UTC)
BODY = '{"title":"Überschwemmung & <Flut>","n":1}'.encode()
PATH, QUERY = "/webhooks/www.example.com/cms", "a=b c&d=é"

Sign = Callable[[str, bytes, int], dict[str, str]]


def mac(secret: str, *parts: str | bytes, digest: str = "sha256") -> bytes:
    content = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    return hmac.new(secret.encode(), content, getattr(hashlib, digest)).digest()


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def standard(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"msg_1.{at_ms // 1000}.".encode() + body
    signature = b64(hmac.new(key, content, hashlib.sha256).digest())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(at_ms // 1000), "webhook-signature": f"v1,{signature}"}


def ghost(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-ghost-signature": f"sha256={mac(secret, body, str(at_ms)).hex()}, t={at_ms}"}


def ghost_legacy(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-ghost-signature": f"sha256={mac(secret, body).hex()}, t={at_ms}"}


def github(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={mac(secret, body).hex()}"}


def superdesk(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-superdesk-signature": f"sha1={mac(secret, body, digest='sha1').hex()}"}


def wp_webhooks(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-wp-webhook-signature": b64(mac(secret, body))}


def sanity(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    signature = base64.urlsafe_b64encode(mac(secret, f"{at_ms}.", body)).decode().rstrip("=")
    return {"sanity-webhook-signature": f"t={at_ms},v1={signature}"}


def storyblok(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"webhook-signature": mac(secret, body, digest="sha1").hex()}


def webflow(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-webflow-timestamp": str(at_ms), "x-webflow-signature": mac(secret, f"{at_ms}:", body).hex()}


def kontent(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-kontent-ai-signature": b64(mac(secret, body))}


def stripe_like(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"x-webhook-signature": f"t={at_ms // 1000},v1={mac(secret, f'{at_ms // 1000}.', body).hex()}"}


def contentful(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    """Sign PATH and QUERY: the query is encoded as a whole, and its percent signs again with the path."""
    names = "content-type,x-contentful-signed-headers,x-contentful-timestamp,x-contentful-topic"
    topic = "ContentManagement.Entry.publish"
    headers = (
        f"content-type:application/json;x-contentful-signed-headers:{names}"
        f";x-contentful-timestamp:{at_ms};x-contentful-topic:{topic}"
    )
    path = PATH + "?" + quote(QUERY, safe="").replace("%", "%25")
    signature = mac(secret, f"POST\n{path}\n{headers}\n", body).hex()
    return {
        "content-type": "application/json",
        "x-contentful-topic": f" {topic} ",
        "x-contentful-timestamp": str(at_ms),
        "x-contentful-signed-headers": names,
        "x-contentful-signature": signature,
    }


def hygraph(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    content = f'{{"Body":{json.dumps(body.decode(), ensure_ascii=False)},"EnvironmentName":"main","TimeStamp":{at_ms}}}'
    return {"gcms-signature": f"sign={b64(mac(secret, content))}, env=main, t={at_ms}"}


def bearer(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def basic(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {"authorization": f"Basic {b64(secret.encode())}"}


def in_the_query(secret: str, body: bytes, at_ms: int) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Sender:
    """A scheme, its signing function, two secrets, and the parts of a delivery that the signature covers."""

    scheme: str
    sign: Sign
    secret: str = "a secret of 20 bytes"
    other: str = "another secret"
    timed: bool = False
    of_body: bool = True
    also_body: Callable[[bytes, str], bytes] = lambda body, secret: body
    query: Callable[[str], str] = lambda secret: QUERY

    def request(self, secret: str | None = None, at: datetime = MORNING, body: bytes = BODY) -> Request:
        secret = self.secret if secret is None else secret
        sent = self.also_body(body, secret)
        headers = self.sign(secret, sent, round(at.timestamp() * 1000))
        return Request({"host": "api.example.com", **headers}, sent, "POST", PATH, self.query(secret))


def posted(request: Request, **changed: object) -> Request:
    return replace(request, **changed)  # type: ignore[arg-type]


SENDERS = [
    Sender("standard", standard, "whsec_c3RvcHByZXNzLXNlY3JldC0yNGJ5dGU=", "whsec_b3RoZXItc2VjcmV0LTI0Ynl0ZQ==", timed=True),
    Sender("ghost", ghost, timed=True),
    Sender("ghost-legacy", ghost_legacy, timed=True),
    Sender("github", github),
    Sender("superdesk", superdesk),
    Sender("wp-webhooks", wp_webhooks),
    Sender("sanity", sanity, timed=True),
    Sender("storyblok", storyblok),
    Sender("webflow", webflow, timed=True),
    Sender("kontent", kontent),
    Sender("stripe-like", stripe_like, timed=True),
    Sender("contentful", contentful, timed=True),
    Sender("hygraph", hygraph, timed=True),
    Sender("bearer", bearer, of_body=False),
    Sender("basic", basic, "newsroom:long password", "newsroom:other", of_body=False),
    Sender("token", in_the_query, "to+k/en=", "other", of_body=False, query=lambda secret: f"x=1&token={quote(secret)}"),
    Sender("query-token", in_the_query, "token", "other", of_body=False, query=lambda secret: f"token={quote(secret)}"),
    Sender(
        "body-secret", in_the_query, of_body=False,
        also_body=lambda body, secret: json.dumps({**json.loads(body), "secret": secret}).encode(),
    ),
]  # fmt: skip


def sender_of(scheme: str) -> Sender:
    return next(sender for sender in SENDERS if sender.scheme == scheme)
