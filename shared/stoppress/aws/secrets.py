"""The secrets in Secrets Manager."""

import json
import os
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client

CACHE_AGE_MAX = timedelta(seconds=60)
# A secret that verifies webhooks is cached longer, because AWS bills each read. Before a webhook is refused, a secret that was read
# more than REFUSED_AGE_MAX ago is read again, so a new secret works soon. A removed secret is accepted until its cache entry expires.
SIGNED_AGE_MAX = timedelta(minutes=5)
REFUSED_AGE_MAX = timedelta(seconds=10)
# How long a missing secret is cached: a flood of webhooks costs one call, and a new secret works soon.
MISSING_AGE_MAX = timedelta(seconds=10)
# Spaces separate secrets. A part shorter than this is probably a word of a phrase, which is easy to guess.
PART_CHARACTERS_MIN = 8

# Missing, denied, about to be deleted. Any other error may pass before the next call, so it is not cached: some senders never retry.
_LASTING = {"ResourceNotFoundException", "AccessDeniedException", "InvalidRequestException"}


class NoSecret(LookupError):
    """A secret is missing, may not be read, or has an unknown format. `may_pass`: the next attempt may succeed."""

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


_cache: dict[str, tuple[datetime, str | NoSecret]] = {}


def load(name: str, age_max: timedelta = CACHE_AGE_MAX) -> list[str]:
    """Return the secrets under a name: one, or several during a rotation. They were read at most `age_max` ago.

    Raises NoSecret. A missing secret is cached as missing for MISSING_AGE_MAX.
    """
    full_name = f"{os.environ['SECRETS_PATH']}/{name}"
    text = _text(full_name, age_max)
    try:
        return split(text)
    except ValueError as error:
        raise NoSecret(f"the secret {full_name} {error}") from None


def load_text(name: str) -> str:
    """Return the whole text of a secret, read at most CACHE_AGE_MAX ago. Raises NoSecret."""
    return _text(f"{os.environ['SECRETS_PATH']}/{name}", CACHE_AGE_MAX)


def is_there(name: str) -> bool:
    """Return True if the secret under a name exists and is not about to be deleted. Does not read its value."""
    try:
        answer = client("secretsmanager").describe_secret(SecretId=f"{os.environ['SECRETS_PATH']}/{name}")
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return False
        raise
    return "DeletedDate" not in answer


def split(text: str) -> list[str]:
    """Return the secrets of a text: separated by white space, or a JSON list if they contain white space.

    Raises ValueError.
    """
    try:
        secrets = json.loads(text) if text.lstrip().startswith("[") else text.split()
    except (ValueError, RecursionError):
        secrets = None
    if not isinstance(secrets, list) or not all(isinstance(secret, str) and secret.strip() for secret in secrets):
        raise ValueError("begins like a JSON list, but is no list of texts")
    if not secrets:
        raise ValueError("is empty")
    if len(secrets) > 1 and any(len(secret) < PART_CHARACTERS_MIN for secret in secrets):
        raise ValueError("looks like one phrase with spaces: write it as a JSON list of one text")
    return secrets


def forget() -> None:
    """Empty the cache, like a cold start."""
    _cache.clear()


def _text(full_name: str, age_max: timedelta) -> str:
    """Return the text of a secret, from the cache or from Secrets Manager. Raises NoSecret."""
    now = datetime.now(UTC)
    read_at, cached = _cache.get(full_name, (now, None))
    age = now - read_at
    if isinstance(cached, str) and timedelta() <= age < age_max:
        return cached
    if isinstance(cached, NoSecret) and timedelta() <= age < MISSING_AGE_MAX:
        raise NoSecret(str(cached))
    try:
        answer = client("secretsmanager").get_secret_value(SecretId=full_name)
    except (ClientError, BotoCoreError) as error:
        reason = f"the secret {full_name} cannot be read: {error}"
        if isinstance(error, ClientError) and error.response["Error"]["Code"] in _LASTING:
            _cache[full_name] = (now, NoSecret(reason))
            raise NoSecret(reason) from None
        raise NoSecret(reason, may_pass=True) from None
    text = str(answer.get("SecretString", ""))  # absent if the secret is binary
    _cache[full_name] = (now, text)
    return text
