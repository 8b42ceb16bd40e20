"""Faults planted in the product, each with a seed that catches it: words that are changed, or functions that others stand in for.

Each is caught within SEEDS_MAX seeds. Its own was the first of them, and is tried first: any other call of AWS in the product
moves the weather to other calls, and then another seed catches it, after a search that `python -m tests.simulation.faults`
saves when it has found the first ones anew. Where the text or the function to be replaced is gone, plant the fault again.
"""

import inspect
import os
import pkgutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import stoppress
from stoppress.model.article import Decision
from stoppress.model.event import CLOCK_SKEW_MAX

ROOT = Path(__file__).parents[2]
SEEDS_MAX = 1_000


@dataclass(frozen=True)
class Fault:
    """Words of a function (`module:name` below stoppress, or a handler's file) in whose place others stand."""

    where: str
    old: str
    new: str
    seed: int


@dataclass(frozen=True)
class Swap:
    """A function (`module:name` below stoppress) in whose place another one stands, which is made from it."""

    where: str
    by: Callable[[Any], Any]
    seed: int


FAULTS: dict[str, Fault | Swap] = {
    # ── recording ──
    "an item is made whatever is there": Fault(
        "aws.table:_as_read", '"attribute_not_exists(pk)"', '"attribute_not_exists(pk) OR attribute_exists(pk)"', 178
    ),
    "the article is written apart from its entries": Fault(
        "record.article:_write",
        "        table.transact([*puts, *deletes])",
        "        for one in [*puts, *deletes]:\n            table.transact([one])",
        3,
    ),
    "an error while writing is swallowed": Fault(
        "record.article:_record_wave",
        "outcomes.append(_failed(work, error))",
        'outcomes.append((work.message_id, MessageOutcome("failed", repr(error), work.event)))',
        38,
    ),
    "a conflict is taken for success": Fault(
        "aws.table:transact", "            raise Conflict(str(error)) from error", "            return", 13
    ),
    "keys that DynamoDB left unread are forgotten": Fault(
        "aws.table:get_many", "            rest += answer", "            rest or answer", 106
    ),
    "places are handed out and not counted": Fault(
        "aws.places:reserve", "if _keep_series(host, series):", "if True:", 2
    ),
    "messages that failed are not reported": Fault(
        "functions/record_article/app.py", "for record in again]}", "for record in ()]}", 49
    ),
    # ── deciding ──
    "what is late is taken for new": Fault(
        "record.decide:_decide", "if order.is_before(article.order):", "if False:", 6
    ),
    "a removal of what was never heard of leaves no tombstone": Fault(
        "record.decide:_decide",
        '    if event.action == "remove":',
        '    if event.action == "remove" and not article:\n        return Decision(outcome="late")\n    if event.action == "remove":',
        6,
    ),
    "a late removal takes out another's page": Fault(
        "record.remove:removed",
        "if claim and claim.live and claim.owner == current.name:",
        "if claim:",
        6,
    ),
    "a removal leaves the news entry": Fault(
        "record.entry_keys:entries_of", "if article.news and article.is_in_news(now):", "if article.news and keeps:", 1
    ),
    "a URL that was left stays claimed": Fault(
        "record.claims:Claimant._leaving",
        "claims.append(claim_left)",
        "pass",
        7,
    ),
    "the older of two articles keeps the URL": Fault(
        "record.claims:Claimant._stronger_claim",
        "if claim.live and is_claimed_before(self.current.order, claimed, same_source=same_source):",
        "if claim.live:",
        3,
    ),
    "a late event does not date the article": Fault(
        "record.late:dated_by_another", "if after is None:", "if True:", 252
    ),
    "a late event takes the place of the one that is held": Fault(
        "record.decide:decide", 'due_after if decision.outcome == "held" else None', "due_after", 2
    ),
    "the feed is believed as much as the CMS": Fault(
        "model.event:rank_of", "FEED_SOURCE: FEED_RANK", "FEED_SOURCE: CMS_RANK", 4
    ),
    # ── order ──
    "a timestamp counts as the moment it was heard where it is ahead": Swap(
        "model.event:order_of", lambda order_of: lambda event: _clamped(order_of(event)), 22
    ),
    "clocks that are ahead are compared with clocks that are right": Swap(
        "model.order:_by_instant", lambda _: lambda one, other: (one[0] > other[0]) - (one[0] < other[0]), 145
    ),
    "the change date is taken for the timestamp": Swap(
        "model.event:order_of",
        lambda order_of: lambda event: order_of(replace(event, timestamp=event.updated_at or event.timestamp)),
        35,
    ),
    "versions are ignored": Swap("model.order:_by_version", lambda _: lambda one, other: 0, 54),
    "a tie is won by the publication": Fault(
        "model.order:_compared", "return 1 if order.removal else -1", "return -1 if order.removal else 1", 218
    ),
    "a tie is won by the removal even in a burst": Fault("model.order:_compared", " or in_a_burst:", ":", 82),
    "a repeat is not known by its content": Swap(
        "model.order:known_by", lambda known_by: lambda **said: known_by(**said)[-1:] if said["delivery"] else (), 87
    ),
    "a repeat is not known by its delivery id": Swap(
        "model.order:known_by", lambda known_by: lambda **said: known_by(**said | {"delivery": None}), 468
    ),
    "a delivery that came late is not remembered": Fault("record.late:late", "    if names:", "    if False:", 2),
    # ── claims ──
    "a removal by URL alone is ignored": Swap(
        "record.claims:is_aimed_at", lambda _: lambda event, claim, owner: False, 11
    ),
    "the CMS cannot remove the page of a feed": Swap(
        "record.remove:weaker_page_removed", lambda _: lambda event, owner, known, now: Decision(outcome="removed"), 11
    ),
    "who was displaced never comes back": Swap("record.claims:leave", lambda leave: lambda *of: (leave(*of)[0], ()), 6),
    "a claim outlives its article": Swap(
        "record.claims:leave", lambda leave: lambda claim, *of: (claim, leave(claim, *of)[1]), 6
    ),
    "an old claim takes the URL from a newer one": Swap(
        "model.order:is_claimed_before", lambda _: lambda order, other, same_source: False, 23
    ),
    "clocks of two sources are compared as they are": Swap(
        "model.order:_own_time", lambda _: lambda order: order.timestamp or order.heard, 259
    ),
    "a feed brings back a URL that the CMS has left": Fault(
        "record.claims:Claimant._stronger_claim",
        "if claim.rank > self.rank:",
        "if claim.live and claim.rank > self.rank:",
        11,
    ),
    # ── embargo and first publication ──
    "what is held claims its URL at once": Fault(
        "record.publication:Publication._held",
        'self._leaving(Decision(outcome="held", reason=reason, article=after, out=out))',
        'replace(self._with_claim(after), outcome="held", reason=reason)',
        2,
    ),
    "an embargo of a few minutes is ignored": Swap(
        "record.publication_date:is_embargo",
        lambda is_embargo: lambda event, now: is_embargo(event, now) and event.published_at > now + CLOCK_SKEW_MAX,
        6,
    ),
    "an event without a date ends an embargo": Swap(
        "record.publication:Publication._embargo",
        lambda embargo: lambda self: embargo(self) if self.event.published_at else None,
        27,
    ),
    "any later date is the first publication": Swap(
        "record.publication_date:_takes", lambda _: lambda article, event, date, rank, site: True, 7
    ),
    "a mistyped date is never corrected": Swap(
        "record.publication_date:_takes",
        lambda _: lambda article, event, date, rank, site: article.first_published is None,
        4,
    ),
    # ── identity ──
    "each spelling is a page of its own": Swap("primitives.urls:identity", lambda _: lambda url: url, 2),
    "a number is one article in all feeds": Swap("feeds.events:_id_of", lambda _: lambda guid, feed: guid, 5),
    "an id that is used again is the article that was deleted": Swap(
        "record.decide:_current", lambda current: lambda event, article: article or current(event, article), 8
    ),
    # ── the clock ──
    "what is due is deleted before it is sent": Fault(
        "roll.window:_send_due",
        '        try:\n            if item["queue"]',
        '        table.delete(item["pk"], item["sk"])\n        try:\n            if item["queue"]',
        33,
    ),
    "only the first news sitemap expires": Fault(
        "roll.window:_expire_news", "for file in series_files(news)]", "for file in series_files(news)[:1]]", 5
    ),
    "an expired entry gives its place back twice": Fault(
        "roll.window:_expire_news",
        "expired.append(read_news_place(removed))",
        "expired.extend([read_news_place(removed)] * 2)",
        50,
    ),
    # ── the files ──
    "the ETag is read after the table": Fault(
        "aws.bucket:write",
        '{"IfMatch": replaces.etag} if replaces else {"IfNoneMatch": "*"}',
        '{"IfMatch": read(site, file).etag} if read(site, file) else {"IfNoneMatch": "*"}',
        19,
    ),
    "a file that was overtaken is taken for written": Fault(
        "aws.bucket:write", "        raise _overtaken_or(error) from error", "        return", 3
    ),
    "a file that failed is handed over to nobody": Fault(
        "rewrite.sitemaps:hand_over",
        "queues.send_rewrites([result.request], delay_seconds=RETRY_DELAY_SECONDS)",
        "pass",
        95,
    ),
    "a file that failed is done": Fault(
        "functions/rewrite_sitemaps/app.py",
        " in failed\n    ]",
        " in ()\n    ]",
        1,
    ),
    "an emptied file is never deleted": Swap("rewrite.retire:schedule_retirement", lambda _: lambda *of: None, 26),
    "what changed is folded in without being read": Swap(
        "rewrite.render:_changed_items", lambda _: lambda site, file, entries: dict.fromkeys(sorted(entries)), 1
    ),
    "an edition's articles stand in the site's news sitemap": Fault(
        "model.file_names:news_series", "if edition and edition.news else", "if False else", 27
    ),
    "what an edition lists never expires": Fault(
        "roll.window:_expire_news",
        "for news in series for file",
        "for news in series if news.name == NEWS_SERIES for file",
        5,
    ),
    "a robots.txt that is not kept any more stays": Fault(
        "roll.window:_apply_configuration", "robots=True", "robots=False", 58
    ),
    # ── what comes in ──
    "messages that a queue did not take are forgotten": Fault(
        "aws.queues:_send", 'if answer.get("Failed"):', "if False:", 679
    ),
    "a webhook is acknowledged although the queue failed": Fault(
        "receive.webhook:receive",
        "    queues.send_articles([event])",
        "    try:\n        queues.send_articles([event])\n    except Exception:\n        pass",
        82,
    ),
    "only the first new entry of a feed is sent": Fault(
        "poll.ingest:_read", "queues.send_articles(sent)", "queues.send_articles(sent[:1])", 4
    ),
    "what cannot be read is dropped": Fault(
        "record.article:_quarantine", "        table.put_if(quarantine_item", "        (quarantine_item", 3
    ),
    "an item is written whatever was read": Fault("aws.table:_as_read", '"rev = :read"', '"attribute_exists(pk)"', 5),
    "packed files go before the index that names them": Fault(
        "rewrite.forms:delete_forms", 'if index and f"/{name}</loc>".encode() in index.body', "if not index", 123
    ),
    "forms that no mark tells of stay": Fault("rewrite.forms:replace_forms", " | possible_forms(attempt.file)", "", 1),
    "of several changed entries one is folded in": Swap(
        "rewrite.render:_changed_items", lambda items: lambda *of: dict([*items(*of).items()][:1]), 31
    ),
    "a file is folded into whatever its size": Fault(
        "sitemaps.fold:_fitting", "return file if is_within_limits(file, entries_max) else None", "return file", 101
    ),
}


