"""What goes wrong: which faults a seed knows, how often they come, and what each does to one call of AWS."""

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

# Some faults are of some calls only; the others may meet any.
_OF = {
    "conflict": {"put_item", "delete_item", "transact_write_items"},
    "unprocessed": {"batch_get_item", "batch_write_item"},
    "overtaken": {"put_object", "delete_object"},
    "partial": {"send_message_batch", "put_events"},
    "lost": WRITES,
    "repeated": WRITES - {"transact_write_items"},  # botocore gives a transaction a token: its repetition does nothing
}
KINDS = ("never left", "refused", "killed", "killed after", *_OF)


class Killed(BaseException):
    """The function was stopped where it stood: by a crash, by its time-out, by a machine that went away."""


@dataclass(frozen=True)
class CallFaults:
    """Which faults come, and the chance of one for each call; of a lost answer of a function; of a cold start."""

    kinds: tuple[str, ...] = ()
    of_calls: float = 0.0
    of_answers: float = 0.0
    of_cold_starts: float = 0.0
    skew_s: float = 0.0

    @staticmethod
    def of(chance: random.Random) -> "CallFaults":
        """The weather that a seed has."""
        kinds = tuple(kind for kind in KINDS if chance.random() < 0.6)
        rough = chance.choice((0.0, 0.01, 0.03, 0.06, 0.12)) if kinds else 0.0
        return CallFaults(
            kinds, rough, chance.choice((0.0, 0.02, 0.1)), chance.choice((0.02, 0.3)), chance.choice((0.0, 0.2, 5.0))
        )

    def fault(self, chance: random.Random, operation: str) -> str | None:
        """What happens to a call, if anything does."""
        if not self.of_calls or chance.random() >= self.of_calls:
            return None
        kind = chance.choice(self.kinds)
        return kind if operation in _OF.get(kind, {operation}) else None


def suffer(
    fault: str, chance: random.Random, service: str, operation: str, params: dict[str, Any], send: Callable[..., Any]
) -> Any:
    """Make a call under a fault. `send(**params)` is the call itself."""
    spelt = "".join(part.capitalize() for part in operation.split("_"))
    match fault:
        case "never left":
            raise EndpointConnectionError(endpoint_url=f"https://{service}.example")
        case "refused":
            raise error(spelt, chance.choice(_REFUSALS[service]))
        case "killed":
            raise Killed
        case "killed after":
            send(**params)
            raise Killed
        case "lost":
            send(**params)
            raise ReadTimeoutError(endpoint_url=f"https://{service}.example")
        case "repeated":  # the answer was lost, and botocore sent the call again by itself
            send(**params)
            return send(**params)
        case "overtaken":
            raise error(spelt, chance.choice(("PreconditionFailed", "ConditionalRequestConflict")))
        case "conflict" if operation == "transact_write_items":
            reasons = [{"Code": "None"} for _ in params["TransactItems"]]
            reasons[chance.randrange(len(reasons))] = {"Code": "TransactionConflict"}
            raise error(spelt, "TransactionCanceledException", CancellationReasons=reasons)
        case "conflict":
            raise error(spelt, "TransactionConflictException")
    return _partly(chance, operation, params, send)


def _partly(chance: random.Random, operation: str, params: dict[str, Any], send: Callable[..., Any]) -> Any:
    """A call that does some of what it was asked, and says what it left."""
    match operation:
        case "batch_get_item":
            [(table, asked)] = params["RequestItems"].items()
            done, left = _split(chance, asked["Keys"])
            answer = send(RequestItems={table: asked | {"Keys": done}}) if done else {"Responses": {table: []}}
            return answer | {"UnprocessedKeys": {table: asked | {"Keys": left}}}
        case "batch_write_item":
            [(table, asked)] = params["RequestItems"].items()
            done, left = _split(chance, asked)
            if done:
                send(RequestItems={table: done})
            return {"UnprocessedItems": {table: left}}
        case "send_message_batch":
            done, left = _split(chance, params["Entries"])
            answer = send(**params | {"Entries": done}) if done else {"Successful": []}
            failed = [{"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"} for entry in left]
            return answer | {"Failed": failed}
    assert operation == "put_events", operation
    failure = {"ErrorCode": "InternalFailure", "ErrorMessage": "as the seed has it"}
    return {"FailedEntryCount": len(params["Entries"]), "Entries": [failure for _ in params["Entries"]]}


def _split(chance: random.Random, whole: list[Any]) -> tuple[list[Any], list[Any]]:
    """Some of a list, and the rest, which is never empty."""
    done = [one for one in whole if chance.random() < 0.5][: len(whole) - 1]
    return done, [one for one in whole if one not in done]
