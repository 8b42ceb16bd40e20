"""The door to the webhooks' secrets, in Secrets Manager."""

import os

from aws_lambda_powertools.utilities.parameters import get_secret
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

CACHE_AGE_MAX_SECONDS = 60


class NoSecret(LookupError):
    """The secret that a source names is not there, or may not be read."""


def load(name: str) -> list[str]:
    """The secrets kept under a name, at most a minute old: one, or several parted by white space while one is rotated.

    Raises NoSecret, without which nothing may be let in.
    """
    full_name = f"{os.environ['SECRETS_PATH']}/{name}"
    try:
        secrets = str(get_secret(full_name, max_age=CACHE_AGE_MAX_SECONDS)).split()
    except GetParameterError as error:
        raise NoSecret(f"the secret {full_name} cannot be read: {error}") from None
    if not secrets:
        raise NoSecret(f"the secret {full_name} is empty")
    return secrets
