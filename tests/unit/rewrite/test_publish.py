"""File, mark and announcement agree in the end, despite concurrent writers, crashes and wrong clocks."""

from datetime import datetime, timedelta

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import bucket, queues
from stoppress.aws.bucket import Overtaken
from stoppress.aws.clients import client
from stoppress.aws.items import file_pk
from stoppress.aws.queues import RewriteRequest, read_request
from stoppress.model.file_names import content_type
from stoppress.primitives.instants import exact
from stoppress.rewrite.sitemaps import rewrite, rewrite_all
from tests.support import moto_aws
from tests.support.article_events import HOST
from tests.support.moto_aws import MotoAws, failing, once_before
from tests.support.partitions import DAY, HOUR, INDEX, MINUTE, NOON, SHARD, mark, put_page, shard, take_page

pytestmark = [pytest.mark.moto, pytest.mark.usefixtures("aws")]


# ── other rewriters ──


def test_a_file_that_is_deleted_meanwhile_is_written_again(aws: MotoAws) -> None:
    put_page("a")
    shard()
    put_page("b")
    with once_before(bucket, "write", lambda: bucket.delete(HOST, SHARD, aws.file(SHARD))):
        assert shard(NOON + MINUTE) == "written"
    assert b"/b<" in aws.file(SHARD).body


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "PreconditionFailed", "NoSuchKey"])
def test_a_conflict_reported_by_s3_is_retried(aws: MotoAws, code: str) -> None:
    put_page()
    with failing("s3", "PutObject", code=code):
        assert shard() == "written"


def test_other_errors_of_s3_are_raised(aws: MotoAws) -> None:
    put_page()
    with failing("s3", "PutObject", code="AccessDenied"), pytest.raises(ClientError):
        shard()
    with failing("s3", "GetObject", code="AccessDenied"), pytest.raises(ClientError):
        shard()
    assert aws.announced == []


def test_a_rewriter_that_always_conflicts_stops_retrying(monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    with failing("s3", "PutObject", code="PreconditionFailed", times=8), pytest.raises(Overtaken, match="8 attempts"):
        shard()


def test_an_object_put_by_hand_is_written_again_with_its_headers(aws: MotoAws) -> None:
    put_page()
    shard()
    body = aws.file(SHARD).body
    client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{SHARD}", Body=body)
    assert not aws.file(SHARD).ours
    assert shard(NOON + HOUR) == "written"
    assert aws.file(SHARD).ours
    assert client("s3").head_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{SHARD}")["ContentType"] == content_type(SHARD)
    assert shard(NOON + 2 * HOUR) == "unchanged"


# ── crashes ──


def test_a_mark_that_conflicts_with_a_transaction_is_written_again(aws: MotoAws) -> None:
    """A shard without a mark would be in no index until it changes again."""
    put_page("a")
    with failing("dynamodb", "PutItem", code="TransactionConflictException"):
        rewrite(RewriteRequest(HOST, SHARD), NOON)

    assert aws.item(file_pk(HOST, INDEX), SHARD)


def test_a_failing_bus_delays_the_mark(aws: MotoAws, monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    answer = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}]}
    with monkeypatch.context() as patch:
        patch.setattr(client("events"), "put_events", lambda **_: answer)
        with pytest.raises(queues.SendError, match=r"the bus did not take 'sitemap rewritten'.*slow down"):
            shard()
    assert mark() is None
    assert shard() == "unchanged"
    assert mark()


# ── marks and clocks ──


@pytest.mark.parametrize("back", [timedelta(), HOUR])
def test_a_files_change_time_always_increases(aws: MotoAws, back: timedelta) -> None:
    put_page("a")
    shard(NOON)
    put_page("b")
    shard(NOON - back)

    assert aws.file(SHARD).changed == NOON + timedelta(microseconds=1)
    marked = mark()
    assert marked
    assert marked.urls == 2


def test_a_files_change_time_is_not_before_its_newest_lastmod(aws: MotoAws) -> None:
    put_page("a", NOON + 3 * MINUTE)
    shard(NOON)
    assert aws.file(SHARD).changed == NOON + 3 * MINUTE


# ── emptied shards ──


def run(request: RewriteRequest, now: datetime) -> str:
    (result,) = rewrite_all([request], now)
    return result.outcome


def emptied(aws: MotoAws) -> RewriteRequest:
    put_page("a")
    shard(NOON)
    take_page("a")
    assert shard(NOON + MINUTE) == "written"
    day_after = exact(NOON + MINUTE + DAY)
    assert [item["sk"] for item in aws.items("due-messages")] == [f"{day_after}#{HOST}#{day_after}"]
    (due,) = aws.items("due#")
    assert (due["queue"], due["sk"]) == ("rewrites", f"{exact(NOON + MINUTE + DAY)}#file#{SHARD}")
    return read_request(due["message"])


def test_an_emptied_shard_is_deleted_despite_a_slow_clock(aws: MotoAws) -> None:
    retiring = emptied(aws)
    assert run(retiring, NOON + DAY) == "retired"


def test_a_shard_that_is_filled_while_it_is_deleted_is_written_again(aws: MotoAws) -> None:
    retiring = emptied(aws)
    later = NOON + MINUTE + DAY

    def filled() -> None:
        put_page("b")
        shard(later)

    with once_before(bucket, "delete", filled):
        assert run(retiring, later) == "unchanged"
    assert b"/b<" in aws.file(SHARD).body
    marked = mark()
    assert marked
    assert marked.urls == 1


def test_a_new_file_without_entries_is_not_written(aws: MotoAws) -> None:
    assert shard() == "retired"
    assert bucket.read(HOST, SHARD) is None
    assert (aws.items("file#"), aws.announced) == ([], [])


def test_a_due_message_beside_another_of_its_file_is_done_within_the_next_minute(aws: MotoAws) -> None:
    retiring = emptied(aws)
    later = NOON + MINUTE + DAY
    (result,) = rewrite_all([RewriteRequest(HOST, SHARD), retiring], later)
    assert result.outcome == "retired"
    rewrite_all([retiring], later + MINUTE)  # the due message is sent again
    assert aws.items("due#") == []
