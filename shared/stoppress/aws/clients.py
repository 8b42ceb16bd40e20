"""The one place where boto3 clients are made."""

from functools import cache
from typing import Any

import boto3
from botocore.config import Config

# Short enough to fail inside a function's time-out, with botocore's own retries in between.
_CONFIG = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4})


@cache
def client(service: str) -> Any:
    """The client of an AWS service, made at its first use: a cold start pays only for what it calls."""
    return boto3.client(service, config=_CONFIG)  # type: ignore[call-overload]