def _clamped(order: Any) -> Any:
    return replace(order, timestamp=order.timestamp and min(order.timestamp, order.heard))


@contextmanager
def planted(fault: Fault | Swap) -> Iterator[None]:
    """The fault is in the product while the block runs."""
    from tests.simulation.world import APPS

    if isinstance(fault, Swap):
        function = _function(fault.where)
        with ExitStack() as swaps:
            swaps.callback(APPS.forget)
            for holder in _holders(fault.where, function):
                swaps.enter_context(mock.patch.object(holder, function.__name__, fault.by(function)))
            APPS.forget()
            yield
        return
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
    return inspect.unwrap(_found(where))


def _found(where: str) -> Any:
    module, _, name = where.partition(":")
    found: Any = import_module(f"stoppress.{module}")
    for part in name.split("."):
        assert hasattr(found, part), f"{where} is gone: plant the fault where its work is done now"
        found = getattr(found, part)
    return found


def _holders(where: str, function: Any) -> list[Any]:
    """The class of a method, or all modules that have a function: its own, and those that import it.

    All are imported before: one that is imported while a fault is planted would keep it.
    """
    for found in pkgutil.walk_packages(stoppress.__path__, "stoppress."):
        import_module(found.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("stoppress.")]
    holders = [module for module in modules if vars(module).get(function.__name__) is function]
    return holders or [_found(where.rpartition(".")[0])]


def _replaced(source: str, fault: Fault) -> str:
    assert source.count(fault.old) == 1, f"{fault.where} has no {fault.old!r} (or several): plant the fault again"
    return source.replace(fault.old, fault.new)


def first_seed(fault: Fault | Swap, breaks: Callable[[int], bool], *likely: int) -> int | None:
    """The first seed that catches a fault, of the likely ones and then of all: it breaks with the fault, and not without it."""
    seeds: list[int] = [*likely, *range(1, SEEDS_MAX + 1)]
    for seed in seeds:
        with planted(fault):
            is_broken = breaks(seed)
        if is_broken and not breaks(seed):
            return seed
    return None


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
