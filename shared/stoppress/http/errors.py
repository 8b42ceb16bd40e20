"""Why a request to another web server failed. The text of each error is the reason, and poll_feeds keeps it in the feed's item.

An HTTP status is no error: the caller decides what a 404 means.
"""


class FetchError(Exception):
    """The request failed."""


class Refused(FetchError):
    """The guard forbids this URL: its scheme, port, user name or address, or a redirect from https to http."""


class TooSlow(FetchError):
    """The server did not accept the connection in time, or the whole request took too long."""


class TooLarge(FetchError):
    """The body, compressed or decompressed, is over the limit."""


class TooManyRedirects(FetchError):
    """The request was redirected more than `client.REDIRECTS_MAX` times."""


class Unreachable(FetchError):
    """The host name, the connection, the certificate or the answer was wrong."""


def reason_of(error: Exception) -> str:
    """Return the last sentence of urllib3's nested errors, without the object that raised it."""
    return str(error).rsplit(">: ", 1)[-1][:300] or type(error).__name__
