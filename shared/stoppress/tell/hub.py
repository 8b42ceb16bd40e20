"""A WebSub hub is told that a feed of the site changed. Pure.

WebSub leaves this request to hub and publisher. Hubs accept the one of PubSubHubbub 0.3, section 7.1.
"""

from collections.abc import Iterable
from urllib.parse import urlencode

CONTENT_TYPE = "application/x-www-form-urlencoded"
FIX = "correct `outputs.hub`, or let the hub take the feeds of the site"


def request_body(feeds: Iterable[str]) -> bytes:
    """The body of the POST about feeds that changed, by their URLs."""
    return urlencode([("hub.mode", "publish"), *(("hub.url", url) for url in feeds)]).encode()
