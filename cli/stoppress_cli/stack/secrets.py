"""The secrets with which sources sign: made, rotated, and explained to the CMS. No stored secret is ever shown."""

import base64
import json
import os
import secrets as chance
from dataclasses import dataclass
from datetime import timedelta

from stoppress.aws import sites
from stoppress.aws.clients import client
from stoppress.aws.secrets import split
from stoppress.model.signature_schemes import NONE, PRESETS, Hmac, Scheme
from stoppress.model.site import Site, secret_path
from stoppress.receive.webhook import scheme_of
from stoppress.signatures.parametric import keys
from stoppress.signatures.verify import BadSecret
from stoppress_cli.stack import find
from stoppress_cli.stack.find import BadRequest

_GENERATED_BYTES = 32
# How a sender sends a secret that signs nothing. docs/reference/webhook.md has the same list.
_TOKENS = {
    "bearer": "the header Authorization: Bearer <secret>, or ?access_token=<secret> at the end of the address",
    "token": "?token=<secret> at the end of the address",
    "query-token": "?token=<secret> at the end of the address",
    "basic": "HTTP basic authentication; the secret is user:password",
    "body-secret": '"secret": "<secret>" in the JSON body',
}


@dataclass(frozen=True, slots=True)
class SourceSecret:
    """A source of a site, with the full name of its secret and the scheme by which its deliveries are verified."""

    host: str
    source: str
    name: str
    scheme: Scheme

    def how(self) -> str:
        """What the CMS sends, for the person who sets it up."""
        if isinstance(self.scheme, str) and self.scheme in _TOKENS:
            return _TOKENS[self.scheme]
        if self._hmac is None:
            return f"the signature {self.scheme}, as its vendor describes it"
        return f"{', '.join(self._hmac.headers_needed)}: {self._hmac.how}"

    def generate(self) -> str:
        """A new secret in the form that the scheme needs."""
        if self.scheme == "basic":
            return f"stoppress:{chance.token_urlsafe(_GENERATED_BYTES)}"
        prefix = self._hmac.key_prefix if self._hmac else ""
        if self._hmac and self._hmac.key == "base64":
            return prefix + base64.b64encode(chance.token_bytes(_GENERATED_BYTES)).decode()
        return prefix + chance.token_hex(_GENERATED_BYTES)

    def check(self, value: str) -> None:
        """Raises BadRequest for a value that the scheme cannot use."""
        if self.scheme == "basic" and ":" not in value:
            raise BadRequest("the secret is not of the form user:password")
        try:
            if self._hmac:
                keys(self._hmac, [value])
        except BadSecret as error:
            raise BadRequest(str(error)) from None

    @property
    def _hmac(self) -> Hmac | None:
        return PRESETS.get(self.scheme) if isinstance(self.scheme, str) else Hmac.of(self.scheme)


def full_name(path: str) -> str:
    """The name in Secrets Manager of a secret at this path."""
    return f"{os.environ['SECRETS_PATH']}/{path}"


def of_source(host: str, name: str) -> SourceSecret:
    """The secret of a source. Raises UnknownSite, BadConfiguration and BadRequest."""
    site = sites.load(host, age_max=timedelta())
    source = site.sources.get(name)
    if source is None:
        raise BadRequest(f"{host} has no source {name!r}: its sources are {', '.join(site.sources) or 'none'}")
    if source.secret is None or scheme_of(source.adapter, source.settings) == NONE:
        raise BadRequest(f'the source {name} of {host} takes no webhooks: give it a "secret" in the configuration')
    path = secret_path(host, source.secret)
    return SourceSecret(host, name, full_name(path), scheme_of(source.adapter, source.settings))


def missing(site: Site) -> list[tuple[str, str]]:
    """Each source of a site whose secret does not exist, with the secret's full name."""
    sources = site.sources.items()
    named = [(name, full_name(secret_path(site.host, source.secret))) for name, source in sources if source.secret]
    return [(name, secret) for name, secret in named if not _exists(secret)]


def _exists(name: str) -> bool:
    manager = client("secretsmanager")
    try:
        return "DeletedDate" not in manager.describe_secret(SecretId=name)
    except manager.exceptions.ResourceNotFoundException:
        return False


def create(secret: SourceSecret, value: str) -> None:
    """Create a source's secret with this value. Raises BadRequest if it exists, or if the source cannot use the value."""
    secret.check(value)
    manager = client("secretsmanager")
    try:
        manager.create_secret(Name=secret.name, SecretString=_text([value]))
    except manager.exceptions.ResourceExistsException:
        raise BadRequest(
            f"the secret {secret.name} exists: `stoppress secrets rotate {secret.host} {secret.source}` gives it a new value"
        ) from None


def rotate(secret: SourceSecret, value: str) -> None:
    """Put a new value before those that are valid. All of them verify webhooks until `finish`.

    Raises BadRequest if the secret does not exist, or if the source cannot use the value.
    """
    secret.check(value)
    _put(secret, [value, *_stored(secret)])


def finish(secret: SourceSecret) -> int:
    """Leave only the newest value valid. Returns how many were taken out. Raises BadRequest if the secret does not exist."""
    newest, *older = _stored(secret)
    if older:
        _put(secret, [newest])
    return len(older)


def _stored(secret: SourceSecret) -> list[str]:
    manager = client("secretsmanager")
    try:
        text = manager.get_secret_value(SecretId=secret.name).get("SecretString", "")
    except manager.exceptions.ResourceNotFoundException:
        raise BadRequest(
            f"there is no secret {secret.name}: `stoppress secrets put {secret.host} {secret.source}` makes it"
        ) from None
    try:
        return split(text)
    except ValueError as error:
        raise BadRequest(f"the secret {secret.name} {error}") from None


def _put(secret: SourceSecret, values: list[str]) -> None:
    client("secretsmanager").put_secret_value(SecretId=secret.name, SecretString=_text(values))


def _text(values: list[str]) -> str:
    """The text of a secret with these values: separated by spaces, else a JSON list. Raises BadRequest."""
    is_plain = not any(value.split() != [value] or value.startswith("[") for value in values)
    text = " ".join(values) if is_plain else json.dumps(values)
    try:
        if split(text) == values:
            return text
        reason = "cannot be kept as it is"
    except ValueError as error:
        reason = str(error)
    raise BadRequest(f"the secret {reason}")


def webhook_url(secret: SourceSecret, stack: str | None, endpoint: str) -> str:
    """The address to which the CMS posts. `stack` is the deployed stack, else `endpoint` serves the stack."""
    path = f"webhooks/{secret.host}/{secret.source}"
    if stack is None:
        return f"{endpoint.rstrip('/')}/{path}"
    outputs = {output["OutputKey"]: output["OutputValue"] for output in find.described(stack).get("Outputs", [])}
    return f"{outputs['WebhookUrl'].partition('webhooks/')[0]}{path}"
