"""Clients send requests to botocore's endpoints, without reading its data of all services."""

from typing import Any

import botocore.session
import pytest
from botocore.config import Config

from stoppress.aws import clients

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "dynamodb": ("get_item", {"TableName": "t", "Key": {"pk": {"S": "k"}}}),
    "s3": ("get_object", {"Bucket": "sitemaps", "Key": "sitemap.xml"}),
    "sqs": ("send_message", {"QueueUrl": "https://sqs.eu-west-1.amazonaws.com/1/articles", "MessageBody": "{}"}),
    "events": ("put_events", {"Entries": [{"Source": "stoppress"}]}),
    "cloudfront": ("list_distributions", {}),
}
ENDPOINTS = [
    ("eu-west-1", Config()),
    ("us-east-1", Config()),
    ("cn-north-1", Config()),
    ("us-gov-west-1", Config(use_fips_endpoint=True)),
    ("eu-west-1", Config(use_dualstack_endpoint=True)),
]
SESSIONS = botocore.session.Session(), clients.session.__wrapped__()


class Sent(Exception):
    """Raised with the address of a request instead of sending it."""


def _address(session: botocore.session.Session, service: str, region: str, config: Config) -> Any:
    def stop(request: Any, **_: Any) -> None:
        scope = request.headers["Authorization"].decode().split("Credential=")[1].split(",")[0]
        raise Sent(request.url, scope)

    session.set_credentials("id", "key")
    client = session.create_client(service, region, config=config)
    client.meta.events.register_first("before-send", stop)
    operation, arguments = CALLS[service]
    with pytest.raises(Sent) as sent:
        getattr(client, operation)(**arguments)
    return sent.value.args


@pytest.mark.parametrize("service", CALLS)
def test_a_request_has_the_address_and_the_scope_that_botocore_gives_it(service: str) -> None:
    plain, ours = SESSIONS
    for region, config in ENDPOINTS:
        assert _address(ours, service, region, config) == _address(plain, service, region, config)
