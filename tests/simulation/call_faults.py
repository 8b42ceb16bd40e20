"""Fault injection for calls to AWS: the kinds of faults that a seed draws, their rates, and their effects on one call."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from tests.simulation.doubles.errors import error

WRITES = {
    "put_item", "delete_item", "transact_write_items", "batch_write_item", "put_object", "delete_object",
    "send_message_batch", "put_events", "change_message_visibility",
}  # fmt: skip

_REFUSALS = {
    "dynamodb": ("InternalServerError", "ProvisionedThroughputExceededException", "ThrottlingException"),
    "s3": ("SlowDown", "InternalError"),
    "sqs": ("InternalError", "RequestThrottled"),
    "events": ("InternalException", "ThrottlingException"),
    "ssm": ("ThrottlingException", "InternalServerError"),
    "secretsmanager": ("InternalServiceError", "ThrottlingException"),
}

# The operations that a fault can hit; a kind that is missing here can hit all.
_OPERATIONS = {
    "conflict": {"put_item", "delete_item", "transact_write_items"},
    "unprocessed": {"batch_get_item", "batch_write_item"},
    "overtaken": {"put_object", "delete_object"},
    "partial": {"send_message_batch", "put_events"},
    "lost": WRITES,
    "repeated": WRITES - {"transact_write_items"},  # botocore adds a token to a transaction, which makes it idempotent
}
KINDS = ("not sent", "refused", "killed", "killed after", *_OPERATIONS)


class Killed(BaseException):
    """The function was stopped by a crash, by its time-out or by the loss of its machine."""


@dataclass(frozen=True)
class CallFaults:
    """The kinds of faults, and the probabilities of a fault per call, a lost response of a function, and a cold start."""

    kinds: tuple[str, ...] = ()
    call_rate: float = 0.0
    lost_answer_rate: float = 0.0
    cold_start_rate: float = 0.0
    skew_s: float = 0.0

    @staticmethod
    def draw(rng: random.Random) -> "CallFaults":
        """Draw the kinds of faults and their rates."""
        kinds = tuple(kind for kind in KINDS if rng.random() < 0.6)
        call_rate = rng.choice((0.0, 0.01, 0.03, 0.06, 0.12)) if kinds else 0.0
        return CallFaults(
            kinds, call_rate, rng.choice((0.0, 0.02, 0.1)), rng.choice((0.02, 0.3)), rng.choice((0.0, 0.2, 5.0))
        )

    def fault(self, rng: random.Random, operation: str) -> str | None:
        """Draw the kind of fault that hits a call, or None."""
        if not self.call_rate or rng.random() >= self.call_rate:
            return None
        kind = rng.choice(self.kinds)
        return kind if operation in _OPERATIONS.get(kind, {operation}) else None


def inject(
    fault: str, rng: random.Random, service: str, operation: str, params: dict[str, Any], send: Callable[..., Any]
) -> Any:
    """Run a call with a fault. `send(**params)` makes the call."""
    name = "".join(part.capitalize() for part in operation.split("_"))
    match fault:
        case "not sent":
            raise EndpointConnectionError(endpoint_url=f"https://{service}.example")
        case "refused":
            raise error(name, rng.choice(_REFUSALS[service]))
        case "killed":
            raise Killed
        case "killed after":
            send(**params)
            raise Killed
        case "lost":
            send(**params)
            raise ReadTimeoutError(endpoint_url=f"https://{service}.example")
        case "repeated":  # the response was lost, and botocore retried the call
            send(**params)
            return send(**params)
        case "overtaken":
            raise error(name, rng.choice(("PreconditionFailed", "ConditionalRequestConflict")))
        case "conflict" if operation == "transact_write_items":
            reasons = [{"Code": "None"} for _ in params["TransactItems"]]
            reasons[rng.randrange(len(reasons))] = {"Code": "TransactionConflict"}
            raise error(name, "TransactionCanceledException", CancellationReasons=reasons)
        case "conflict":
            raise error(name, "TransactionConflictException")
    return _partly(rng, operation, params, send)


def _partly(rng: random.Random, operation: str, params: dict[str, Any], send: Callable[..., Any]) -> Any:
    """Run a part of a batch call, and report the rest as unprocessed or failed."""
    match operation:
        case "batch_get_item":
            [(table, request)] = params["RequestItems"].items()
            done, rest = _split(rng, request["Keys"])
            answer = send(RequestItems={table: request | {"Keys": done}}) if done else {"Responses": {table: []}}
            return answer | {"UnprocessedKeys": {table: request | {"Keys": rest}}}
        case "batch_write_item":
            [(table, request)] = params["RequestItems"].items()
            done, rest = _split(rng, request)
            if done:
                send(RequestItems={table: done})
            return {"UnprocessedItems": {table: rest}}
        case "send_message_batch":
            done, rest = _split(rng, params["Entries"])
            answer = send(**params | {"Entries": done}) if done else {"Successful": []}
            failed = [{"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"} for entry in rest]
            return answer | {"Failed": failed}
    assert operation == "put_events", operation
    failure = {"ErrorCode": "InternalFailure", "ErrorMessage": "injected fault"}
    return {"FailedEntryCount": len(params["Entries"]), "Entries": [failure for _ in params["Entries"]]}


def _split(rng: random.Random, whole: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return a random part of a list, and the rest, which is never empty."""
    done = [entry for entry in whole if rng.random() < 0.5][: len(whole) - 1]
    return done, [entry for entry in whole if entry not in done]
