"""Import an archive, kill the import at random, and compare the files with the archive: `python -m bench.import_archive`.

The code of `stoppress import` reads a file of JSON Lines. The stack's functions record the articles and write the files. They run
on the simulation's doubles of AWS, or with `--moto` on the local stack.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from bench.archive import TEMPLATE
from bench.listing import rows
from bench.newsroom import HOST, NOW, SITE
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario import sitemaps
from stoppress_cli.stack.import_ import Tally, checkpoint_of, listing_of, run, site_of
from tests.simulation.stack import StackOnDoubles
from tests.support.killing import killed, until_done
from tests.support.operated import doors

# Each time so many articles were sent, the functions empty the queue. So the doubles never hold the whole archive as messages.
AT_ONCE = 5_000


def imported(stack: Stack, path: Path, kills: int, steps: int) -> tuple[float, float]:
    """Import a file; the import is killed `kills` times at random. Returns the seconds of the import and of the functions."""
    functions_s = 0.0
    seen = 0

    def work() -> None:
        nonlocal functions_s
        began = time.perf_counter()
        stack.rest()
        functions_s += time.perf_counter() - began

    def show(tally: Tally, _total: int | None) -> None:
        nonlocal seen
        if tally.listed - seen >= AT_ONCE:
            seen = tally.listed
            work()

    site = site_of(HOST)
    checkpoint = checkpoint_of(path.with_name("at.json"), HOST, str(path), "cms")
    began = time.perf_counter()
    with killed(random.Random(kills), kills, steps) as count:
        until_done(lambda: run(listing_of(str(path), site, "cms"), site, checkpoint, rate=1e9, show=show))
        assert count() == kills, f"killed {count()} times"
    seconds = time.perf_counter() - began - functions_s
    work()
    stack.advance(stack.clock.now() + timedelta(minutes=1), every_schedule=True)
    return seconds, functions_s


def listed(stack: Stack) -> list[str]:
    """The URLs in the shards, sorted."""
    shards = (file for file in sitemaps.read(stack) if re.search(r"/sitemap-\d", file.key))
    return sorted(url for file in shards for url in re.findall(r"<loc>([^<]*)</loc>", file.body.decode()))


def main() -> int:
    """Exit code 0: the files list exactly the archive."""
    parser = argparse.ArgumentParser(prog="python -m bench.import_archive", description=__doc__)
    parser.add_argument("--articles", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--moto", action="store_true", help="the local stack instead of the doubles")
    options = parser.parse_args()
    with ExitStack() as open_:
        path = Path(open_.enter_context(tempfile.TemporaryDirectory())) / "archive.jsonl"
        lines = list(rows(options.articles))
        path.write_text("".join(lines), encoding="utf-8")
        stack = open_.enter_context((Stack if options.moto else StackOnDoubles)(TEMPLATE, start=NOW))
        name = f"{stack.variable('SITES_PATH')}/{HOST}"
        stack.client("ssm").put_parameter(Name=name, Value=json.dumps(SITE), Type="String")
        stack.advance(NOW + timedelta(minutes=1), every_schedule=True)
        open_.enter_context(doors(stack))
        # Steps are sent batches and written checkpoints. The import has twice as many steps as the kills need.
        import_s, functions_s = imported(stack, path, options.kills, len(lines) // (20 * max(1, options.kills)))
        urls = listed(stack)
        wanted = sorted(str(json.loads(row)["url"]) for row in lines)
        waiting = stack.waiting_messages()
    sys.stdout.write(
        f"{options.articles:,} articles, killed {options.kills} times: {options.articles / import_s:,.0f} a second imported,"
        f" {options.articles / functions_s:,.0f} a second recorded and written\n"
    )
    if waiting or urls != wanted:
        missing, more = len(set(wanted) - set(urls)), len(urls) - len(set(urls) & set(wanted))
        sys.stderr.write(f"missing: {missing:,}; too many: {more:,}; left in queues: {waiting}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
