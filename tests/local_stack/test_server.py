import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress_cli.local.event_sources import Sources
from stoppress_cli.local.lambda_functions import Result
from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from tests.local_stack.toy import NOON

pytestmark = pytest.mark.moto

REAL = Path(__file__).parents[2] / "template.yaml"
HOUR = timedelta(hours=1)
HOSTS = ("www.example.com", "two.example.org")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Stack(REAL, start=NOON) as stack:
        for host in HOSTS:
            site = json.dumps({"host": host, "publication": "News", "sources": {"cms": {"secret": "cms"}}})
            stack.put_site(host, site)
        secret = f"{stack.variable('SECRETS_PATH')}/webhooks/www.example.com/cms"
        stack.client("secretsmanager").create_secret(Name=secret, SecretString="whsec_c3RvcHByZXNz")
        stack.rest()
        running = Server(stack, "127.0.0.1", 0)
        thread = threading.Thread(target=running.serve, daemon=True)
        thread.start()
        yield running
        running.stop()
        thread.join()


def ask(server: Server, path: str, data: bytes | None = None, **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(server.url + path, data, sent)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
            return (
                answer.status,
                {name.lower(): value for name, value in answer.headers.items()},
                answer.read().decode(),
            )
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


def test_a_file_is_served_for_the_requested_host_or_the_first_site(server: Server) -> None:
    assert "https://two.example.org/sitemap-news.xml" in ask(server, "sitemap.xml")[2]
    assert "https://www.example.com/sitemap-news.xml" in ask(server, "sitemap.xml", Host="www.example.com")[2]
    assert "https://www.example.com/sitemap-news.xml" in ask(server, "www.example.com/sitemap.xml")[2]


def test_a_file_has_its_headers_and_is_304_if_unchanged(server: Server) -> None:
    status, headers, body = ask(server, "sitemap.xml")
    assert status == 200
    assert headers["content-type"].startswith("application/xml")
    assert len(body) == int(headers["content-length"])

    assert ask(server, "sitemap.xml", If_None_Match=headers["etag"])[0] == 304


def test_an_unknown_path_is_404(server: Server) -> None:
    assert ask(server, "nothing.xml")[0] == 404
    assert ask(server, "nothing", b"{}")[0] == 404


def test_only_a_page_of_the_server_itself_moves_the_clock(server: Server) -> None:
    address = server.url.removeprefix("http://").rstrip("/")
    own = {"Origin": f"http://{address}"}
    before = server._stack.clock.now()
    assert 'action="/clock"' in ask(server, "")[2]
    for headers in ({}, {"Origin": "null"}, {"Origin": "https://evil.example"}, {"Host": "[", "Origin": "http://["}):
        assert ask(server, "clock", b"hours=48", **headers)[0] == 403
    # A foreign name that resolves to this machine.
    assert ask(server, "clock", b"hours=48", Host="evil.example", Origin="http://evil.example")[0] == 403
    assert ask(server, "clock", b"hours=2", **own)[0] == 400
    assert round((server._stack.clock.now() - before) / HOUR) == 0

    assert ask(server, "clock", b"hours=48", **own)[0] == 200  # after the redirect to the first page
    assert round((server._stack.clock.now() - before) / HOUR) == 48


def test_a_webhook_does_not_wait_for_other_deliveries(server: Server) -> None:
    with server._drive:
        assert ask(server, "webhooks/www.example.com/cms", b"{}", Content_Type="application/json")[0] == 401


class Slow:
    """A function that counts its concurrent invocations."""

    logical = "Slow"

    def __init__(self) -> None:
        self.running = self.concurrent = 0

    def invoke(self, event: Any) -> Result:
        self.running += 1
        self.concurrent = max(self.concurrent, self.running)
        time.sleep(0.01)
        self.running -= 1
        return Result()


def test_requests_and_deliveries_never_run_a_function_concurrently() -> None:
    slow, sources = Slow(), Sources([])
    threads = [threading.Thread(target=sources.invoke, args=(slow, {})) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert slow.concurrent == 1
