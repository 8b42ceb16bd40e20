"""`stoppress secrets`: creates and rotates the secrets with which sources sign, and explains them to the CMS.

No stored secret is ever shown.
"""

import base64
import json
import os
import secrets as random_secrets
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from stoppress.aws import secrets as stored_secrets, sites
from stoppress.aws.clients import client
from stoppress.model.signature_schemes import NONE, PRESETS, Hmac, Scheme
from stoppress.model.site import Site
from stoppress.model.site_parts import secret_path
from stoppress.primitives.instants import local_time
from stoppress.receive.webhook import scheme_of
from stoppress.show.stack_status import Access
from stoppress.signatures.verify import keys
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, Commands, Yes
from stoppress_cli.output import agrees, counted, end, print_answer, show

_GENERATED_BYTES = 32
# How a sender sends a secret that signs nothing. docs/reference/webhook.md has the same list.
_TOKENS = {
    "bearer": "the header Authorization: Bearer <secret>, or ?access_token=<secret> at the end of the address",
    "token": "?token=<secret> at the end of the address",
    "query-token": "?token=<secret> at the end of the address",
    "basic": "HTTP basic authentication; the secret is user:password",
    "body-secret": '"secret": "<secret>" in the JSON body',
}


_Site = Annotated[str, typer.Argument(metavar="SITE", help="Host of the site.")]
_Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Name of the source in the site's configuration.")]
_Stdin = Annotated[bool, typer.Option("--stdin", help="Read the secret from standard input; default: generate one.")]

app = Commands(help="Create or rotate the secret with which a source signs its webhooks.")


@app.command("put", effect=WRITES, example="stoppress secrets put www.example.com cms --stack stoppress")
def put(site: _Site, source: _Source, stdin: _Stdin = False) -> None:
    """Create a source's secret, and show what to set in the CMS. A generated value is shown only once."""
    secret = secret_of(site, source)
    value = _value(secret, stdin=stdin)
    manager = client("secretsmanager")
    try:
        manager.create_secret(Name=secret.name, SecretString=_text([value]))
    except manager.exceptions.ResourceExistsException:
        advice = f"`stoppress secrets rotate {site} {source}` sets a new value"
        raise BadRequest(f"the secret {secret.name} exists: {advice}") from None
    _print_settings(secret, None if stdin else value, f"created {secret.name}")


