"""`stoppress secrets`: creates and rotates the secrets with which sources sign, and explains them to the CMS.

No stored secret is ever shown.
"""

import base64
import json
import os
import secrets as chance
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

import typer

from stoppress.aws import sites
from stoppress.aws.clients import client
from stoppress.aws.secrets import split
from stoppress.model.signature_schemes import NONE, PRESETS, Hmac, Scheme
from stoppress.model.site import Site
from stoppress.model.site_sources import secret_path
from stoppress.receive.webhook import scheme_of
from stoppress.show.site import Access
from stoppress.signatures.verify import BadSecret, keys
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, Commands, Json, Yes
from stoppress_cli.output import ATTENTION, OK, confirmed, console, counted, print_answer, print_json, printer

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
_Stdin = Annotated[bool, typer.Option("--stdin", help="Read the value from standard input; default: generate one.")]

app = Commands(help="Secrets with which sources sign their webhooks: create one, rotate one.")


@app.command("put", effect=WRITES, example="stoppress secrets put www.example.com cms --stack stoppress")
def put(site: _Site, source: _Source, stdin: _Stdin = False, as_json: Json = False) -> None:
    """Create a source's secret, and show what to set in the CMS. A generated value is shown only now.

    Exit code 0: done; 2: the secret exists, there is no such site or source, or the stack cannot be reached.
    """
    secret = of_source(site, source)
    value = _value(secret, stdin=stdin)
    create(secret, value)
    _print_settings(secret, f"created {secret.name}", None if stdin else value, as_json=as_json)


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
    as_json: Json = False,
) -> None:
    """Give a source a new secret beside the old one. Both are valid until --finish takes the old one out.

    Exit code 0: done; 1: you said no; 2: there is no such secret, site or source, or the stack cannot be reached.
    """
    secret = of_source(site, source)
    if not finish:
        value = _value(secret, stdin=stdin)
        add(secret, value)
        done = f"{secret.name} has a new value; the old one stays valid"
        _print_settings(secret, done, None if stdin else value, as_json=as_json)
        if not as_json:
            console.print(
                f"When the CMS uses the new value: {access.command(f'secrets rotate {site} {source} --finish')}"
            )
        return
    is_agreed = confirmed(f"Does {source} of {site} sign with the new secret?", yes=yes, as_json=as_json)
    removed = keep_newest(secret) if is_agreed else 0
    if is_agreed:
        printer(as_json=as_json)(f"{counted(removed, 'old value')} taken out of {secret.name}; one value is valid")
    if as_json:
        print_json({"secret": secret.name, "removed": removed, "done": is_agreed})
    raise typer.Exit(OK if is_agreed else ATTENTION)


def _value(secret: "SourceSecret", *, stdin: bool) -> str:
    """Return the value that the operator gives, or a new one. Typed at a terminal, it is not shown."""
    if not stdin:
        return secret.generate()
    text = typer.prompt("Secret", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    return str(text).strip()


def _print_settings(secret: "SourceSecret", done: str, generated: str | None, *, as_json: bool) -> None:
    """Print what to set in the CMS. `generated` is shown; a value that the operator gave is not."""
    address = f"{os.environ['WEBHOOKS_URL']}/webhooks/{secret.host}/{secret.source}"
    report = {"secret": secret.name, "address": address, "value": generated, "sent_as": secret.how()}
    lines = [
        done,
        "Set in the CMS:",
        f"  address  {address}",
        f"  secret   {generated or 'the value that you gave'}",
        f"  sent as  {secret.how()}",
    ]
    print_answer(report, lines, as_json=as_json)


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
    path = secret_path("webhooks", host, source.secret)
    return SourceSecret(host, name, full_name(path), scheme_of(source.adapter, source.settings))


def missing(site: Site) -> list[tuple[str, str]]:
    """Each source of a site whose secret does not exist, with the secret's full name."""
    sources = site.sources.items()
    named = [
        (name, full_name(secret_path("webhooks", site.host, source.secret)))
        for name, source in sources
        if source.secret
    ]
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


def add(secret: SourceSecret, value: str) -> None:
    """Put a new value before those that are valid. All of them verify webhooks until `keep_newest`.

    Raises BadRequest if the secret does not exist, or if the source cannot use the value.
    """
    secret.check(value)
    values, version = _stored(secret)
    _put(secret, [value, *values], version)


def keep_newest(secret: SourceSecret) -> int:
    """Leave only the newest value valid. Returns how many were taken out. Raises BadRequest if the secret does not exist."""
    (newest, *older), version = _stored(secret)
    if older:
        _put(secret, [newest], version)
    return len(older)


def _stored(secret: SourceSecret) -> tuple[list[str], str]:
    """The valid values, and the id of the secret's version that holds them. Raises BadRequest."""
    manager = client("secretsmanager")
    try:
        answer = manager.get_secret_value(SecretId=secret.name)
    except manager.exceptions.ResourceNotFoundException:
        raise BadRequest(
            f"there is no secret {secret.name}: `stoppress secrets put {secret.host} {secret.source}` makes it"
        ) from None
    try:
        return split(answer.get("SecretString", "")), answer["VersionId"]
    except ValueError as error:
        raise BadRequest(f"the secret {secret.name} {error}") from None


def _put(secret: SourceSecret, values: list[str], read_version: str) -> None:
    """Write the values in place of the version that was read. Raises BadRequest if somebody else replaced it meanwhile."""
    manager = client("secretsmanager")
    put_version = manager.put_secret_value(SecretId=secret.name, SecretString=_text(values))["VersionId"]
    # Secrets Manager has no conditional put. Only the versions show whether somebody else wrote.
    stages = manager.describe_secret(SecretId=secret.name)["VersionIdsToStages"]
    current, previous = (
        next((version for version, labels in stages.items() if label in labels), None)
        for label in ("AWSCURRENT", "AWSPREVIOUS")
    )
    is_outdated = current == read_version  # an eventually consistent answer, which shows nothing
    if not is_outdated and (current, previous) != (put_version, read_version):
        raise BadRequest(
            f"somebody else wrote the secret {secret.name} in the same moment, so a new value may be lost:"
            " agree with each other, and rotate once more"
        )


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
