"""Makes all boto3 clients, and limits how long their calls may take."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from stoppress.primitives.deadline import NEVER, Deadline

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Limits:
    """The time-outs of one attempt in seconds, and how many attempts a call has."""

    connect_s: float
    read_s: float
    attempts: int

    @property
    def attempt_s(self) -> float:
        """Seconds that the longest attempt can take, plus one second for the handler."""
        return self.connect_s + self.read_s + 1

    @property
    def hanging_call_s(self) -> float:
        """Seconds that a call can take if the service accepts no connection, or accepts one and never answers.

        Between attempts botocore waits at most 1, 2, 4 … seconds.
        """
        return self.attempts * max(self.connect_s, self.read_s) + (1 << self.attempts - 1) - 1


# These services answer in tens of milliseconds. A webhook's sender waits for three calls to them.
_QUICK = Limits(connect_s=1, read_s=2, attempts=2)
LIMITS = {
    "secretsmanager": _QUICK,
    "sqs": _QUICK,
    "events": _QUICK,
    # Three attempts, because DynamoDB briefly throttles a burst of articles.
    "dynamodb": Limits(connect_s=1, read_s=3, attempts=3),
    # S3 answers a PUT of 50 MiB only after it has stored the whole body. While the body is sent, the connect time-out applies.
    "s3": Limits(connect_s=3, read_s=10, attempts=2),
}
# Services that only the command line calls.
_OTHERS = Limits(connect_s=3, read_s=10, attempts=4)


class OutOfTime(BotoCoreError):
    """A call was not attempted, because Lambda might have ended the function before the answer."""

    fmt = "{service} was not called: the function has only {seconds:.1f} s left"


_deadline: ContextVar[Deadline] = ContextVar("deadline", default=NEVER)


def in_time(handler: Callable[[Any, Any], _Answer]) -> Callable[[Any, Any], _Answer]:
    """Decorate a Lambda handler, so that slow AWS services cannot make it run into its time-out.

    A client raises OutOfTime instead of an attempt that might outlast the function. The handler then has time for its fallbacks.
    """

    @wraps(handler)
    def timed(event: Any, context: Any) -> _Answer:
        token = _deadline.set(Deadline(context.get_remaining_time_in_millis))
        try:
            return handler(event, context)
        finally:
            _deadline.reset(token)

    return timed


@contextmanager
def leaving(seconds: float) -> Iterator[None]:
    """Keeps these seconds for the work after the block: in the block, an attempt that might use them raises OutOfTime."""
    before = _deadline.get()
    token = _deadline.set(Deadline(lambda: before.seconds_left * 1_000, seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


@cache
def client(service: str) -> Any:
    """The client of an AWS service, made at its first use, so that a cold start makes only the needed ones."""
    limits = LIMITS.get(service, _OTHERS)
    config = Config(
        connect_timeout=limits.connect_s,
        read_timeout=limits.read_s,
        retries={"mode": "standard", "total_max_attempts": limits.attempts},
    )

    def assert_in_time(**_: Any) -> None:
        seconds = _deadline.get().seconds_left
        if seconds < limits.attempt_s:
            raise OutOfTime(service=service, seconds=seconds)

    made = boto3.client(service, config=config)  # type: ignore[call-overload]
    made.meta.events.register_first("before-send", assert_in_time)  # before each attempt, including retries
    return made
