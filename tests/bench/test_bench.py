"""`make bench` writes results that other tools read, and a page that shows them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

from bench import bursts, chart, model, month, prices, report, wiring
from bench.measuring import Measured, Run
from bench.rendering import CASES
from stoppress_cli.app import app

pytestmark = pytest.mark.moto

RESULTS = report.load()

REWRITE = "run make month WRITE=1"

COST = {"calls", "write_units", "read_units", "puts", "bytes", "cpu_ms"}
RENDERED = {"cpu_ms", "peak_mib", "bytes"}
EVENTS = {"new", "edit_fresh", "edit_old", "slug_change", "removal", "expiry"}
ARCHIVES = {"0", "1000", "10000", "50000", "200000", "1000000"}


def has_numbers(row: Mapping[str, Any], names: set[str]) -> bool:
    """Return True if a row has exactly these names, and a number under each."""
    return row.keys() == names and all(isinstance(value, int | float) for value in row.values())


def test_the_results_have_the_keys_that_other_tools_read() -> None:
    keys = {"machine", "versions", "date", "cost", "burst", "render", "peers", "cold_start", "latency_model", "webhook"}

    assert RESULTS.keys() == keys | {"skipped", "more"}
    assert RESULTS["cost"].keys() == EVENTS
    for by_archive in RESULTS["cost"].values():
        assert by_archive.keys() - {"50000000"} == ARCHIVES
        assert all(has_numbers(row, COST) for row in by_archive.values())
    assert RESULTS["burst"].keys() == {"1", "10", "100", "1000", "10000"}
    assert all(
        has_numbers(row, {"puts_per_article", "write_units_per_article", "seconds"})
        for row in RESULTS["burst"].values()
    )
    assert RESULTS["render"].keys() == CASES["Stoppress"].keys()
    rendered = [RESULTS["render"], *RESULTS["peers"].values()]
    assert all(has_numbers(row, RENDERED) for cases in rendered for row in cases.values())
    assert all(has_numbers(row, {"ms", "ratio"}) for row in RESULTS["cold_start"].values())
    assert has_numbers(RESULTS["latency_model"], {"p50_s", "p99_s"})
    assert has_numbers(RESULTS["webhook"], {"per_second"})


def test_parts_that_were_not_measured_are_reported() -> None:
    missing = {name for name in ("sitemap.js", "django", "xml-sitemap-writer") if name not in RESULTS["peers"]}
    missing |= set() if RESULTS["cold_start"] else {"cold starts"}

    assert missing <= {part for name in RESULTS["skipped"] for part in name.split(", ")}


@pytest.mark.parametrize(("template", "page", "name"), report.SECTIONS)
def test_the_generated_sections_show_the_results(template: str, page: Path, name: str) -> None:
    section = report.section_of(page.read_text(encoding="utf-8"), name)

    assert section == report.render(template, RESULTS), "run .venv/bin/python -m bench --write"


def test_the_chart_shows_the_results() -> None:
    assert chart.CHART.read_text(encoding="utf-8") == chart.draw(RESULTS), "run .venv/bin/python -m bench --write"


def test_sections_are_written_without_the_parts_that_a_quick_run_skips() -> None:
    more = {name: RESULTS["more"][name] for name in ("burst", "cost", "latency_model", "runs")}
    quick = RESULTS | {"peers": {}, "cold_start": {}, "skipped": {"django": "no network"}, "more": more}

    assert "Skipped: django (no network)." in report.render("measured", quick)


# ── the months ──

PARTS = {
    "Lambda", "DynamoDB", "S3", "SQS", "API Gateway", "EventBridge", "Secrets Manager", "alarms", "custom metrics", "logs",
    "transfer", "total",
}  # fmt: skip
MONTHS = RESULTS["more"]["month"]["cases"]


def test_a_months_services_add_up() -> None:
    for case in MONTHS.values():
        assert case["dollars"].keys() == PARTS
        assert 2 * case["dollars"]["total"] == pytest.approx(sum(case["dollars"].values()), abs=0.06)


def test_the_months_stay_within_their_goals() -> None:
    # Alarms, a secret and empty polls of two queues alone are more than the $2 that an idle month should cost.
    assert MONTHS["idle"]["dollars"]["total"] < 3
    assert MONTHS["small"]["dollars"]["total"] <= 4
    assert MONTHS["large"]["dollars"]["total"] <= 45


def test_the_month_counts_every_alarm_secret_and_queue_of_the_template() -> None:
    text = (report.ROOT / "template.yaml").read_text(encoding="utf-8")
    alarms = text.split("Type: AWS::CloudWatch::Alarm\n    Properties:\n")[1:]  # without a condition
    expressions = sum(alarm.partition("AlarmActions")[0].count("MetricStat:") for alarm in alarms)
    simple = sum("MetricStat:" not in alarm.partition("AlarmActions")[0] for alarm in alarms)

    assert wiring.alarm_metrics() == expressions + simple
    assert MONTHS["idle"]["used"]["alarm_metrics"] == wiring.alarm_metrics(), REWRITE
    assert MONTHS["idle"]["used"]["secrets"] == len(wiring.of_type("AWS::SecretsManager::Secret"))
    assert MONTHS["large"]["used"]["secrets"] == MONTHS["idle"]["used"]["secrets"] + month.SITES - 1
    # Five polls of 20 seconds at each of the two queues that have a function.
    assert wiring.polled_requests() == 2 * 5 * 3 * 60 * 24 * 30
    assert wiring.scheduled() == {"PollFeeds", "RollWindow", "ReconcileSites"}


def test_an_import_takes_as_long_as_its_slowest_part() -> None:
    imports = typer.main.get_command(app).commands["import"]  # type: ignore[attr-defined]
    command = next(option.default for option in imports.params if option.name == "rate")

    for recorded, rewritten in ((1_000, 1_000), (50, 1_000), (1_000, 60)):
        run = {"recorded_a_second": recorded, "rewritten_a_second": rewritten}
        assert report.import_rate(run) == min(command, recorded, rewritten)


def test_usage_is_added_multiplied_and_priced() -> None:
    busy = prices.Usage({"puts": 4, "read_units": 4}, {("EventsListed",): 1.0})
    night = prices.Usage({"read_units": 2}, {("EventsListed",): 1 / 24, ("DriftFound",): 1 / 24})

    total = busy * 1_000 + night * 500_000 + busy * 0

    assert total.of == {"puts": 4_000, "read_units": 1_004_000}
    assert total.metrics == {("EventsListed",): 1.0, ("DriftFound",): 1 / 24}
    assert total.dollars["S3"] == 0.02
    assert total.dollars["DynamoDB"] == 0.13


# ── the model ──

# The runs of one event, with their calls in order and without CPU.
RUNS = [
    Run("ReceiveWebhook", 0, ["sqs.SendMessageBatch"]),
    Run("RecordArticle", 1, ["dynamodb.BatchGetItem", "dynamodb.TransactWriteItems", "dynamodb.BatchWriteItem"]),
    Run("RewriteSitemaps", 2, ["s3.GetObject", "dynamodb.BatchGetItem", "s3.PutObject", "dynamodb.PutItem"]),
    Run("RewriteSitemaps", 1, ["s3.GetObject", "s3.PutObject"]),
]


def test_the_model_waits_as_long_as_the_batch_windows_of_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    with_windows = model.event_to_file(RUNS, {}, 0.0)
    wires = wiring.wiring()
    assert (wires.queue_window_ms, wires.stream_window_ms) == (0, 1_000)
    monkeypatch.setattr(model, "wiring", lambda: replace(wires, queue_window_ms=0.0, stream_window_ms=0.0))

    without_windows = model.event_to_file(RUNS, {}, 0.0)

    assert [long - short for long, short in zip(with_windows, without_windows, strict=True)] == pytest.approx(
        [1.0, 1.0]
    )


def test_without_a_window_in_the_stream_the_index_is_written_twice() -> None:
    assert [round(model.puts_of_an_article(RUNS, shards, 1_000), 1) for shards in (1, 4)] == [3.0, 3.0]
    assert all(model.puts_of_an_article(RUNS, shards, 0) > 3.3 for shards in (1, 4))


def test_with_message_groups_another_site_waits_no_longer_than_a_batch() -> None:
    assert max(bursts.neighbour_waits(0.3, groups=True)) < 0.3
    assert max(bursts.neighbour_waits(0.3, groups=False)) > 50


def test_a_cold_start_adds_to_the_latency() -> None:
    warm, cold = model.event_to_file(RUNS, {}, 0.0), model.event_to_file(RUNS, {"RecordArticle": 10_000.0}, 1.0)

    assert cold[0] - warm[0] > 10


def test_a_duration_until_a_call_excludes_the_calls_after_it() -> None:
    [rewrite] = [run for run in RUNS if "dynamodb.BatchGetItem" in run.calls and run.function == "RewriteSitemaps"]

    whole, to_the_put = model.duration_ms(rewrite), model.duration_ms(rewrite, until="s3.PutObject")

    assert whole - to_the_put == pytest.approx(model.call("dynamodb.PutItem").p50_ms)


def test_our_cpu_takes_longer_in_a_function_with_less_memory() -> None:
    # 512 and 1,024 of the 1,769 MB of a whole processor.
    assert model.cpu_ms(Run("RecordArticle", 1, cpu_ms=10)) == pytest.approx(10 * 1_769 / 512)
    assert model.cpu_ms(Run("RewriteSitemaps", 1, cpu_ms=10)) == pytest.approx(10 * 1_769 / 1_024)


# ── the prices ──


def test_the_price_of_a_million_events_is_the_sum_of_its_services() -> None:
    counts = Measured(write_units=2, read_units=4, runs=[Run("RecordArticle", 1, ["dynamodb.GetItem"])])
    counts.calls.update({"s3.PutObject": 1, "s3.GetObject": 2, "sqs.SendMessageBatch": 1, "eventbridge.PutEvents": 1})
    counts.invocations.update({"ReceiveWebhook": 1, "RecordArticle": 1})
    counts.batches = 1

    dollars = prices.million_events(counts)

    assert dollars == {
        "Lambda": pytest.approx(2 * 0.2 + 0.005 * 0.5 * 13.3334, abs=0.005),  # one call, 5 ms of 512 MB
        "DynamoDB": 2 * 0.625 + 4 * 0.125,
        "S3": 5.0 + 2 * 0.4,
        "SQS": pytest.approx(3 * 0.4),  # sent, received, deleted
        "API Gateway": 1.0,
        "EventBridge": 1.0,
        "Secrets Manager": 0.0,
        "total": pytest.approx(sum(dollars.values()) - dollars["total"], abs=0.02),
    }
