"""What was measured: tables on the terminal, results.json, the section and the picture of docs/explanation/costs.md."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench import picture
from stoppress_cli.output import counted

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("results.json")
PICTURE = ROOT / "docs/explanation/cost.svg"
PAGE = ROOT / "docs/explanation/costs.md"
README = ROOT / "README.md"
# `markdown` writes what stands between these two lines of the page.
BEGIN, END = "<!-- measured: made by make bench from bench/results.json -->", "<!-- /measured -->"
# `month_section` writes what stands between these.
MONTH_BEGIN, MONTH_END = "<!-- month: made by make month from bench/results.json -->", "<!-- /month -->"
# `scale_section` writes what stands between these.
SCALE_BEGIN, SCALE_END = "<!-- scale: made by make scale from bench/results.json -->", "<!-- /scale -->"

EVENTS = {
    "new": "new article",
    "edit_fresh": "edit, in the window",
    "edit_old": "edit, older",
    "slug_change": "slug change",
    "removal": "removal",
    "expiry": "expiry",
}

DAYS_A_MONTH = 30
# The import command sends so many articles a second unless --rate says otherwise.
SENT_A_SECOND = 50
_OF_AN_ARTICLE = {
    "write_units": "write units",
    "read_units": "read units",
    "puts": "PUTs",
    "other_s3": "other S3 requests",
    "sqs_requests": "SQS requests",
    "gb_seconds": "GB-seconds of Lambda",
}
_IMPORT_RATES = {
    "recorded_a_second": "articles a second in `record_article`",
    "rewritten_a_second": "articles a second in `rewrite_sitemaps`",
}

Results = dict[str, Any]
Rows = list[Sequence[str]]


def progress(text: str) -> None:
    """A line for who waits."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def write(results: Results) -> None:
    """Write results.json, the picture and the page's section."""
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PICTURE.write_text(picture.svg(results), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    text = text.replace(section(text), markdown(results))
    text = text.replace(section(text, MONTH_BEGIN, MONTH_END), month_section(results))
    PAGE.write_text(text.replace(section(text, SCALE_BEGIN, SCALE_END), scale_section(results)), encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    README.write_text(readme.replace(section(readme, MONTH_BEGIN, MONTH_END), month_totals(results)), encoding="utf-8")


def section(page: str, begin: str = BEGIN, end: str = END) -> str:
    """A generated section of the page, with its two marks. Raises ValueError if a mark is missing."""
    return page[page.index(begin) : page.index(end) + len(end)]


def month_section(results: Results) -> str:
    """The generated section about the price of a month."""
    month = results["more"]["month"]
    cases = month["cases"]
    titles = [case["title"] for case in cases.values()]
    rows: Rows = [
        (service, *(f"${case['dollars'][service]:.2f}" for case in cases.values()))
        for service in cases["idle"]["dollars"]
    ]
    sentences = [
        f"- {case['title']}: {used['invocations']:,.0f} invocations, {used['gb_seconds']:,.0f} GB-seconds, "
        f"{used['write_units']:,.0f} write units, {used['read_units']:,.0f} read units, {used['puts']:,.0f} PUTs, "
        f"{used['sqs_requests']:,.0f} SQS requests, {used['log_bytes'] / 1_000_000:,.0f} MB of logs, "
        f"{counted(round(used['secrets']), 'secret')}, metrics in alarms: {used['alarm_metrics']:.0f}, custom metrics: {used['custom_metrics']:g}."
        for case in cases.values()
        for used in [case["used"]]
    ]
    more = f"Each further million pages in the archive adds ${month['archive_million_dollars']:.2f} a month."
    table = _markdown_table(("service", *titles), rows)
    return "\n\n".join(
        [
            MONTH_BEGIN,
            table,
            "\n".join(sentences),
            more,
            _polling(month["feeds"]),
            *_listing(month["listing"]),
            _notifying(month["notifying"]),
            MONTH_END,
        ]
    )


def _polling(feeds: list[Results]) -> str:
    """What feeds add that are polled each minute."""
    names = ("runs", "calls", "read_units", "write_units")
    rows: Rows = [
        (f"{row['feeds']:,}", *(f"{row[name]:,g}" for name in names), f"${row['month']:.2f}") for row in feeds
    ]
    head = ("feeds polled each minute", "in a minute: runs", "AWS calls", "read units", "write units", "a month more")
    return _markdown_table(head, rows)


def _listing(listing: Results) -> list[str]:
    """What `Listing=yes` adds."""
    audit, done = listing["audit"], listing["import"]
    rows: Rows = [
        ("nothing to list", f"${listing['switched_on']:.2f} a month", ""),
        (
            f"an audit each hour, {audit['stories']} stories, nothing missed",
            f"${audit['month']:.2f} a month",
            f"an audit: {audit['calls']} AWS calls, {audit['read_units']:g} read units, {counted(round(audit['write_units']), 'write unit')}",
        ),
        *(
            (
                f"an import of {millions} million articles",
                f"${done['million']['total'] * millions:,.0f}",
                _long(millions * 1_000_000 / import_rate(done)),
            )
            for millions in (1, 50)
        ),
    ]
    articles: Rows = [
        *((text, _short(done["article"][name])) for name, text in _OF_AN_ARTICLE.items()),
        *((text, str(done[name])) for name, text in _IMPORT_RATES.items()),
    ]
    units = round(import_rate(done) * done["article"]["write_units"])
    sentence = (
        f"`stoppress import` sends {SENT_A_SECOND} articles a second, in the order of publication. They use {units} write units a second. "
        "A new on-demand table takes 4,000, and one of its partitions 1,000. "
        f"{done['concurrency']} invocations of `record_article` work on imports at once."
    )
    return [
        _markdown_table(("`Listing=yes`", "price", "takes"), rows),
        _markdown_table(("an imported article", ""), articles),
        sentence,
    ]


def _notifying(notifying: Results) -> str:
    """What `Engines=yes` adds."""

    def row(title: str, story: Results) -> Sequence[str]:
        takes = f"{counted(story['invocations'], 'invocation')} and {counted(story['calls'], 'AWS call')}"
        units = (
            f", {story['read_units']:g} read units, {story['write_units']:g} write units"
            if story["write_units"]
            else ""
        )
        return title, f"${story['month']:.2f} a month more", f"a story with its two edits: {takes}{units}"

    rows: Rows = [
        ("no story", f"${notifying['switched_on']:.2f} a month", ""),
        row("100 articles a day, each edited twice, on a site without `engines`", notifying["without_engines"]),
        row("the same on a site with `engines`", notifying["with_engines"]),
    ]
    return _markdown_table(("`Engines=yes`", "price", "takes"), rows)


def _short(number: float) -> str:
    """A number with two digits behind the point, or with two significant ones."""
    return f"{number:.2f}" if number >= 1 else f"{number:.2g}"


def import_rate(run: Results) -> int:
    """Articles a second of an import: the slowest of the command, of record_article and of rewrite_sitemaps."""
    return min(SENT_A_SECOND, int(run["recorded_a_second"]), int(run["rewritten_a_second"]))


def _long(seconds: float) -> str:
    """A time in hours or days."""
    hours = seconds / 3_600
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def markdown(results: Results) -> str:
    """The generated section of the page."""
    parts = [
        _markdown_table(_cost_head(results), _cost(results)),
        _sentences(results),
    ]
    if results["burst"]:
        parts.append(_markdown_table(_BURST_HEAD, _bursts(results)))
    if "neighbour" in results["more"]:
        parts.append(_fairness(results["more"]))
    parts += [_RENDERED, _markdown_table(_RENDER_HEAD, _render(results))]
    if results["cold_start"]:
        parts.append(_markdown_table(_COLD_HEAD, _cold(results)))
    if results["skipped"]:
        parts.append("Skipped: " + "; ".join(f"{name} ({reason})" for name, reason in results["skipped"].items()) + ".")
    return "\n\n".join([BEGIN, *parts, END])


def month_totals(results: Results) -> str:
    """The generated table of the README: the price of a month by newsroom."""
    cases = results["more"]["month"]["cases"].values()
    rows: Rows = [(case["title"], f"${case['dollars']['total']:.2f}") for case in cases]
    return "\n\n".join([MONTH_BEGIN, _markdown_table(("newsroom", "price of a month"), rows), MONTH_END])


def scale_section(results: Results) -> str:
    """The generated section about an hour of ten thousand sites."""
    hour = results["more"]["scale"]
    rows: Rows = [
        (f"`{name}`", *(f"{used[what]:,.0f}" for what in ("invocations", "calls", "read_units", "write_units")))
        for name, used in hour["functions"].items()
    ]
    sentences = (
        f"{hour['sites']:,} sites: {hour['busy']} publish a story every five minutes and have {hour['feeds']:,} feeds, which answer 304. "
        f"The others are idle, with one old story and without feeds. In the hour, {counted(hour['idle_calls'], 'call')} read or wrote anything of them. What they store costs ${hour['idle_dollars']:.2f} a month. "
        f"Of {hour['left']:,} stories that had to leave the news sitemaps, {hour['late']} did not leave at the second. "
        f"After an outage of three hours, `roll_window` deletes {hour['expired']:,} expired entries in "
        f"{counted(hour['minutes'], 'minute')} and {hour['calls']:,} calls."
    )
    head = ("function, in an hour", "invocations", "calls", "read units", "write units")
    return "\n\n".join([SCALE_BEGIN, _markdown_table(head, rows), sentences, SCALE_END])


def show(results: Results) -> None:
    """Print all of it."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(f"[bold]{_on(results)}[/]")
    _print(console, "One event, by pages in the archive", _cost_all_head(results), _cost_all(results))
    if worst := results["more"].get("worst"):
        rows = [(EVENTS[event], *_figures(row)) for event, row in worst.items()]
        _print(console, "The worst: shards full (2,000), a thousand in the window, a million pages", _EVENT_HEAD, rows)
    _print(console, "What a million of them cost at list prices (bench/prices.toml)", _DOLLAR_HEAD, _dollars(results))
    _print(
        console,
        "Which calls cost which units (a new article, the largest archive)",
        _UNITS_HEAD,
        _units(results),
    )
    _print(console, "Articles within one second", _BURST_HEAD, _bursts(results))
    _print(console, "Rendering", _RENDER_HEAD, _render(results))
    if results["cold_start"]:
        _print(console, "Cold starts", _COLD_HEAD, _cold(results))
    steps = [
        (run["function"], str(len(run["calls"])), f"{run['wall_ms']:.0f} ms", f"{run['cpu_ms']:.1f} ms")
        for run in results["more"]["runs"]
    ]
    _print(
        console,
        "Event to file and index on this machine, doubles and all",
        ("step", "calls", "took", "our own CPU"),
        steps,
    )
    console.print(_sentences(results).replace("**", ""), markup=False)
    if "neighbour" in results["more"]:
        console.print(_fairness(results["more"]), markup=False)
    for name, reason in results["skipped"].items():
        console.print(f"skipped: {name}: {reason}", markup=False)


def _on(results: Results) -> str:
    machine = results["machine"]
    return (
        f"Measured on {results['date'][:10]}: {machine['processor']}, {machine['cores']} cores, {machine['system']}, "
        f"Python {results['versions']['python']}"
    )


# ── the parts ──

_EVENT_HEAD = ("event", "write units", "read units", "PUT", "other S3", "moved", "CPU")
_DOLLAR_HEAD = ("event", "DynamoDB", "S3", "SQS", "Lambda", "API, bus, secrets", "in all")
_UNITS_HEAD = ("function", "call", "of", "read", "written")
_BURST_HEAD = (
    "at once",
    "PUTs an article",
    "write units",
    "read units",
    "our CPU",
    "until the last is visible (modelled)",
)
_RENDER_HEAD = ("rendered by", "what", "CPU", "peak memory", "bytes")
_RENDERED = (
    "`50k_plain` is 50,000 pages with their last change. `50k_rich` adds an image, two languages and a video to each page. "
    "`1k_news` is a news sitemap of 1,000 articles. `zlib6_alone` only compresses the finished file at level 6. "
    "Peak memory is what rendering adds to a process that already holds the pages. Django writes days without times."
)
_COLD_HEAD = ("function", "cold start", "bare clients", "ratio", "layer not compiled")


def _figures(row: dict[str, float]) -> tuple[str, ...]:
    return (
        f"{row['write_units']:g}", f"{row['read_units']:g}", f"{row['puts']}", f"{row['other_s3']}", _size(row["bytes"]), f"{row['cpu_ms']:.0f} ms",
    )  # fmt: skip


def _archives(results: Results) -> list[str]:
    return list(results["cost"]["new"])


def _cost_all_head(results: Results) -> tuple[str, ...]:
    return ("event", "pages", *_EVENT_HEAD[1:])


def _cost_all(results: Results) -> Rows:
    return [
        (EVENTS[event] if urls == _archives(results)[0] else "", f"{int(urls):,}", *_figures(row))
        for event, by_archive in results["cost"].items()
        for urls, row in by_archive.items()
    ]


def _cost_head(results: Results) -> tuple[str, ...]:
    return ("event, at 1,000 → at 1,000,000 pages", *_EVENT_HEAD[1:], "a million of them")


def _cost(results: Results) -> Rows:
    small, large = "1000", _archives(results)[-1]
    rows: Rows = []
    for event, by_archive in results["cost"].items():
        both = zip(_figures(by_archive[small]), _figures(by_archive[large]), strict=True)
        dollars = results["more"]["cost"][event]["dollars_a_million"]["total"]
        rows.append(
            (EVENTS[event], *(one if one == other else f"{one} → {other}" for one, other in both), f"${dollars:.0f}")
        )
    return rows


def _dollars(results: Results) -> Rows:
    rows: Rows = []
    for event, said in results["more"]["cost"].items():
        of = said["dollars_a_million"]
        rest = of["api"] + of["events"] + of["secrets"]
        figures = (of["dynamodb"], of["s3"], of["sqs"], of["lambda"], rest, of["total"])
        rows.append((EVENTS[event], *(f"${dollars:.2f}" for dollars in figures)))
    return rows


def _units(results: Results) -> Rows:
    return [
        (row["function"], row["call"], row["of"], f"{row['read']:g}", f"{row['written']:g}")
        for row in results["more"]["units_by_call"]
    ]


def _bursts(results: Results) -> Rows:
    rows: Rows = []
    for articles, row in results["burst"].items():
        more = results["more"]["burst"][articles]
        rows.append((f"{int(articles):,} article{'s' if articles != '1' else ''}", *_burst(row | more)))
    if storm := results["more"].get("correction_storm"):
        rows.append((f"{storm['edits']} corrections of one story", *_burst(storm)))
    if feeds := results["more"].get("feeds_at_once"):
        count = feeds["feeds"]
        each = (
            feeds["puts"] / count,
            feeds["write_units"] / count,
            feeds["read_units"] / count,
            feeds["poll_cpu_ms"] / count,
        )
        rows.append(
            (
                f"{count} feeds with a new entry",
                f"{each[0]:.3f}",
                f"{each[1]:.1f}",
                f"{each[2]:.1f}",
                f"{each[3]:.1f} ms to poll",
                "",
            )
        )
    return rows


def _burst(row: dict[str, float]) -> tuple[str, ...]:
    return (
        f"{row['puts_per_article']:.3f}", f"{row['write_units_per_article']:.1f}", f"{row['read_units_per_article']:.1f}",
        f"{row['cpu_ms_per_article']:.1f} ms", f"{row['seconds']:.1f} s",
    )  # fmt: skip


def _render(results: Results) -> Rows:
    by = {"Stoppress": results["render"]} | results["peers"]
    return [
        (name, case, f"{row['cpu_ms']:,.1f} ms", f"{row['peak_mib']:,.0f} MiB", f"{row['bytes']:,}")
        for name, cases in by.items()
        for case, row in cases.items()
    ]


def _cold(results: Results) -> Rows:
    more = results["more"]["cold_start"]
    return [
        (
            f"`{name}`",
            f"{row['ms']:.0f} ms",
            f"{more[name]['bare_ms']:.0f} ms",
            f"{row['ratio']:.2f}",
            f"{more[name]['not_compiled_ms']:.0f} ms",
        )
        for name, row in results["cold_start"].items()
    ]


def _sentences(results: Results) -> str:
    """The figures that are in no table."""
    model, more = results["latency_model"], results["more"]
    cold, index = more["latency_model"]["every_function_cold"], more["latency_model"]["to_the_index"]
    handler = more["webhook"]["handler_per_second"]
    sentences = [
        f"{_on(results)}.",
        "*Moved* is what S3 received and sent. *CPU* is the time of this code and its libraries, without the doubles of AWS.",
        "A model of AWS (`bench/hops.toml`) estimates the time from the CMS's request to the file in S3:",
        f"**{model['p50_s']:.1f} s** at the median, **{model['p99_s']:.1f} s** at p99.",
        f"To the index it is {index['p50_s']:.1f} s and {index['p99_s']:.1f} s.",
        f"With every function cold the file takes {cold['p50_s']:.1f} s and {cold['p99_s']:.1f} s.",
        f"One core verifies, normalises and enqueues **{results['webhook']['per_second']:,.0f}** webhooks a second,",
        f"{handler:,.0f} with log and metrics.",
    ]
    if feed := more.get("feed_of_a_hundred"):
        sentences.append(
            f"Polling a feed of a hundred entries, one of them new, takes {feed['poll_cpu_ms']:.0f} ms of CPU."
        )
    if commands := more.get("startup_ms"):
        sentences.append(f"`stoppress --help` takes {commands['--help']:.0f} ms.")
    if layer := more.get("cold_start", {}).get("layer"):
        sentences.append(f"The layer has {layer['mib']:g} MiB, {layer['zip_mib']:g} MiB zipped.")
    return " ".join(sentences)


def _fairness(more: Results) -> str:
    """Why the queue has message groups and no batching window, and the stream has one."""
    puts, without, with_ = (
        more["latency_model"]["puts_of_an_article"],
        *(more["neighbour"][name] for name in ("without", "with")),
    )
    shards = ", ".join(puts["window"])
    return (
        "In the model, 10,000 articles of one site at once delay the articles of another site in the queue. Without message groups they "
        f"wait {without['p50_s']:.1f} s at the median and {without['max_s']:.1f} s at most, "
        f"with them {with_['p50_s']:.1f} s and {with_['max_s']:.1f} s.\n\n"
        "The stream keeps its batching window of a second. It joins the marks of an article's two files before the index is written. "
        f"If the stream has {shards} shards, a new article takes {', '.join(f'{each:.2f}' for each in puts['window'].values())} PUTs "
        f"on average. Without the window it would take {', '.join(f'{each:.2f}' for each in puts['no_window'].values())} PUTs and a second less."
    )


def _size(count: float) -> str:
    return f"{count / 1_000:,.0f} KB" if count >= 1_000 else f"{count:.0f} B"


# ── how they look ──


def _markdown_table(head: Sequence[str], rows: Rows) -> str:
    lines = [
        head,
        ["---" if number == 0 or heading == "what" else "---:" for number, heading in enumerate(head)],
        *rows,
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _print(console: Console, title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, heading in enumerate(head):
        table.add_column(heading, justify="left" if number == 0 or heading in ("call", "of", "what") else "right")
    for row in rows:
        table.add_row(*(cell.replace("`", "") for cell in row))
    console.print(table)
