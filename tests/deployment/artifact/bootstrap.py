"""Start a function as Lambda's own bootstrap does, on this machine and with nothing else on the path.

    python3.13 -I -S -B bootstrap.py HANDLER FEEDS_PORT FOLDER...

The folders are the function's, the layer's and the runtime's, in the order of Lambda's path. The network is loopback; the one host
of the feeds has a public address as far as can be seen, behind which is the port of this machine that serves them.
"""

import socket
import sys
from typing import Any

FEEDS_HOST = "www.example.com"
FEEDS_ADDRESS = "203.0.114.1"  # an address of no real server: connections to it go to loopback


def _led_to(port: int) -> None:
    look_up, connect = socket.getaddrinfo, socket.socket.connect

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        if host not in {FEEDS_HOST, FEEDS_ADDRESS, "127.0.0.1"}:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} is not looked up: there is no network in tests")
        return look_up(FEEDS_ADDRESS if host == FEEDS_HOST else host, *arguments, **options)

    def connected(self: socket.socket, address: Any) -> None:
        if address[0] not in {FEEDS_ADDRESS, "127.0.0.1"}:
            raise OSError(f"{address} is not called: there is no network in tests")
        connect(self, ("127.0.0.1", port) if address[0] == FEEDS_ADDRESS else address)

    socket.getaddrinfo = getaddrinfo
    socket.socket.connect = connected  # type: ignore[method-assign,assignment]


handler, feeds_port, *folders = sys.argv[1:]
sys.path[:0] = folders
_led_to(int(feeds_port))

from awslambdaric.__main__ import main  # type: ignore[import-not-found]  # noqa: E402 - the path leads there only now

main(["bootstrap", handler])
