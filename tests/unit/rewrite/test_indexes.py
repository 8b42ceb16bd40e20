"""A long index is split: each file is in one index of robots.txt, and no index lists a missing file."""

import re
from collections.abc import Iterable
from datetime import datetime

import pytest

from stoppress.aws import bucket, queues, site_versions
from stoppress.aws.inventory import all_files, read_indexes
from stoppress.aws.queues import RewriteRequest
from stoppress.model import index_ranges
from stoppress.model.site import Site
from stoppress.rewrite import file_lines, publish
from stoppress.rewrite.sitemaps import hand_over, rewrite_all, rewrite_batch
from stoppress.roll.window import roll
from stoppress.show.read_site import read_site
from stoppress.show.stack_status import report_site
from stoppress_cli.inputs.served import load_known
from tests.support.article_events import HOST
from tests.support.moto_aws import PUBLISHING, MotoAws, counted, failing, once_before, put_site, queue_batch
from tests.support.partitions import DAY, HOUR, INDEX, MINUTE, NOON, put_page, stream, take_page

pytestmark = pytest.mark.moto

SECOND, THIRD = "sitemap-index-2.xml", "sitemap-index-3.xml"
HOME = f"<loc>https://{HOST}/</loc>"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split an index of more than three shards by moving three, and fold changes into the smallest file."""
    monkeypatch.setattr(index_ranges, "INDEX_FILES_MAX", 3)
    monkeypatch.setattr(file_lines, "READ_UNIT_BYTES", 1)


def shard(year: int) -> str:
    return f"sitemap-{year}.xml"


def fill(years: Iterable[int]) -> None:
    """Put a page into each shard."""
    for year in years:
        put_page(str(year), file=shard(year))


def empty(years: Iterable[int]) -> None:
    for year in years:
        take_page(str(year), file=shard(year))


def request_index(*files: str) -> None:
    queues.send_rewrites([RewriteRequest(HOST, file) for file in files or (INDEX,)])


def settle(aws: MotoAws, now: datetime) -> None:
    """Do all due work and its consequences."""
    aws.clock.move_to(now)
    roll(now)
    while True:
        records = stream(aws)["Records"]
        for record in records:
            record["dynamodb"]["ApproximateCreationDateTime"] = now.timestamp()
        messages = queue_batch(aws.taken("rewrites"), sent_at=now, queue="rewrites")["Records"]
        if not records + messages:
            return
        for batch in filter(None, (records, messages)):
            assert [result.error for result in rewrite_batch(batch, now).results if result.error] == []


def listed(file: str = INDEX) -> list[str]:
    """Return the years of the shards that an index lists, or `home` for an index of the home page."""
    stored = bucket.read(HOST, file)
    if stored is None:
        return ["no file"]
    body = stored.body.decode()
    return ["home"] if HOME in body else re.findall(r"/sitemap-(\d+)\.xml", body)


def named() -> list[str]:
    stored = bucket.read(HOST, "robots.txt")
    return re.findall(r"Sitemap: \S*/(\S*)", stored.body.decode()) if stored else []


@pytest.fixture
def site(aws: MotoAws) -> Site:
    """Return a site with five shards, whose index was split a moment ago."""
    site = aws.site(robots="")
    fill(range(2001, 2006))
    request_index()
    settle(aws, NOON)
    return site


def test_files_move_a_day_after_robots_txt_lists_their_new_index(aws: MotoAws, site: Site) -> None:
    assert (listed(), listed(SECOND)) == (["2001", "2002", "2003", "2004", "2005"], ["home"])
    assert named() == [INDEX, "sitemap-news.xml", SECOND]
    settle(aws, NOON + DAY - MINUTE)
    assert listed(SECOND) == ["home"]

    settle(aws, NOON + DAY)
    assert (listed(), listed(SECOND)) == (["2004", "2005"], ["2001", "2002", "2003"])
    assert all_files(site)[-2:] == [SECOND, INDEX]
    assert aws.items("due#") == []


def test_a_changed_file_changes_the_index_that_lists_it_and_no_other(aws: MotoAws, site: Site) -> None:
    settle(aws, NOON + DAY)
    before = aws.file(INDEX)
    empty([2002])
    fill([1999])
    settle(aws, NOON + DAY + MINUTE)
    assert listed(SECOND) == ["1999", "2001", "2003"]
    assert aws.file(INDEX).etag == before.etag

    fill([2006])
    settle(aws, NOON + DAY + 2 * MINUTE)
    assert listed() == ["2004", "2005", "2006"]
    assert listed(SECOND) == ["1999", "2001", "2003"]


def test_the_mark_of_another_indexs_file_is_read_once(aws: MotoAws, site: Site) -> None:
    del site
    settle(aws, NOON + DAY)
    before = aws.file(SECOND)
    put_page("another", file=shard(2002))
    rewrite_all([RewriteRequest(HOST, shard(2002))], NOON + DAY + MINUTE)
    with counted("dynamodb", "BatchGetItem") as reads:
        rewrite_all([RewriteRequest(HOST, INDEX, entries=frozenset([(shard(2002), shard(2002))]))], NOON + DAY + MINUTE)
    assert len(reads) == 1
    assert aws.file(SECOND).changed > before.changed


def test_the_index_of_a_changed_file_is_requested_when_the_run_fails(aws: MotoAws, site: Site) -> None:
    settle(aws, NOON + DAY)
    empty([2002])
    rewrite_all([RewriteRequest(HOST, shard(2002))], NOON + DAY)
    request = RewriteRequest(HOST, INDEX, entries=frozenset([(shard(2002), shard(2002))]))
    with failing("s3", "GetObject"):
        results = rewrite_all([request], NOON + DAY)
    assert hand_over(results) is None
    assert [result.error is None for result in results] == [False]

    stream(aws)
    settle(aws, NOON + DAY + MINUTE)
    assert listed(SECOND) == ["2001", "2003"]


def test_an_index_whose_files_are_all_gone_lists_the_home_page_and_stays(aws: MotoAws, site: Site) -> None:
    settle(aws, NOON + DAY)
    empty([2001, 2002, 2003])
    settle(aws, NOON + DAY + MINUTE)
    settle(aws, NOON + 3 * DAY)
    assert (listed(), listed(SECOND)) == (["2004", "2005"], ["home"])
    assert SECOND in named()

    fill([2001])
    settle(aws, NOON + 3 * DAY + MINUTE)
    assert listed(SECOND) == ["2001"]


def test_a_record_of_a_removed_site_deletes_each_possible_index(aws: MotoAws, site: Site) -> None:
    """A rewriter of the second index, found by sitemap.xml, may have been killed after its PUT."""
    settle(aws, NOON + DAY)
    site_versions.remove(HOST, site.version, "a test", NOON + DAY, deletes_files=True)
    rewrite_all([RewriteRequest(HOST, INDEX, checks_all=True)], NOON + DAY)
    assert (listed(), listed(SECOND)) == (["no file"], ["no file"])


def test_a_record_that_meets_a_cached_removal_updates_the_other_index(aws: MotoAws, site: Site) -> None:
    settle(aws, NOON + DAY)
    fill([2000])
    rewrite_all([RewriteRequest(HOST, shard(2000))], NOON + DAY)
    site_versions.remove(HOST, site.version, "a test", NOON + DAY, deletes_files=False)
    rewrite_all([RewriteRequest(HOST, INDEX, checks_all=True)], NOON + DAY)
    put_site(PUBLISHING | {"host": HOST, "robots": ""})
    rewrite_all([RewriteRequest(HOST, INDEX, entries=frozenset([(shard(2000), shard(2000))]))], NOON + DAY)
    assert listed(SECOND) == ["2000", "2001", "2002", "2003"]


def test_an_old_index_that_grows_is_split_like_the_first(aws: MotoAws, site: Site) -> None:
    settle(aws, NOON + DAY)
    fill([1996, 1997])
    settle(aws, NOON + DAY + MINUTE)
    request_index(SECOND)
    settle(aws, NOON + DAY + HOUR)
    assert listed(SECOND) == ["1996", "1997", "2001", "2002", "2003"]

    settle(aws, NOON + 2 * DAY + HOUR)
    assert (listed(THIRD), listed(SECOND)) == (["1996", "1997", "2001"], ["2002", "2003"])
    assert named() == [INDEX, "sitemap-news.xml", SECOND, THIRD]


def test_a_mark_that_changes_while_its_file_moves_is_in_the_new_index(aws: MotoAws, site: Site) -> None:
    """The mark changes between the PUT of the new index and the cut, so that its record leads to the old index."""

    def change() -> None:
        empty([2002])
        fill([2000])

    with once_before(publish, "indexes_item", change):
        settle(aws, NOON + DAY)
    assert (listed(), listed(SECOND)) == (["2004", "2005"], ["2000", "2001", "2003"])


def test_two_rewriters_split_an_index_once(aws: MotoAws) -> None:
    aws.site(robots="")
    fill(range(2001, 2006))
    rewrite_all([RewriteRequest(HOST, shard(year)) for year in range(2001, 2006)], NOON)
    request = RewriteRequest(HOST, INDEX)
    with once_before(publish, "indexes_item", lambda: rewrite_all([request], NOON)):
        (result,) = rewrite_all([request], NOON)

    assert result.error is None
    assert [cut.index for cut in read_indexes(HOST).cuts] == [SECOND]


def test_a_due_record_of_an_index_that_was_never_planned_is_done(aws: MotoAws) -> None:
    site = aws.site()
    publish.schedule_rewrite(site, THIRD, NOON)
    settle(aws, NOON)

    assert bucket.read(HOST, THIRD) is None
    assert aws.items("due#") == []


def test_more_files_than_an_index_may_list_are_in_other_indexes_first(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, limit in ((index_ranges, "INDEX_FILES_URGENT", 6), (file_lines, "INDEX_ENTRIES_MAX", 8),
                                (publish, "INDEX_ENTRIES_MAX", 8)):  # fmt: skip
        monkeypatch.setattr(module, name, limit)
    aws.site(robots="")
    fill(range(2001, 2021))
    request_index()
    settle(aws, NOON)

    indexes = read_indexes(HOST)
    assert all(cut.is_in_force for cut in indexes.cuts)
    assert [year for file in indexes.files for year in listed(file)] == [str(year) for year in range(2001, 2021)]
    assert max(len(listed(file)) for file in indexes.files) <= 4


def test_a_site_with_its_own_robots_has_one_index_until_that_is_urgent(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_ranges, "INDEX_FILES_URGENT", 6)
    site = aws.site()
    fill(range(2001, 2007))
    request_index()
    settle(aws, NOON)
    assert read_indexes(HOST).cuts == ()

    fill([2007])
    request_index()
    settle(aws, NOON + MINUTE)
    assert (listed(SECOND), listed(THIRD)) == (["2001", "2002", "2003"], ["2004", "2005", "2006"])
    assert listed() == ["2007"]
    lines = [f"Sitemap: https://{HOST}/{file}" for file in (INDEX, "sitemap-news.xml", THIRD, SECOND)]
    assert report_site(read_site(site, NOON, []), NOON)["robots_lines"] == lines
    assert [f"Sitemap: https://{HOST}/{file}" for file in load_known(HOST).named] == lines  # the doctor looks for these
    aws.site(robots="")
    request_index("robots.txt")
    settle(aws, NOON + HOUR)
    assert named() == [INDEX, "sitemap-news.xml", THIRD, SECOND]


def test_a_gzip_form_stays_while_an_older_index_lists_it(aws: MotoAws, site: Site) -> None:
    del site
    aws.site(robots="", outputs={"gzip": True})
    settle(aws, NOON + DAY)
    packed = f"{shard(2001)}.gz"
    assert f"/{packed}<".encode() in aws.file(SECOND).body
    assert aws.file(f"{SECOND}.gz").body

    aws.site(robots="")
    rewrite_all([RewriteRequest(HOST, shard(2001), checks_all=True)], NOON + DAY)
    assert aws.file(packed).body
    settle(aws, NOON + DAY + MINUTE)
    assert bucket.read(HOST, packed) is None
    assert f"/{shard(2001)}<".encode() in aws.file(SECOND).body
