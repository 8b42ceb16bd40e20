"""The only place where boto3 clients are made."""

from functools import cache
from typing import Any

import boto3
from botocore.config import Config

# Short enough to fail within a function's timeout, including botocore's retries.
_CONFIG = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})


@cache
def client(service: str) -> Any:
    """The client of an AWS service, made at its first use, so that a cold start makes only the needed ones."""
    return boto3.client(service, config=_CONFIG)  # type: ignore[call-overload]
