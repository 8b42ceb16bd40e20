"""Errors of the doubles of AWS: the errors of boto3, and an error for unsupported calls.

Each double implements the methods of a boto3 client that the product calls, with their arguments, responses and errors, and nothing
else. `test_doubles.py` compares them with moto. Unsupported calls raise NotSupported.
"""

from typing import Any

from botocore.exceptions import ClientError


class NotSupported(BaseException):
    """A call that a double does not support. Not an Exception, so that no function handles it as an error of AWS."""


_STATUS = {"NoSuchKey": 404, "PreconditionFailed": 412, "ConditionalRequestConflict": 409, "SlowDown": 503}


def error(operation: str, code: str, message: str = "error of the double", **more: Any) -> ClientError:
    """Return the error that boto3 raises."""
    detail: Any = {"Code": code, "Message": message}
    answer: Any = {"Error": detail, "ResponseMetadata": {"HTTPStatusCode": _STATUS.get(code, 400)}, **more}
    return ClientError(answer, operation)
