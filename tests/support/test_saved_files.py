"""The check of two saves reports what must not change between them."""

from pathlib import Path

import pytest

from tests.cli.check.test_planted import save
from tests.support.check_good_site import FLOOD, HARBOUR, INDEX, NEWS, NOW, SHARD, good, url, urlset
from tests.support.check_planted import Fault, both, put, swap
from tests.support.saved_files import changes

EARLIER, LATER = "2026-11-20T08:00:0", "2026-11-20T08:30:00Z"
OTHER = "sitemap-2026-12.xml"


def redate(file: str) -> Fault:
    return swap(INDEX, f"{file}</loc><lastmod>{EARLIER}1Z", f"{file}</loc><lastmod>{LATER}")


@pytest.mark.parametrize(
    ("rules", "change"),
    [
        ([], both()),
        ([], both(swap(SHARD, f"{EARLIER}0Z", LATER), redate(SHARD))),
        (["R6.4"], redate(SHARD)),
        (["R6.4"], swap(SHARD, f"{EARLIER}0Z", LATER)),
        (["R6.6"], both(put(OTHER, urlset(url(HARBOUR))), put(SHARD, urlset(url(FLOOD))), redate(SHARD))),
        (["R2.11"], both(swap(NEWS, "T07:58:00Z", "T07:59:00Z"), redate(NEWS))),
        (["R7.2"], both(put(SHARD, urlset(url(HARBOUR, lastmod=NOW), url(FLOOD, lastmod=NOW))), redate(SHARD))),
    ],
    ids=["nothing", "an edit", "lastmod alone", "bytes alone", "a move", "another date", "a build's lastmod"],
)
def test_a_forbidden_change_between_two_saves_is_reported(rules: list[str], change: Fault, tmp_path: Path) -> None:
    site = good()
    before = save(site, tmp_path / "before") / "www.example.com"
    change(site)
    after = save(site, tmp_path / "after") / "www.example.com"

    assert [fault.partition(" ")[0] for fault in changes(before, after)] == rules
    assert list(changes(before, after, moved=[HARBOUR, FLOOD])) == [
        fault for fault in changes(before, after) if "R6.4" in fault or "R7.2" in fault
    ]
