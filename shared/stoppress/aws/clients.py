"""Create all AWS clients, and limit the duration of their calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any

import botocore
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.loaders import Loader, instance_cache

from stoppress.primitives.instants import NEVER, Deadline


@dataclass(frozen=True, slots=True)
class Limits:
    """The time-outs of one attempt in seconds, and how many attempts a call has."""

    connect_s: float
    read_s: float
    attempts: int

    @property
    def attempt_s(self) -> float:
        """Return the seconds that the longest attempt can take, plus one second for the handler."""
        return self.connect_s + self.read_s + 1


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


def in_time(
    reserve_seconds: float = 0,
) -> Callable[[Callable[[Any, datetime, Deadline], Any]], Callable[[Any, Any], Any]]:
    """Decorate a Lambda handler, which gets the event, the time, and a deadline this long before Lambda ends the function.

    A client raises OutOfTime instead of an attempt that might outlast the function. The handler then has time for its fallbacks.
    """

    def decorate(handler: Callable[[Any, datetime, Deadline], Any]) -> Callable[[Any, Any], Any]:
        @wraps(handler)
        def timed(event: Any, context: Any) -> Any:
            remaining_ms = context.get_remaining_time_in_millis
            token = _deadline.set(Deadline(remaining_ms))
            try:
                return handler(event, datetime.now(UTC), Deadline(remaining_ms, reserve_seconds))
            finally:
                _deadline.reset(token)

        return timed

    return decorate


@contextmanager
def leaving(seconds: float) -> Iterator[None]:
    """Keep these seconds for the work after the block: in the block, an attempt that might use them raises OutOfTime."""
    before = _deadline.get()
    token = _deadline.set(Deadline(lambda: before.seconds_left * 1_000, seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


class _Loader(Loader):
    """Loads botocore's models of services.

    botocore would read the folders of all its 400 services twice, only to recognize unknown names: a fifth of the time in which
    a function creates its clients.
    """

    @instance_cache
    def list_available_services(self, type_name: str) -> list[str]:
        """Return the names of the folders of models, whatever type of model they have."""
        return [folder.name for folder in Path(self.BUILTIN_DATA_PATH).iterdir()]

    @instance_cache
    def load_data_with_path(self, name: str) -> tuple[Any, str]:
        """Return a file's data and its path.

        `endpoints` has the partitions alone, because each service's model has its own endpoint rules. Reading the whole file of 1.2 MB
        would take a twentieth of a cold start.
        """
        if name != "endpoints":
            loaded: tuple[Any, str] = super().load_data_with_path(name)
            return loaded
        rules, path = super().load_data_with_path("partitions")
        host = "{service}.{region}.{dnsSuffix}"
        variants = [{"hostname": host, "tags": tags} for tags in (["fips"], ["dualstack"], ["dualstack", "fips"])]
        defaults = {"hostname": host, "protocols": ["https"], "signatureVersions": ["v4"], "variants": variants}
        s3 = {"s3": {"partitionEndpoint": "aws-global", "endpoints": {}}}  # botocore asks for it in us-east-1
        partitions = [
            {
                "partition": rule["id"],
                "regions": rule["regions"],
                "regionRegex": rule["regionRegex"],
                "dnsSuffix": rule["outputs"]["dnsSuffix"],
                "services": s3,
                "defaults": defaults,
            }
            for rule in rules["partitions"]
        ]
        return {"partitions": partitions}, path


@cache
def session() -> botocore.session.Session:
    """Return the session of all clients. Importing boto3, which adds nothing that Stoppress uses, would take a tenth of a cold start."""
    new_session = botocore.session.get_session()
    new_session.register_component("data_loader", _Loader())
    return new_session


@cache
def client(service: str) -> Any:
    """Return the client of an AWS service, created at its first use, so that a cold start creates only the needed ones."""
    limits = LIMITS.get(service, _OTHERS)
    config = Config(
        connect_timeout=limits.connect_s,
        read_timeout=limits.read_s,
        retries={"mode": "standard", "total_max_attempts": limits.attempts},
        # botocore would put its own text together for each call, character by character: 3 % of an article's CPU time.
        user_agent=f"stoppress botocore/{botocore.__version__}",
    )

    def assert_in_time(**_: Any) -> None:
        seconds = _deadline.get().seconds_left
        if seconds < limits.attempt_s:
            raise OutOfTime(service=service, seconds=seconds)

    new_client = session().create_client(service, config=config)
    new_client.meta.events.register_first("before-send", assert_in_time)  # before each attempt, including retries
    return new_client


def forget() -> None:
    """Empty the cache, so that the next call creates its client from the current environment."""
    client.cache_clear()
    session.cache_clear()