@app.command("rotate", effect=WRITES, example="stoppress secrets rotate www.example.com cms --stack stoppress")
def rotate(
    site: _Site,
    source: _Source,
    access: Access,
    stdin: _Stdin = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="End the rotation: only the newest value stays valid.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Give a source a new secret alongside the old one. Both are valid until --finish ends the rotation; the old one then stays valid for up to five minutes."""
    secret = secret_of(site, source)
    if finish:
        if not agrees(f"Does {source} of {site} sign with the new secret?", yes=yes):
            end({"secret": secret.name, "removed": 0, "done": False}, is_ok=False)
        (newest, *older), version = _read_values(secret)
        if older:
            _put(secret, [newest], version)
        ends_at = datetime.now(UTC) + stored_secrets.SIGNED_AGE_MAX
        show(f"{counted(len(older), 'old value')} taken out of {secret.name}; one value is valid")
        show(f"The webhook accepts the old value until {local_time(ends_at, sites.load(site).zone)} at the latest.")
        end({"secret": secret.name, "old_valid_until": ends_at, "removed": len(older), "done": True}, is_ok=True)
    value = _value(secret, stdin=stdin)
    values, version = _read_values(secret)
    _put(secret, [value, *values], version)  # all of them verify webhooks
    command = access.command(f"secrets rotate {site} {source} --finish")
    later = f"The old value ends with this command; run it when the CMS uses the new one: {command}"
    done = f"{secret.name} has a new value; the old one stays valid"
    _print_settings(secret, None if stdin else value, done, later)


def _value(secret: "SourceSecret", *, stdin: bool) -> str:
    """Return the value that the operator gives, or a new one. Typed at a terminal, it is not shown. Raises BadRequest."""
    if not stdin:
        return secret.generate()
    text = typer.prompt("Secret", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    secret.check(value := str(text).strip())
    return value


def _print_settings(secret: "SourceSecret", generated: str | None, done: str, *later: str) -> None:
    """Print what to set in the CMS. `generated` is shown; a value that the operator gave is not."""
    address = f"{os.environ['WEBHOOKS_URL']}/webhooks/{secret.host}/{secret.source}"
    report = {"secret": secret.name, "address": address, "value": generated, "sent_as": secret.how()}
    shown = generated or "the value that you gave"
    lines = ["Set in the CMS:", f"  address  {address}", f"  secret   {shown}", f"  sent as  {secret.how()}"]
    print_answer(report, [done, *lines, *later])


@dataclass(frozen=True, slots=True)
class SourceSecret:
    """A source of a site, with the full name of its secret and the scheme by which its deliveries are verified."""

    host: str
    source: str
    name: str
    scheme: Scheme

    def how(self) -> str:
        """Return what the CMS sends, for the person who sets it up."""
        if self._hmac:
            return f"{', '.join(self._hmac.headers_needed)}: {self._hmac.how}"
        return _TOKENS.get(str(self.scheme), f"the signature {self.scheme}, as its vendor describes it")

    def generate(self) -> str:
        """Return a new secret in the form that the scheme needs."""
        if self.scheme == "basic":
            return f"stoppress:{random_secrets.token_urlsafe(_GENERATED_BYTES)}"
        prefix = self._hmac.key_prefix if self._hmac else ""
        if self._hmac and self._hmac.key == "base64":
            return prefix + base64.b64encode(random_secrets.token_bytes(_GENERATED_BYTES)).decode()
        return prefix + random_secrets.token_hex(_GENERATED_BYTES)

    def check(self, value: str) -> None:
        """Raise BadRequest or BadSecret for a value that the scheme cannot use."""
        if self.scheme == "basic" and ":" not in value:
            raise BadRequest("the secret is not of the form user:password")
        if self._hmac:
            keys(self._hmac, [value])

    @property
    def _hmac(self) -> Hmac | None:
        return PRESETS.get(self.scheme) if isinstance(self.scheme, str) else Hmac.of(self.scheme)


def full_name(path: str) -> str:
    """Return the name in Secrets Manager of a secret at this path."""
    return f"{os.environ['SECRETS_PATH']}/{path}"


def secret_of(host: str, name: str) -> SourceSecret:
    """Return the secret of a source. Raises UnknownSite, BadConfiguration and BadRequest."""
    site = sites.load(host, age_max=timedelta())
    source = site.sources.get(name)
    if source is None:
        raise BadRequest(f"{host} has no source {name!r}: its sources are {', '.join(site.sources) or 'none'}")
    if source.secret is None or scheme_of(source.adapter, source.settings) == NONE:
        raise BadRequest(f'the source {name} of {host} takes no webhooks: give it a "secret" in the configuration')
    path = secret_path("webhooks", host, source.secret)
    return SourceSecret(host, name, full_name(path), scheme_of(source.adapter, source.settings))


def missing_secrets(site: Site) -> list[tuple[str, str]]:
    """Return each source of a site whose secret does not exist, with the secret's full name."""
    secrets = ((name, source.secret) for name, source in site.sources.items() if source.secret)
    paths = ((name, secret_path("webhooks", site.host, secret)) for name, secret in secrets)
    return [(name, full_name(path)) for name, path in paths if not stored_secrets.is_there(path)]


def _read_values(secret: SourceSecret) -> tuple[list[str], str]:
    """Return the valid values, and the id of the secret's version that has them. Raises BadRequest."""
    manager = client("secretsmanager")
    try:
        answer = manager.get_secret_value(SecretId=secret.name)
    except manager.exceptions.ResourceNotFoundException:
        advice = f"`stoppress secrets put {secret.host} {secret.source}` creates it"
        raise BadRequest(f"there is no secret {secret.name}: {advice}") from None
    try:
        return stored_secrets.split(answer.get("SecretString", "")), answer["VersionId"]
    except ValueError as error:
        raise BadRequest(f"the secret {secret.name} {error}") from None


def _put(secret: SourceSecret, values: list[str], read_version: str) -> None:
    """Write the values in place of the version that was read. Raises BadRequest if another user replaced it meanwhile."""
    manager = client("secretsmanager")
    put_version = manager.put_secret_value(SecretId=secret.name, SecretString=_text(values))["VersionId"]
    # Secrets Manager has no conditional put. Only the versions show a concurrent write.
    stages = manager.describe_secret(SecretId=secret.name)["VersionIdsToStages"]
    version_of = {label: version for version, labels in stages.items() for label in labels}
    current, previous = version_of.get("AWSCURRENT"), version_of.get("AWSPREVIOUS")
    is_outdated = current == read_version  # an eventually consistent answer, which shows nothing
    if not is_outdated and (current, previous) != (put_version, read_version):
        raise BadRequest(
            f"another user wrote the secret {secret.name} at the same moment, so a new value may be lost:"
            " agree with each other, and rotate once more"
        )


def _text(values: list[str]) -> str:
    """Return the text of a secret with these values: separated by spaces, else a JSON list. Raises BadRequest."""
    is_plain = not any(value.split() != [value] or value.startswith("[") for value in values)
    text = " ".join(values) if is_plain else json.dumps(values)
    try:
        stored_secrets.split(text)
    except ValueError as error:
        raise BadRequest(f"the secret {error}") from None
    return text
