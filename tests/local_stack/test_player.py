"""Scenarios on the real template: the effects of the steps, and when these are complete."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from stoppress_cli.app import app
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.file import ScenarioError, parse
from stoppress_cli.scenario.player import Player, playing

pytestmark = pytest.mark.moto

REAL = Path(__file__).parents[2] / "template.yaml"
HOST = "www.example.com"
SITE = {
    "host": HOST, "publication": "Example News", "language": "en", "feeds": [f"https://{HOST}/rss.xml"],
    "sources": {"cms": {"adapter": "standard", "secret": "cms"}, "bus": {"adapter": "standard"}},
}  # fmt: skip
START: list[dict[str, Any]] = [
    {"at": "2026-11-20T08:00:00Z", "secret": {"name": "cms", "value": "whsec_c3RvcHByZXNz"}},
    {"site": SITE},
]
A, B = f"https://{HOST}/a", f"https://{HOST}/b"

SITE_STEP = '{"at": "2026-11-20T08:00:00Z", "site": {"host": "a.example.com", "publication": "A"}}'
Run = Callable[..., Player]


def article(number: str, url: str, published_at: str = "2026-11-20T07:59:00Z") -> dict[str, Any]:
    return {"id": number, "url": url, "title": f"Title {number}", "published_at": published_at}


def post(number: str, url: str, **step: Any) -> dict[str, Any]:
    body = {"type": "article.published", "timestamp": "2026-11-20T08:00:00Z", "data": article(number, url)}
    return {"post": f"/webhooks/{HOST}/cms", "body": body, "sign": True, **step}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*steps: dict[str, Any]) -> Player:
        lines = parse([json.dumps(step) for step in [*START, *steps]], tmp_path / "case.jsonl")
        with (
            Stack(REAL, start=lines[0].at) as stack,
            playing(stack, tmp_path / "case.jsonl", tmp_path / "out", lambda line, text: None) as player,
        ):
            player.play(lines)
            return player

    return run


def invocations(player: Player, function: str) -> int:
    return player.stack.functions[function].invocations


def failures(player: Player) -> list[str]:
    return [failure.split(": ", 1)[1] for failure in player.failures]


def test_a_burst_is_one_rewrite_and_spread_steps_are_several(run: Run) -> None:
    burst = run(*[post(str(number), f"{A}{number}") for number in range(5)])
    spread = run(*[post(str(number), f"{A}{number}", at=f"2026-11-20T08:00:0{number}Z") for number in range(5)])

    assert invocations(burst, "RecordArticle") == 1
    assert invocations(spread, "RecordArticle") == 5
    assert burst.stack.wire.meter.operations()["s3.PutObject"] < spread.stack.wire.meter.operations()["s3.PutObject"]


def test_missed_minutes_fire_once_and_with_tick_each(run: Run) -> None:
    once = run({"at": "2026-11-20T09:00:00Z", "save": "a"})
    every = run({"at": "2026-11-20T09:00:00Z", "tick": True, "save": "a"})

    assert (invocations(once, "PollFeeds"), invocations(every, "PollFeeds")) == (1, 60)


def test_differences_show_the_expected_and_the_actual_state(run: Run) -> None:
    expected = {
        "status": 404, "news": [B], "titles": {A: "Other"}, "lastmod": {B: "2026-11-20T08:00:00Z"},
        "reply": {"id": "2"}, "quarantined": ["no such"], "articles": {"cms/1": {"state": "held"}, "cms/9": {}},
    }  # fmt: skip

    assert failures(run(post("1", A), {"expect": expected})) == [
        f"news: missing: {B}",
        f"news: unexpected: {A}",
        f'titles: {A}: expected "Other", found "Title 1"',
        f'lastmod: {B}: expected "2026-11-20T08:00:00Z", found nothing',
        "status: expected 404, found 200",
        'reply: id: expected "2", found "1"',
        'quarantined: no reason with "no such"',
        'articles: cms/1: state: expected "held", found "listed"',
        "articles: cms/9: expected {}, found nothing",
    ]


def test_a_saved_state_is_every_object_with_its_headers(run: Run, tmp_path: Path) -> None:
    run(post("1", A), {"save": "morning"})

    folder = tmp_path / "out" / "morning" / HOST
    assert sorted(path.name for path in folder.iterdir()) == ["sitemap-2026-11.xml", "sitemap-news.xml", "sitemap.xml"]
    assert A in (folder / "sitemap-news.xml").read_text()
    meta = json.loads((tmp_path / "out" / "morning.meta.json").read_text())
    assert set(meta) == {f"{HOST}/{path.name}" for path in folder.iterdir()}
    assert set(meta[f"{HOST}/sitemap.xml"]) == {"ContentType", "ContentEncoding", "CacheControl"}
    assert meta[f"{HOST}/sitemap.xml"]["ContentType"].startswith("application/xml")


def test_an_error_of_aws_is_an_error_of_the_scenario(run: Run) -> None:
    with pytest.raises(ScenarioError, match=r"case.jsonl:3: event: .*Source is a required argument"):
        run({"event": {"source": "", "detail-type": "article.published", "detail": {}}})


@pytest.mark.parametrize(
    "step", [{"push": "https://a/", "topic": "https://b/"}, {"hub": "https://a/", "topic": "https://b/", "asks": {}}]
)
def test_a_hub_without_a_subscription_cannot_push_or_verify(run: Run, step: dict[str, Any]) -> None:
    with pytest.raises(
        ScenarioError, match=r"case.jsonl:3: (push|hub): no request has reached https://a/ for https://b/"
    ):
        run(step)


def test_signing_with_a_secret_that_does_not_exist_is_an_error_of_the_scenario(run: Run) -> None:
    site = {**SITE, "sources": {"cms": {"adapter": "standard", "secret": "absent"}}}

    with pytest.raises(ScenarioError, match=r"case.jsonl:4: post: the secret absent does not exist"):
        run({"site": site}, post("1", A))


@pytest.mark.parametrize(
    ("text", "options", "code", "reason"),
    [
        (SITE_STEP, [], 0, ""),
        (f'{SITE_STEP}\n{{"expect": {{"urls": ["b"]}}}}', [], 1, "case.jsonl:2: urls: missing: b"),
        ('{"at": "2026-11-20T08:00:00Z", "save": "a", "colour": 1}', [], 2, "case.jsonl:1: save: unknown key `colour`"),
        (SITE_STEP, ["--log", "nowhere/log"], 2, "name another place with --log or --out"),
        (SITE_STEP, ["--out", "case.jsonl"], 2, "is a file"),
    ],
)
def test_the_command_ends_with_the_right_code_and_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    text: str, options: list[str], code: int, reason: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    result = played(text, tmp_path, *options)

    assert result.exit_code == code
    assert reason in result.output + capfd.readouterr().err


def played(text: str, tmp_path: Path, *more: str) -> Result:
    """Run `stoppress play` with a scenario of this text."""
    (tmp_path / "case.jsonl").write_text(text)
    options = {"--out": tmp_path / "out", "--log": tmp_path / "log", "--template": REAL}
    words = [str(word) for option in options.items() for word in option]
    return CliRunner().invoke(app, ["play", str(tmp_path / "case.jsonl"), *words, *more])
