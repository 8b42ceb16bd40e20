"""Committing: whoever else writes, whatever crashes and whatever the clocks show, file, mark and announcement agree at last."""

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

pytestmark = [pytest.mark.moto, pytest.mark.usefixtures("behind")]


# ── other rewriters ──


def test_a_file_taken_away_meanwhile_is_made_anew(behind: MotoAws) -> None:
    put_page("a")
    shard()
    put_page("b")
    with once_before(bucket, "write", lambda: bucket.delete(HOST, SHARD, behind.file(SHARD))):
        assert shard(NOON + MINUTE) == "written"
    assert b"/b<" in behind.file(SHARD).body


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "PreconditionFailed", "NoSuchKey"])
def test_what_s3_says_of_another_writer_is_taken_as_that(behind: MotoAws, code: str) -> None:
    put_page()
    with failing("s3", "PutObject", code=code):
        assert shard() == "written"


def test_other_errors_of_s3_are_themselves(behind: MotoAws) -> None:
    put_page()
    with failing("s3", "PutObject", code="AccessDenied"), pytest.raises(ClientError):
        shard()
    with failing("s3", "GetObject", code="AccessDenied"), pytest.raises(ClientError):
        shard()
    assert behind.announced == []


def test_a_rewriter_that_is_always_overtaken_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    put_page()
    with failing("s3", "PutObject", code="PreconditionFailed", times=8), pytest.raises(Overtaken, match="8 attempts"):
        shard()


def test_an_object_that_somebody_else_has_put_is_written_anew_with_its_headers(behind: MotoAws) -> None:
    put_page()
    shard()
    body = behind.file(SHARD).body
    client("s3").put_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{SHARD}", Body=body)
    assert not behind.file(SHARD).ours
    assert shard(NOON + HOUR) == "written"
    assert behind.file(SHARD).ours
    assert client("s3").head_object(Bucket=moto_aws.BUCKET, Key=f"{HOST}/{SHARD}")["ContentType"] == content_type(SHARD)
    assert shard(NOON + 2 * HOUR) == "unchanged"


# ── crashes ──


def test_a_mark_at_which_a_transaction_is_busy_is_not_taken_for_written(behind: MotoAws) -> None:
    """A shard without a mark would be in no index until it changes again."""
    put_page("a")
    with failing("dynamodb", "PutItem", code="TransactionConflictException"):
        rewrite(RewriteRequest(HOST, SHARD), NOON)

    assert behind.item(file_pk(HOST, INDEX), SHARD)


def test_the_bus_that_takes_nothing_keeps_the_mark_back(behind: MotoAws, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_the_change_of_a_file_is_always_later_than_the_one_before(behind: MotoAws, back: timedelta) -> None:
    put_page("a")
    shard(NOON)
    put_page("b")
    shard(NOON - back)

    assert behind.file(SHARD).changed == NOON + timedelta(microseconds=1)
    marked = mark()
    assert marked
    assert marked.urls == 2


def test_the_change_of_a_file_is_not_before_what_stands_in_it(behind: MotoAws) -> None:
    put_page("a", NOON + 3 * MINUTE)
    shard(NOON)
    assert behind.file(SHARD).changed == NOON + 3 * MINUTE


# ── emptied shards ──


def done(request: RewriteRequest, now: datetime) -> str:
    (result,) = rewrite_all([request], now)
    return result.outcome


def emptied(behind: MotoAws) -> RewriteRequest:
    put_page("a")
    shard(NOON)
    take_page("a")
    assert shard(NOON + MINUTE) == "written"
    day_after = exact(NOON + MINUTE + DAY)
    assert [item["sk"] for item in behind.items("due-messages")] == [f"{day_after}#{HOST}#{day_after}"]
    (due,) = behind.items("due#")
    assert (due["queue"], due["sk"]) == ("rewrites", f"{exact(NOON + MINUTE + DAY)}#file#{SHARD}")
    return read_request(due["message"])


def test_a_clock_that_is_behind_keeps_no_emptied_shard(behind: MotoAws) -> None:
    retiring = emptied(behind)
    assert done(retiring, NOON + DAY) == "retired"


def test_a_shard_filled_while_it_is_taken_away_is_made_anew(behind: MotoAws) -> None:
    retiring = emptied(behind)
    later = NOON + MINUTE + DAY

    def filled() -> None:
        put_page("b")
        shard(later)

    with once_before(bucket, "delete", filled):
        assert done(retiring, later) == "unchanged"
    assert b"/b<" in behind.file(SHARD).body
    marked = mark()
    assert marked
    assert marked.urls == 1


def test_a_file_that_never_was_and_lists_nothing_is_not_made(behind: MotoAws) -> None:
    assert shard() == "retired"
    assert bucket.read(HOST, SHARD) is None
    assert (behind.items("file#"), behind.announced) == ([], [])


def test_a_due_message_beside_another_of_its_file_is_done_within_the_next_minute(behind: MotoAws) -> None:
    retiring = emptied(behind)
    later = NOON + MINUTE + DAY
    (result,) = rewrite_all([RewriteRequest(HOST, SHARD), retiring], later)
    assert result.outcome == "retired"
    rewrite_all([retiring], later + MINUTE)  # what is still due is sent again
    assert behind.items("due#") == []
