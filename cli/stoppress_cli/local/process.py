"""Changes of the process by a stack: environment variables and the clock."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from stoppress_cli.local.template import REGION


@contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables, or remove them (None), while the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def no_aws_settings() -> dict[str, str | None]:
    """Return variables that override every AWS setting of this machine's user: accounts, profiles and endpoints."""
    inherited = dict.fromkeys(name for name in os.environ if name.startswith("AWS_"))
    return inherited | {
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class Clock:
    """The clock of the whole process, moto included: this machine's, until `move` sets another time.

    Monotonic clocks are not changed.
    """

    def __init__(self) -> None:
        self._travel: Any = None

    def now(self) -> datetime:
        """Return the time of the whole process, in UTC."""
        return datetime.now(UTC)

    def move(self, instant: datetime, *, runs: bool = False) -> None:
        """Set the clock to `instant`, where it stands still until the next call, or runs from there."""
        import time_machine  # here, because commands on AWS do not need it

        self.release()
        self._travel = time_machine.travel(instant, tick=runs)
        self._travel.start()

    def release(self) -> None:
        """Return to the machine's clock."""
        if self._travel is not None:
            self._travel.stop()
        self._travel = None
