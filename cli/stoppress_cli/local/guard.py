"""Compares calls with what the template grants: those of functions, and those that AWS itself makes. A call without a grant is refused.

Source: AWS's service authorization reference. Grants for AWS itself are checked before anything runs, because without them
AWS would lose events or logs silently.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError
from moto.dynamodb.parsing.key_condition_expression import parse_expression

from stoppress_cli.local import gateway
from stoppress_cli.local.meter import keys_written
from stoppress_cli.local.moto_fixes import lacks
from stoppress_cli.local.permissions import Ask, Permissions
from stoppress_cli.local.resources import Resource, failure_destination, of_type
from stoppress_cli.local.template import Json, arn_of

_PARTS = {"ConditionCheck": "ConditionCheckItem", "Delete": "DeleteItem", "Put": "PutItem", "Update": "UpdateItem"}
_LEADING_KEYS = "dynamodb:leadingkeys"

# Calls that the Lambda service makes with a function's role (Lambda developer guide, "execution role permissions").
_TAKES_MESSAGES = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
_FOLLOWS_STREAM = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator")
_WRITES_LOG = ("logs:CreateLogStream", "logs:PutLogEvents")
_INVOKES, _SENDS = ("lambda:InvokeFunction",), ("sqs:SendMessage",)


class Guard:
    """Checks the calls of functions against their roles, as AWS would; `refused` lists the refused calls."""

    def __init__(self, permissions: Permissions, resources: Iterable[Resource]) -> None:
        self._permissions = permissions
        self._schemas = {
            table.ref: table.properties["KeySchema"] for table in of_type(resources, "AWS::DynamoDB::Table")
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
        match service:
            case "dynamodb":
                return self._table_asks(operation, params)
            case "s3":
                return self._bucket_asks(operation, params)
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

    def _bucket_asks(self, operation: str, params: Json) -> list[Ask]:
        bucket = f"arn:aws:s3:::{params.get('Bucket', '')}"
        match operation:
            case "GetObject" | "HeadObject":
                action = "s3:GetObjectVersion" if "VersionId" in params else "s3:GetObject"
                asks = [Ask(action, f"{bucket}/{params['Key']}")]
                # Without s3:ListBucket, S3 answers 403 instead of 404 for an absent object.
                return asks + ([Ask("s3:ListBucket", bucket)] if lacks(params["Bucket"], params["Key"]) else [])
            case "PutObject" | "DeleteObject":
                return [Ask(f"s3:{operation}", f"{bucket}/{params['Key']}")]
            case "DeleteObjects":
                actions = {True: "s3:DeleteObjectVersion", False: "s3:DeleteObject"}
                objects = params["Delete"]["Objects"]
                return [Ask(actions["VersionId" in row], f"{bucket}/{row['Key']}") for row in objects]
            case "ListObjectsV2":
                return [Ask("s3:ListBucket", bucket)]
            case "ListObjectVersions":
                return [Ask("s3:ListBucketVersions", bucket)]
        return [Ask(f"s3:{operation}", "*")]

    def _table_asks(self, operation: str, params: Json) -> list[Ask]:
        items: dict[str, list[Json]] = {params["TableName"]: []} if "TableName" in params else {}
        match operation:
            case "Query":
                items = {params["TableName"]: self._queried_keys(params)}
            case "GetItem":
                items = {params["TableName"]: [params["Key"]]}
            case "BatchGetItem":
                items = {table: part["Keys"] for table, part in params["RequestItems"].items()}
            case "TransactWriteItems":  # needs the permission of each of its parts
                kinds = (next(iter(part)) for part in params["TransactItems"])
                parts = zip(kinds, keys_written(operation, params), strict=True)
                return [self._ask(_PARTS[kind], table, [item]) for kind, (table, item) in parts]
            case _:
                for table, item in keys_written(operation, params):
                    items.setdefault(table, []).append(item)
        asks = [self._ask(operation, table, of_table) for table, of_table in items.items()]
        return asks or [Ask(f"dynamodb:{operation}", "*")]

    def _ask(self, action: str, table: str, items: Iterable[Mapping[str, Any]]) -> Ask:
        schema = self._schemas.get(table, [])
        name = next((key["AttributeName"] for key in schema if key["KeyType"] == "HASH"), "")
        keys = {str(next(iter(item[name].values()))) for item in items if name in item}
        return Ask(f"dynamodb:{action}", arn_of("dynamodb", f"table/{table}"), {_LEADING_KEYS: tuple(sorted(keys))})

    def _queried_keys(self, params: Json) -> list[Json]:
        """Return the key of the queried partition. moto raises for an expression without one, which must not pass here."""
        names, values = params.get("ExpressionAttributeNames", {}), params["ExpressionAttributeValues"]
        schema = self._schemas[params["TableName"]]
        partition, *_ = parse_expression(params["KeyConditionExpression"], values, names, schema)
        return [dict(partition)]


def denied(service: str, operation: str, message: str) -> ClientError:
    """Return the error with which AWS refuses a call."""
    code = "AccessDenied" if service in ("s3", "sqs") else "AccessDeniedException"
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


def missing_grants(resources: Iterable[Resource], permissions: Permissions) -> list[str]:
    """Return a text for each call of AWS itself that the template does not allow: the resource that needs it, and what is missing."""
    resources = list(resources)
    roles = {item.ref: str(item.properties.get("Role")) for item in of_type(resources, "AWS::Lambda::Function")}
    return list(
        dict.fromkeys(
            f"{resource.logical}: {refusal}"
            for resource in resources
            for service, caller, actions, target in _calls_of_aws(resource, roles)
            for action in actions
            if (refusal := _refusal(permissions, f"{service}.amazonaws.com", caller, Ask(action, target)))
        )
    )


def _refusal(permissions: Permissions, service: str, caller: str, ask: Ask) -> str:
    """Return why a service may not make a call: with the role `caller`, or else on behalf of the resource `caller`."""
    if not caller.startswith("arn:aws:iam:"):
        return "" if permissions.service_may(service, caller, ask) else f"no policy of the resource lets it {ask}"
    role = permissions.role(caller)
    if role is None or not role.is_trusted_to(service):
        return f"its role is no role of the template that {service} may take on"
    return "" if permissions.may(role, ask) else f"{role.logical} does not allow {ask}"


# A service, the ARN of its role or of the resource for which it calls, the actions, and the ARN of their resource.
_Calls = tuple[str, str, tuple[str, ...], str]


def _calls_of_aws(resource: Resource, roles: Mapping[str, str]) -> list[_Calls]:
    """Return the calls that AWS makes for a resource. `roles` are those of the functions, by name."""
    properties = resource.properties
    role = roles.get(str(properties.get("FunctionName")).rsplit(":", 1)[-1], "")
    match resource.type:
        case "AWS::Lambda::Function":
            group = properties.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{resource.ref}")
            return [("lambda", roles[resource.ref], _WRITES_LOG, arn_of("logs", f"log-group:{group}:log-stream:any"))]
        case "AWS::Lambda::EventSourceMapping":
            source = str(properties["EventSourceArn"])
            if ":sqs:" in source:
                return [("lambda", role, _TAKES_MESSAGES, source)]
            return [("lambda", role, _FOLLOWS_STREAM, source), ("lambda", role, ("dynamodb:ListStreams",), "*")]
        case "AWS::Lambda::EventInvokeConfig" if destination := failure_destination(properties):
            return [("lambda", role, _SENDS, destination)]
        case "AWS::Scheduler::Schedule":
            return _calls_of_target("scheduler", str(properties["Target"].get("RoleArn")), properties["Target"])
        case "AWS::Events::Rule":
            targets = properties["Targets"]
            return [call for target in targets for call in _calls_of_target("events", resource.arn, target)]
        case "AWS::ApiGatewayV2::Api":
            stage = arn_of("execute-api", f"{resource.ref}/$default/")
            routes = gateway.routes(resource)
            return [("apigateway", f"{stage}{each.method}{each.path}", _INVOKES, each.function_arn) for each in routes]
    return []


def _calls_of_target(service: str, caller: str, target: Mapping[str, Any]) -> list[_Calls]:
    arns = [target["Arn"], target.get("DeadLetterConfig", {}).get("Arn")]
    return [(service, caller, _INVOKES if ":function:" in arn else _SENDS, arn) for arn in arns if arn]
