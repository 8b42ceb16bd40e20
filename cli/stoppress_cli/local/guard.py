"""Refuses the calls that a function's role does not allow. Source: AWS's service authorization reference."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from stoppress_cli.local.meter import keys_written
from stoppress_cli.local.permissions import Ask, Permissions
from stoppress_cli.local.resources import Resource, of_type
from stoppress_cli.local.template import Json, TemplateError, arn_of

_PARTS = {"ConditionCheck": "ConditionCheckItem", "Delete": "DeleteItem", "Put": "PutItem", "Update": "UpdateItem"}
_LEADING_KEYS = "dynamodb:leadingkeys"

Absent = Callable[[str, str], bool]  # (bucket, key): whether there is no such object


class Guard:
    """Checks the calls of functions against their roles, as AWS would; `refused` lists the refused calls."""

    def __init__(self, permissions: Permissions, resources: Iterable[Resource], absent: Absent) -> None:
        self._permissions, self._absent = permissions, absent
        self._partition_keys = {
            table.ref: next(key["AttributeName"] for key in table.properties["KeySchema"] if key["KeyType"] == "HASH")
            for table in of_type(resources, "AWS::DynamoDB::Table")
        }
        self.refused: list[str] = []

    def check(self, function: str, service: str, operation: str, params: Json) -> None:
        """Raise ClientError where the function's role does not allow the call."""
        role = self._permissions.role_of(function)
        assert role is not None, f"{function} has no role, and its stack has started"
        for ask in self.asks(service, operation, params):
            if self._permissions.may(role, ask):
                continue
            self.refused.append(f"{role.logical} does not allow {ask}")
            raise denied(service, operation, f"User: {role.arn} is not authorized to perform: {ask}")

    def asks(self, service: str, operation: str, params: Json) -> list[Ask]:
        """Return the permissions that a call needs."""
        match service:
            case "dynamodb":
                return self._of_table(operation, params)
            case "s3":
                return self._of_bucket(operation, params)
            case "sqs":
                queue = arn_of("sqs", str(params["QueueUrl"]).rsplit("/", 1)[1])
                return [Ask(f"sqs:{operation.removesuffix('Batch')}", queue)]
            case "secretsmanager" if name := params.get("SecretId") or params.get("Name"):
                # AWS appends a hyphen and six random characters to the name.
                return [Ask(f"secretsmanager:{operation}", arn_of("secretsmanager", f"secret:{name}-AbCdEf"))]
            case "events" if operation == "PutEvents":
                buses = {str(entry.get("EventBusName", "default")).rsplit("/", 1)[-1] for entry in params["Entries"]}
                return [Ask("events:PutEvents", arn_of("events", f"event-bus/{bus}")) for bus in sorted(buses)]
            case "sts" if operation == "GetCallerIdentity":
                return []  # it needs no permission (STS API reference)
        return [Ask(f"{service}:{operation}", "*")]  # unknown here: the role must allow the call on every resource

    def _of_bucket(self, operation: str, params: Json) -> list[Ask]:
        bucket = f"arn:aws:s3:::{params.get('Bucket', '')}"
        match operation:
            case "GetObject" | "HeadObject":
                asks = [Ask("s3:GetObject", f"{bucket}/{params['Key']}")]
                # Without s3:ListBucket, S3 answers 403 instead of 404 for an absent object.
                return asks + ([Ask("s3:ListBucket", bucket)] if self._absent(params["Bucket"], params["Key"]) else [])
            case "PutObject" | "DeleteObject":
                return [Ask(f"s3:{operation}", f"{bucket}/{params['Key']}")]
            case "DeleteObjects":
                actions = {True: "s3:DeleteObjectVersion", False: "s3:DeleteObject"}
                objects = params["Delete"]["Objects"]
                return [Ask(actions["VersionId" in each], f"{bucket}/{each['Key']}") for each in objects]
            case "ListObjectsV2":
                return [Ask("s3:ListBucket", bucket)]
            case "ListObjectVersions":
                return [Ask("s3:ListBucketVersions", bucket)]
        return [Ask(f"s3:{operation}", "*")]

    def _of_table(self, operation: str, params: Json) -> list[Ask]:
        items: dict[str, list[Json]] = defaultdict(list)
        match operation:
            case "Query":
                items[params["TableName"]] = self._queried(params)
            case "Scan":
                items[params["TableName"]] = []
            case "GetItem":
                items[params["TableName"]] = [params["Key"]]
            case "BatchGetItem":
                items |= {table: part["Keys"] for table, part in params["RequestItems"].items()}
            case "TransactWriteItems":  # needs the permission of each of its parts
                kinds = (next(iter(part)) for part in params["TransactItems"])
                parts = zip(kinds, keys_written(operation, params), strict=True)
                return [self._ask(_PARTS[kind], table, [item]) for kind, (table, item) in parts]
            case _:
                for table, item in keys_written(operation, params):
                    items[table].append(item)
        asks = [self._ask(operation, table, of_table) for table, of_table in items.items()]
        return asks or [Ask(f"dynamodb:{operation}", "*")]

    def _ask(self, action: str, table: str, items: Iterable[Mapping[str, Any]]) -> Ask:
        name = self._partition_keys.get(table, "")
        keys = {str(next(iter(item[name].values()))) for item in items if name in item}
        return Ask(f"dynamodb:{action}", arn_of("dynamodb", f"table/{table}"), {_LEADING_KEYS: tuple(sorted(keys))})

    def _queried(self, params: Json) -> list[Json]:
        name = self._partition_keys.get(params["TableName"], "")
        spelt = {name, *(alias for alias, meant in params.get("ExpressionAttributeNames", {}).items() if meant == name)}
        sides = [pair.split("=") for pair in re.findall(r"[#:\w]+\s*=\s*[#:\w]+", params["KeyConditionExpression"])]
        pairs = [(left.strip(), right.strip()) for left, right in sides]
        values = [value for left, right in pairs for key, value in ((left, right), (right, left)) if key in spelt]
        if not values:  # to IAM, ForAllValues without any key is true: an unknown expression must not pass
            raise TemplateError(
                f"the local stack finds no partition in {params['KeyConditionExpression']!r}; add it to local/guard.py"
            )
        return [{name: params["ExpressionAttributeValues"][value]} for value in values]


def denied(service: str, operation: str, message: str) -> ClientError:
    """Return the error with which AWS refuses a call."""
    code, status = ("AccessDenied", 403) if service in ("s3", "sqs") else ("AccessDeniedException", 400)
    detail: Any = {"Code": code, "Message": message}
    return ClientError({"Error": detail, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)  # type: ignore[typeddict-item]
