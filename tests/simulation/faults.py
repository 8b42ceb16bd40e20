"""Faults planted in the product, each a few words changed, with a seed that catches it.

Each is caught within SEEDS_MAX seeds. Its own was the first of them, and is tried first: any other call of AWS in the product
moves the weather to other calls, and then another seed catches it, after a search that `python -m tests.simulation.faults`
saves when it has found the first ones anew. Where the text to be replaced is gone, plant the fault again.
"""

import inspect
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SEEDS_MAX = 1_000


@dataclass(frozen=True)
class Fault:
    """Words of a function (`module:name` below stoppress, or a handler's file) in whose place others stand."""

    where: str
    old: str
    new: str
    seed: int


FAULTS: dict[str, Fault] = {
    # ── recording ──
    "an item is made whatever is there": Fault(
        "table:_as_read", '"attribute_not_exists(pk)"', '"attribute_not_exists(pk) OR attribute_exists(pk)"', 53
    ),
    "the article is written apart from its entries": Fault(
        "recording:_write",
        "        table.transact([*puts, *deletes])",
        "        for one in [*puts, *deletes]:\n            table.transact([one])",
        1,
    ),
    "an error while writing is swallowed": Fault(
        "recording:_record_wave",
        'outcomes[work.message.id] = Outcome("failed", repr(error), work.event, error)\n        else',
        'outcomes[work.message.id] = Outcome("failed", repr(error), work.event)\n        else',
        34,
    ),
    "a conflict is taken for success": Fault(
        "table:transact", "            raise Conflict(str(error)) from error", "            return", 35
    ),
    "keys that DynamoDB left unread are forgotten": Fault(
        "table:get_many", "            rest += answer", "            rest or answer", 313
    ),
    "places are handed out and not counted": Fault(
        "reserving:reserve", "if _keep_series(host, series):", "if True:", 1
    ),
    "messages that failed are not reported": Fault(
        "functions/record_article/app.py", "for record in again]}", "for record in ()]}", 14
    ),
    # ── deciding ──
    "what is late is taken for new": Fault("deciding:_decide", "if order.is_before(article.order):", "if False:", 2),
    "a removal of what was never heard of leaves no tombstone": Fault(
        "deciding:_decide",
        '    if event.action == "remove":',
        '    if event.action == "remove" and not article:\n        return Decision(outcome="late")\n    if event.action == "remove":',
        5,
    ),
    "a late removal takes out another's page": Fault(
        "deciding:_removed",
        "claim is not None and claim.live and claim.owner == current.name",
        "claim is not None",
        44,
    ),
    "a removal leaves the news entry": Fault(
        "deciding:_entries", "if article.news and article.is_in_news(now):", "if article.news and keeps:", 1
    ),
    "a URL that was left stays claimed": Fault(
        "deciding:_Publication._leave",
        "claims.append(replace(claim, owner=self.current.name, live=False, at=self.at))",
        "pass",
        145,
    ),
    "the older of two articles keeps the URL": Fault(
        "deciding:_Publication._stronger_claim",
        "if claim.live and (claim.at, claim.owner) > (self.at, self.current.name):",
        "if claim.live:",
        7,
    ),
    "a late event does not date the article": Fault(
        "deciding:_first_dated", "not _counts(event, article, site, now)", "True", 66
    ),
    "a late event takes the place of the one that is held": Fault(
        "deciding:decide", ' and decision.outcome == "held"', "", 299
    ),
    "the feed is believed as much as the CMS": Fault(
        "article:rank_of", "FEED_SOURCE: FEED_RANK", "FEED_SOURCE: CMS_RANK", 34
    ),
    # ── the clock ──
    "what is due is deleted before it is sent": Fault(
        "rolling:_send_due",
        "        due.append(item)",
        '        due.append(item)\n        table.delete(item["pk"], item["sk"])',
        16,
    ),
    "only the first news sitemap expires": Fault(
        "rolling:_expire_news", "for file in series_files(one)]", "for file in series_files(one)[:1]]", 7
    ),
    "an expired entry gives its place back twice": Fault(
        "rolling:_expire_news",
        "expired.append(read_news_place(removed))",
        "expired.extend([read_news_place(removed)] * 2)",
        7,
    ),
    # ── the files ──
    "a file is put whatever stands there": Fault(
        "bucket:write",
        '{"IfMatch": replaces.etag} if replaces else {"IfNoneMatch": "*"}',
        "{}",
        66,
    ),
    "the ETag is read after the table": Fault(
        "bucket:write",
        '{"IfMatch": replaces.etag} if replaces else {"IfNoneMatch": "*"}',
        '{"IfMatch": read(site, file).etag} if read(site, file) else {"IfNoneMatch": "*"}',
        145,
    ),
    "a file that was overtaken is taken for written": Fault(
        "bucket:write", "        raise _overtaken_or(error) from error", "        return", 10
    ),
    "a file that failed is handed over to nobody": Fault(
        "rewriting:hand_over", "queues.send_rewrites([result.work], delay_seconds=RETRY_DELAY_SECONDS)", "pass", 13
    ),
    "a file that failed is done": Fault(
        "functions/rewrite_sitemaps/app.py",
        " in failed\n    ]",
        " in ()\n    ]",
        156,
    ),
    "an emptied file is never deleted": Fault(
        "committing:commit", "            have_retired(site, file, plan.changed)", "            pass", 7
    ),
    "what changed is folded in without being read": Fault(
        "rendering:fold", "found = table.get_many((pk, sk) for sk, _ in sorted(entries))", "found = {}", 1
    ),
    "an edition's articles stand in the site's news sitemap": Fault(
        "naming:news_series", "if edition and edition.news else", "if False else", 2
    ),
    "what an edition lists never expires": Fault(
        "rolling:_expire_news",
        "for one in series for file",
        "for one in series if one.name == NEWS_SERIES for file",
        32,
    ),
    "a robots.txt that is not kept any more stays": Fault(
        "rolling:_apply_configuration", "robots=True", "robots=False", 11
    ),
    # ── what comes in ──
    "messages that a queue did not take are forgotten": Fault(
        "queues:_send", 'if answer.get("Failed"):', "if False:", 91
    ),
    "a webhook is acknowledged although the queue failed": Fault(
        "receiving:receive",
        "    queues.send_articles([event])",
        "    try:\n        queues.send_articles([event])\n    except Exception:\n        pass",
        126,
    ),
    "only the first new entry of a feed is sent": Fault(
        "ingesting:_read", "queues.send_articles(sent)", "queues.send_articles(sent[:1])", 2
    ),
    "what cannot be read is dropped": Fault(
        "recording:_quarantine", "        table.put_if(quarantine_item", "        (quarantine_item", 1
    ),
    "an item is written whatever was read": Fault("table:_as_read", '"rev = :read"', '"attribute_exists(pk)"', 131),
    "packed files go before the index that names them": Fault(
        "outputs:take_away", 'if index and f"/{name}</loc>".encode() in index.body', "if not index", 217
    ),
    "forms that no mark tells of stay": Fault("outputs:replace_forms", " | possible_forms(work.file)", "", 1),
    "outputs are turned on and off in one step": Fault(
        "outputs:replace_forms", "work.thorough and work.config_version == site.version", "True", 156
    ),
    "of several changed entries one is folded in": Fault(
        "rendering:fold", "for sk, loc in sorted(entries)}", "for sk, loc in sorted(entries)[:1]}", 7
    ),
    "a file is folded into whatever its size": Fault(
        "folding:_fitting", "return file if is_within_limits(file, entries_max) else None", "return file", 7
    ),
}


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """The fault is in the product while the block runs."""
    from tests.simulation.world import APPS

    if fault.where.endswith(".py"):
        path = ROOT / fault.where

        def changed(read: Path, source: str) -> str:
            return _replaced(source, fault) if read == path else source

        _replaced(path.read_text(encoding="utf-8"), fault)
        APPS.forget()
        before, APPS.changed = APPS.changed, changed
        try:
            yield
        finally:
            APPS.changed = before
            APPS.forget()
        return
    function = _function(fault.where)
    source = _replaced(textwrap.dedent(inspect.getsource(function)), fault)
    made: dict[str, Any] = {}
    exec(compile(source, str(inspect.getsourcefile(function)), "exec"), function.__globals__, made)  # noqa: S102
    code = function.__code__
    # The function itself is changed, so that whoever has imported it has the fault.
    function.__code__ = inspect.unwrap(made[function.__name__]).__code__
    try:
        yield
    finally:
        function.__code__ = code


