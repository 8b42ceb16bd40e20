"""The door to the webhooks' secrets, in Secrets Manager."""

import json
import os
import re
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client

CACHE_AGE_MAX = timedelta(seconds=60)
# For so long nobody asks again for a secret that is not to be had: a flood costs one call, and one that was just made is there soon.
MISSING_AGE_MAX = timedelta(seconds=10)
# What is shorter, beside others, is more likely a word of a phrase than a secret of its own: anybody could guess it.
PART_CHARACTERS_MIN = 8

_PEM = re.compile(r"-----BEGIN [^-]+-----[^-]+-----END [^-]+-----")

# Missing, denied, about to be deleted. Any other failure may be over with the next call, and some senders make no other.
_LASTING = {"ResourceNotFoundException", "AccessDeniedException", "InvalidRequestException"}


class NoSecret(LookupError):
    """The secret that a source names is not there, may not be read, or is written in no way that is known."""


_cache: dict[str, tuple[datetime, str | NoSecret]] = {}


def load(name: str) -> list[str]:
    """The secrets kept under a name, at most a minute old: one, or several while one is rotated.

    Raises NoSecret, without which nothing may be let in; where the secret is not to be had, for ten seconds.
    """
    full_name = f"{os.environ['SECRETS_PATH']}/{name}"
    text = _text(full_name)
    try:
        return split(text)
    except ValueError as error:
        raise NoSecret(f"the secret {full_name} {error}") from None


def split(text: str) -> list[str]:
    """The secrets of a text: parted by white space, in a JSON list where they have some in them, or public keys in PEM.

    Raises ValueError.
    """
    secrets = _listed(text) if text.lstrip().startswith("[") else _PEM.findall(text) or text.split()
    if not secrets:
        raise ValueError("is empty")
    if len(secrets) > 1 and any(len(secret) < PART_CHARACTERS_MIN for secret in secrets):
        raise ValueError("looks like one phrase with spaces: write it as a JSON list of one text")
    return secrets


def _listed(text: str) -> list[str]:
    try:
        secrets = json.loads(text)
    except (ValueError, RecursionError):
        secrets = None
    if not isinstance(secrets, list) or not all(isinstance(secret, str) and secret.strip() for secret in secrets):
        raise ValueError("begins as a JSON list and is no list of texts")
    return secrets


def forget() -> None:
    """Forget what is kept, as a cold start does."""
    _cache.clear()


def _text(full_name: str) -> str:
    """Raises NoSecret."""
    now = datetime.now(UTC)
    read_at, known = _cache.get(full_name, (now, None))
    age = now - read_at
    if isinstance(known, str) and timedelta() <= age < CACHE_AGE_MAX:
        return known
    if isinstance(known, NoSecret) and timedelta() <= age < MISSING_AGE_MAX:
        raise NoSecret(str(known))
    try:
        answer = client("secretsmanager").get_secret_value(SecretId=full_name)
    except (ClientError, BotoCoreError) as error:
        reason = f"the secret {full_name} cannot be read: {error}"
        if isinstance(error, ClientError) and error.response["Error"]["Code"] in _LASTING:
            _cache[full_name] = (now, NoSecret(reason))
        raise NoSecret(reason) from None
    text = str(answer.get("SecretString", ""))  # absent where somebody stored bytes
    _cache[full_name] = (now, text)
    return text
