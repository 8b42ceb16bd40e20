"""A cold start does not import modules that a function's first event does not need."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.moto_aws import ENVIRONMENT

pytestmark = pytest.mark.matrix

ROOT = Path(__file__).parents[2]

# asyncio is 20 ms and comes with Powertools' batch processing; its parameters create their own session and client.
NOWHERE = {
    "asyncio",
    "aws_lambda_powertools.utilities.batch",
    "aws_lambda_powertools.utilities.data_classes",
    "aws_lambda_powertools.utilities.parameters",
}
# A webhook touches no item of the table and no file, and a function without feeds parses none.
LEFT_OUT = {
    "receive_webhook": {
        "stoppress.record.decide", "stoppress.sitemaps.render", "stoppress.model.file_names", "stoppress.aws.items",
        "stoppress.model.article", "stoppress.aws.refusals",
        "stoppress.feeds", "feedparser", "idna", "xml.sax",
    },
    "poll_feeds": {"stoppress.record.decide"},
    # A push publishes a story, so the parser is imported before it, although a verification does not need it.
    "receive_push": {"stoppress.record.decide", "stoppress.poll.ingest", "stoppress.poll.feeds"},
    "record_article": {"stoppress.feeds", "feedparser", "idna", "xml.sax"},
    "rewrite_sitemaps": {
        "stoppress.model.event", "stoppress.cms.contract", "stoppress.record.decide", "stoppress.feeds", "stoppress.record.article", "stoppress.model.article",
        "stoppress.model.media", "stoppress.model.alternates",
        "feedparser", "idna", "xml.sax",
    },
    "show_site": {"stoppress.cms.contract", "stoppress.record.decide", "stoppress.sitemaps.render"},
    "audit_sources": {"stoppress.record.decide", "stoppress.feeds", "feedparser", "xml.sax"},
    "notify_engines": {"stoppress.record.decide", "stoppress.cms.mapping", "feedparser", "xml.sax"},
    "reconcile_sites": {"stoppress.feeds", "feedparser", "idna", "xml.sax"},
    "roll_window": {"stoppress.feeds", "feedparser", "idna", "xml.sax"},
}  # fmt: skip

_REPORT = (
    "import app, gc, json, sys; print(json.dumps({'modules': list(sys.modules), 'threshold': gc.get_threshold()[0],"
    " 'objects': len(gc.get_objects())}))"
)


@cache
def measure(function: str, *, on_lambda: bool = True) -> tuple[frozenset[str], int, int]:
    """Return modules, garbage collection threshold and objects of a process that has imported only a function."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COV_", "PYTHON"))}
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-B", "-c", _REPORT],
        cwd=ROOT / "functions" / function,
        env=variables
        | ENVIRONMENT
        | {"PYTHONPATH": str(ROOT / "shared")}
        | ({"AWS_LAMBDA_FUNCTION_NAME": function} if on_lambda else {}),
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    return frozenset(report["modules"]), int(report["threshold"]), int(report["objects"])


@pytest.mark.parametrize("function", LEFT_OUT)
def test_a_cold_start_imports_what_its_first_event_needs_and_collects_no_garbage(function: str) -> None:
    modules, threshold, objects = measure(function)

    assert f"stoppress.{'poll.feeds' if function == 'poll_feeds' else 'aws.sites'}" in modules
    assert not modules & (NOWHERE | LEFT_OUT[function])
    assert threshold > 2 * objects  # clients and the first event add objects


def test_every_function_is_measured_and_only_lambda_raises_the_gc_threshold() -> None:
    assert {path.parent.name for path in (ROOT / "functions").glob("*/app.py")} == LEFT_OUT.keys()
    assert measure("receive_webhook")[1] > 10 * measure("receive_webhook", on_lambda=False)[1]
