"""Shared by all tests: no network except loopback, no real AWS account, no time limits of Hypothesis."""

import functools
import gc
import os
import re
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import botocore.loaders
import pytest
from hypothesis import settings

SEEDS_OF_EVERY_RUN = 30
PAIRS_OF_EVERY_RUN = 20
# The markers of tests that only `make test` runs.
SLOW = ("moto", "artifact", "deployed", "matrix", "browser")
SLOW_MODULE = re.compile(rf"^pytestmark = \[?\s*pytest\.mark\.({'|'.join(SLOW)})\b", re.MULTILINE)
# pytest-xdist sets the terminal's width for its workers; tests expect the commands' output as it is piped.
os.environ.pop("COLUMNS", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this project's tests. pytest reads options from this conftest only, not from those of subdirectories."""
    parser.addoption("--quick", action="store_true", help=f"leave out the tests marked {', '.join(SLOW)}")
    parser.addoption("--screenshots", action="store_true", help="write the screenshots of the documentation again")
    parser.addoption("--terminal", action="store_true", help="write tests/fixtures/terminal again")
    group = parser.getgroup("simulation")
    group.addoption("--seeds", type=int, default=SEEDS_OF_EVERY_RUN, help="how many seeds to simulate")
    group.addoption("--first-seed", type=int, default=1, help="the first seed")
    group.addoption("--pairs", type=int, default=PAIRS_OF_EVERY_RUN, help="how many pairs of configurations to predict")


def pytest_configure(config: pytest.Config) -> None:
    # Python collects garbage after every 700 new objects. The suite creates many objects and few cycles.
    gc.set_threshold(10_000, 20, 20)
    if config.option.quick:
        config.option.markexpr = f"not ({' or '.join(SLOW)})"


def pytest_collection_finish() -> None:
    """Exclude loaded modules and tests from garbage collection, which took a tenth of the suite's time."""
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --quick, leave out a module whose tests are all slow before it is imported: a third of the modules."""
    is_slow = (
        config.option.quick and collection_path.suffix == ".py" and SLOW_MODULE.search(collection_path.read_text())
    )
    return True if is_slow else None


# Use the same examples in every run; `--hypothesis-profile explore` draws other examples.
settings.register_profile("stoppress", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True, derandomize=False)
settings.load_profile("stoppress")

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
CHOICES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL", "AWS_ROLE_ARN", "AWS_CA_BUNDLE")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True, scope="session")
def no_real_account() -> Iterator[None]:
    """Replace this machine's AWS configuration, so that a call outside moto reaches no account."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (*CHOICES, *PROXIES):
            patch.delenv(name, raising=False)
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True, scope="session")
def computed_once() -> Iterator[None]:
    """Compute a site's JSON Schema, botocore's models and moto's URLs once: two thousand stacks and all their calls need them."""
    from moto.core.base_backend import BaseBackend

    from stoppress.model import site
    from stoppress.roll import window

    computed: Any = BaseBackend.urls
    urls: Any = functools.cache(lambda kind: computed.fget(kind.__new__(kind)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "schema", functools.cache(site.schema))
        patch.setattr(botocore.loaders, "create_loader", functools.cache(botocore.loaders.create_loader))
        patch.setattr(BaseBackend, "urls", property(lambda backend: urls(type(backend))))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Allow connections and name look-ups on loopback only.

    The failure is not an Exception, so that code that handles network errors cannot hide it.
    """
    with pytest.MonkeyPatch.context() as patch:
        for method in ("connect", "connect_ex"):
            patch.setattr(socket.socket, method, _only_loopback(getattr(socket.socket, method)))
        original = socket.getaddrinfo

        def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
            if not _is_loopback(host):
                pytest.fail(f"a test looked {host!r} up: there is no network in tests")
            return original(host, *arguments, **options)

        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield


def _only_loopback(connect: Any) -> Any:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family != socket.AF_UNIX and not _is_loopback(address[0]):
            pytest.fail(f"a test tried to connect to {address}: there is no network in tests")
        return connect(self, address)

    return guarded


def _is_loopback(host: str | bytes | None) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in {None, "", "localhost"}:
        return True
    try:
        return ip_address(str(name)).is_loopback
    except ValueError:
        return False
