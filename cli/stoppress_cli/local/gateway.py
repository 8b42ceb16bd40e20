"""The HTTP API: turns requests into events of payload format 2.0, and functions' results into HTTP answers."""

import base64
import json
import re
import urllib.parse
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from stoppress.model.http_request import Request
from stoppress_cli.local.lambda_functions import Result
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import ACCOUNT, Json, TemplateError

PAYLOAD_BYTES_MAX = 10 * 1024 * 1024  # quota of API Gateway's HTTP APIs

_TEXT = re.compile(r"(text/|application/(json|javascript|xml)|[^;]*\+(json|xml))", re.IGNORECASE)
_INTEGRATION = re.compile(r"functions/(arn:[^/]+)/invocations$")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Route:
    """A method (or ANY) and path of the API, and the ARN of the function behind it."""

    method: str
    path: str
    function_arn: str

    @property
    def key(self) -> str:
        return f"{self.method} {self.path}"

    def match(self, request: Request) -> dict[str, str] | None:
        """Return the decoded path parameters; None if the route does not match."""
        if self.method not in ("ANY", request.method):
            return None
        match = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path), request.path)
        return match and {name: urllib.parse.unquote(value) for name, value in match.groupdict().items()}


def routes(api: Resource) -> list[Route]:
    """Return the routes of an API whose definition the SAM transform wrote."""
    parsed = []
    for path, methods in api.properties.get("Body", {}).get("paths", {}).items():
        for method, operation in methods.items():
            integration = operation.get("x-amazon-apigateway-integration", {})
            arn = _INTEGRATION.search(str(integration.get("uri", "")))
            if arn is None or integration.get("payloadFormatVersion") != "2.0" or "+}" in path:
                raise TemplateError(
                    f"{api.logical}: {method} {path} must be a function with payload format 2.0, without greedy parameters"
                )
            name = "ANY" if method == "x-amazon-apigateway-any-method" else method.upper()
            parsed.append(Route(name, path, arn[1]))
    return parsed


def event(request: Request, route: Route, parameters: Mapping[str, str], now: datetime) -> Json:
    """Return the event of an HTTP API for a request."""
    headers = {"host": "localhost", "content-length": str(len(request.body)), **request.headers}
    document: Json = {
        "version": "2.0",
        "routeKey": route.key,
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "local",
            "domainName": headers["host"],
            "domainPrefix": headers["host"].split(".")[0],
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": str(uuid.uuid4()),
            "routeKey": route.key,
            "stage": "$default",
            "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now.timestamp() * 1000),
        },
        "pathParameters": dict(parameters),
        "isBase64Encoded": False,
    }
    if request.query:
        parameters_of_query = urllib.parse.parse_qs(request.query, keep_blank_values=True)
        document["queryStringParameters"] = {name: ",".join(values) for name, values in parameters_of_query.items()}
    if request.body:
        document["body"], document["isBase64Encoded"] = _body(request)
    return document


def _body(request: Request) -> tuple[str, bool]:
    if _TEXT.match(request.headers.get("content-type", "")):
        try:
            return request.body.decode(), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(request.body).decode(), True


def answer(result: Result) -> Answer:
    """Return the HTTP answer for a function's result; 500 for an error, or for a result without statusCode."""
    payload = result.payload
    if result.error is not None or "statusCode" not in (payload or {}):
        return plain(500, "Internal Server Error")
    body = str(payload.get("body") or "")
    headers = {str(name).lower(): str(value) for name, value in (payload.get("headers") or {}).items()}
    headers.setdefault("content-type", "text/plain;charset=UTF-8")
    raw = base64.b64decode(body) if payload.get("isBase64Encoded") else body.encode()
    return Answer(int(payload["statusCode"]), headers, raw)


def plain(status: int, message: str) -> Answer:
    """Return an answer of the gateway itself."""
    return Answer(status, {"content-type": "application/json"}, json.dumps({"message": message}).encode())
