"""The door to the webhooks' secrets, in Secrets Manager."""

import os
from datetime import UTC, datetime, timedelta

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import client

CACHE_AGE_MAX = timedelta(seconds=60)

_cache: dict[str, tuple[datetime, str]] = {}


class NoSecret(LookupError):
    """The secret that a source names is not there, or may not be read."""


def load(name: str) -> list[str]:
    """The secrets kept under a name, at most a minute old: one, or several parted by white space while one is rotated.

    Raises NoSecret, without which nothing may be let in.
    """
    full_name = f"{os.environ['SECRETS_PATH']}/{name}"
    try:
        secrets = _text(full_name).split()
    except (ClientError, BotoCoreError) as error:
        raise NoSecret(f"the secret {full_name} cannot be read: {error}") from None
    if not secrets:
        raise NoSecret(f"the secret {full_name} is empty")
    return secrets


def forget() -> None:
    """Forget what is kept, as a cold start does."""
    _cache.clear()


def _text(full_name: str) -> str:
    now = datetime.now(UTC)
    read_at, text = _cache.get(full_name, (now, None))
    if text is not None and timedelta() <= now - read_at < CACHE_AGE_MAX:
        return text
    answer = client("secretsmanager").get_secret_value(SecretId=full_name)
    text = str(answer.get("SecretString", ""))  # absent where somebody stored bytes
    _cache[full_name] = (now, text)
    return text