def _function(where: str) -> Any:
    module, _, name = where.partition(":")
    found: Any = import_module(f"stoppress.{module}")
    for part in name.split("."):
        assert hasattr(found, part), f"{where} is gone: plant the fault where its work is done now"
        found = getattr(found, part)
    return inspect.unwrap(found)


def _replaced(source: str, fault: Fault) -> str:
    assert source.count(fault.old) == 1, f"{fault.where} has no {fault.old!r} (or several): plant the fault again"
    return source.replace(fault.old, fault.new)


def first_seed(fault: Fault, breaks: Callable[[int], bool], *likely: int) -> int | None:
    """The first seed that catches a fault, of the likely ones and then of all."""
    with planted(fault):
        return next((seed for seed in (*likely, *range(1, SEEDS_MAX + 1)) if breaks(seed)), None)


def _main(names: list[str]) -> None:
    from tests.simulation.run import Broken, Run

    def breaks(seed: int) -> bool:
        try:
            Run(seed).play()
        except Broken as broken:
            sys.stdout.write(f"    {str(broken).splitlines()[0][:160]}\n")
            return True
        return False

    for name, fault in FAULTS.items():
        if not names or name in names:
            sys.stdout.write(f"{first_seed(fault, breaks)}  {name}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "eu-west-1"}
    _main(sys.argv[1:])
