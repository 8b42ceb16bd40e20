"""What the doubles of AWS have in common: errors as boto3 raises them, and what no double knows.

Each double has the methods of a boto3 client with its arguments, answers and errors, as far as the product asks for them, and nothing
else. `test_doubles.py` holds them equal to moto. What a double does not know it refuses loudly.
"""

from typing import Any

from botocore.exceptions import ClientError


class NotSupported(BaseException):
    """A double was asked for what it does not know. No Exception, so that no function takes it for a fault of AWS."""


_STATUS = {"NoSuchKey": 404, "PreconditionFailed": 412, "ConditionalRequestConflict": 409, "SlowDown": 503}


def error(operation: str, code: str, message: str = "as the double has it", **more: Any) -> ClientError:
    """What boto3 raises."""
    detail: Any = {"Code": code, "Message": message}
    answer: Any = {"Error": detail, "ResponseMetadata": {"HTTPStatusCode": _STATUS.get(code, 400)}, **more}
    return ClientError(answer, operation)
