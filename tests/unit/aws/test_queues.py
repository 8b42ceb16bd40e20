"""Messages carry their site, by which SQS keeps a busy site from delaying the others."""

import json
from typing import Any

import pytest

from stoppress.aws import queues

LONG = "a." * 100 + "example"


class Sqs:
    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's
        self.entries += Entries
        return {}


@pytest.mark.parametrize(
    ("body", "group"),
    [
        (queues.RewriteRequest("www.example.com", "sitemap.xml").message(), "www.example.com"),
        (queues.RewriteRequest("www.example.com", due="due").message(), "www.example.com"),
        (json.dumps({"detail-type": "article.published", "detail": {"site": "www.example.com"}}), "www.example.com"),
        (json.dumps({"site": LONG}), LONG[:128]),
        (json.dumps({"site": "rédaction"}), None),
        (json.dumps({"site": ""}), None),
        (json.dumps({"detail": "www.example.com"}), None),
        (json.dumps(["www.example.com"]), None),
        ("no JSON", None),
    ],
)
def test_a_message_is_in_the_group_of_its_site(monkeypatch: pytest.MonkeyPatch, body: str, group: str | None) -> None:
    sqs = Sqs()
    monkeypatch.setattr(queues, "client", lambda _service: sqs)

    queues.send("https://sqs.example.com/queue", [body])

    assert [entry.get("MessageGroupId") for entry in sqs.entries] == [group]
