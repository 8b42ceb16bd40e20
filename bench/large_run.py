"""Ten thousand articles over twelve months, 1,200 of them in the window: `python -m bench.large_run` (make large).

They come by signed webhooks, in bursts, through the local stack. At the end the files must list exactly those URLs; what
that took is printed: PUTs, capacity units, seconds. Too long for the tests: minutes.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stoppress_cli.local.stack import Stack
from tests.support import playing
from tests.support.playing import Step

HOST = "www.example.com"
END = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
YEAR, WINDOW, MARGIN = timedelta(days=365), timedelta(hours=48), timedelta(hours=1)


def instants(articles: int, in_window: int) -> list[datetime]:
    """When each article is published: evenly over the year before the window, then evenly over the window."""
    old = articles - in_window
    before = [END - YEAR + (YEAR - WINDOW - MARGIN) * number / old for number in range(old)]
    within = [END - WINDOW + MARGIN + (WINDOW - 2 * MARGIN) * number / in_window for number in range(in_window)]
    return [instant.replace(microsecond=0) for instant in before + within]


def url(number: int, published: datetime) -> str:
    return f"https://{HOST}/{published:%Y/%m/%d}/story-number-{number}-of-the-year"


def steps(published: list[datetime], burst: timedelta) -> Iterator[Step]:
    """All articles of a stretch of time arrive at its end, at one instant: a burst is what an import or a busy hour is."""
    yield {"at": text(END - YEAR), "secret": {"name": "newsroom", "value": "whsec_c3RvcHByZXNz"}}
    source = {"cms": {"secret": "newsroom"}}
    yield {"site": {"host": HOST, "publication": "Example News", "sources": source}}
    for number, instant in enumerate(published):
        end = END - YEAR + burst * ((instant - (END - YEAR)) // burst + 1)
        article = {
            "id": str(number),
            "url": url(number, instant),
            "title": f"Story number {number} of the year",
            "published_at": text(instant),
        }
        body = {"type": "article.published", "timestamp": text(instant), "data": article}
        yield {"at": text(end), "post": f"/webhooks/{HOST}/cms", "body": body, "sign": True}
    urls = [url(number, instant) for number, instant in enumerate(published)]
    news = [one for one, instant in zip(urls, published, strict=True) if END - instant < WINDOW]
    yield {"at": text(END), "expect": {"urls": urls, "news": news}}


def text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def report(stack: Stack, seconds: float, articles: int) -> None:
    meter = stack.wire.meter
    operations = meter.operations()
    rows = {
        "seconds": f"{seconds:,.0f}, {seconds * 1000 / articles:.1f} ms an article",
        "PUTs": f"{operations['s3.PutObject']:,} ({meter.s3_bytes_put:,} bytes)",
        "write units": f"{meter.write_units:,.0f}, {meter.write_units / articles:.1f} an article",
        "read units": f"{meter.read_units:,.0f}, {meter.read_units / articles:.1f} an article",
        **{f"  {name}": f"{units:,.0f} read units" for name, units in sorted(meter.read.items())},
        "calls": ", ".join(f"{name} {count:,}" for name, count in sorted(operations.items())),
    }
    for name, row in rows.items():
        sys.stdout.write(f"{name:<18} {row}\n")


def main() -> int:
    """Exit code 0: the files list exactly what they should, and keep all rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--articles", type=int, default=10_000)
    parser.add_argument("--in-window", type=int, default=1_200)
    parser.add_argument("--burst-hours", type=float, default=6, help="how much of the year arrives at one instant")
    options = parser.parse_args()
    published = instants(options.articles, options.in_window)
    lines = playing.written(steps(published, timedelta(hours=options.burst_hours)))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        one = playing.play(
            lines,
            Path(out),
            kind=Stack,
            watch=lambda stack: report(stack, time.perf_counter() - began, options.articles),
        )
        wrong = one.failures + one.findings()
        files = {name: body.count(b"<url>") for name, body in one.files(playing.END).items()}
    for name, count in sorted(files.items()):
        sys.stdout.write(f"{name:<18} {count:,} URLs\n")
    if one.waiting:
        wrong.append(f"left in queues: {one.waiting}")
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
