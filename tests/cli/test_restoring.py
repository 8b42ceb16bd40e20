"""Restoring: a table that point-in-time recovery has made becomes the stack's, and the files follow it, forward or back."""

import json
from pathlib import Path

import pytest

from stoppress.aws import bucket, queues, sites, table
from stoppress.reconcile.sites import reconcile
from stoppress_cli.local.stack import Stack
from stoppress_cli.stack import rebuild, restore
from tests.support.event_files import objects
from tests.support.operated import HOST, event, everything, later, operated

pytestmark = pytest.mark.moto

NEWS, SHARD = "sitemap-news.xml", "sitemap-2026-11.xml"


def copied(stack: Stack, name: str) -> None:
    """The stack's table as it is now, under another name: what point-in-time recovery makes."""
    client, own = stack.client("dynamodb"), stack.variable("TABLE_NAME")
    keys = [{"AttributeName": key, "KeyType": kind} for key, kind in (("pk", "HASH"), ("sk", "RANGE"))]
    types = [{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")]
    client.create_table(TableName=name, KeySchema=keys, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST")
    for item in client.scan(TableName=own)["Items"]:
        client.put_item(TableName=name, Item=item)


def test_a_table_restored_to_an_earlier_instant_brings_the_files_of_that_instant_back(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood"), event(2, "2", "ferry")], tmp_path) as stack:
        copied(stack, "restored")
        then = objects(stack)
        later(stack, 10)
        for sk in ("cms#1", "cms#2"):
            body = {"source": "cms", "detail-type": "article.deleted", "detail": {"site": HOST, "id": sk[-1]}}
            stack.client("sqs").send_message(
                QueueUrl=stack.variable("ARTICLES_QUEUE_URL"), MessageBody=json.dumps(body)
            )
        stack.rest()
        newer = bucket.read(HOST, SHARD)
        assert newer
        assert objects(stack)[f"{HOST}/{SHARD}"] != then[f"{HOST}/{SHARD}"]

        before = everything(stack)
        counted = restore.differences("restored")
        assert counted.extra > 0
        assert everything(stack) == before
        assert restore.restore("restored") == counted
        assert restore.differences("restored") == restore.Counted(counted.there, 0)
        queues.send_rewrites(rebuild.requests(None, None))
        stack.rest()
        assert {name: objects(stack)[f"{HOST}/{name}"] for name in (NEWS, SHARD)} == {
            name: then[f"{HOST}/{name}"] for name in (NEWS, SHARD)
        }
        older = bucket.read(HOST, SHARD)
        assert older
        assert older.changed > newer.changed  # a reader sees that it has changed
        assert reconcile(sites.load(HOST), stack.clock.now(), dry_run=True).suspected == ()


def test_a_restored_table_and_an_empty_bucket_give_the_same_files(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood"), event(2, "2", "ferry")], tmp_path) as stack:
        copied(stack, "restored")
        before = objects(stack)
        for key in before:
            stack.client("s3").delete_object(Bucket=stack.only("AWS::S3::Bucket").ref, Key=key)
        for item in stack.client("dynamodb").scan(TableName=stack.variable("TABLE_NAME"))["Items"]:
            table.delete(item["pk"]["S"], item["sk"]["S"])
        restore.restore("restored")
        queues.send_rewrites(rebuild.requests(None, None))
        stack.rest()
        assert objects(stack) == before
