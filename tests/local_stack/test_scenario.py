from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoppress_cli.scenario.file import Line, ScenarioError, parse, read

pytestmark = pytest.mark.moto

SITE = '{"at": "2026-11-20T08:00:00Z", "site": {"host": "www.example.com"}}'


def parsed(*lines: str) -> list[Line]:
    return parse(lines, Path("case.jsonl"))


def test_a_step_without_an_instant_has_the_instant_of_the_previous_step() -> None:
    lines = parsed(SITE, "", '{"save": "a"}')

    assert [(line.number, line.kind) for line in lines] == [(1, "site"), (3, "save")]
    assert lines[1].at == datetime(2026, 11, 20, 8, tzinfo=UTC)


def test_instants_can_have_any_offset() -> None:
    assert parsed('{"at": "2026-11-20T09:00:00+01:00", "save": "a"}')[0].at == datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not JSON"]),
        ("[]", ["JSON object", "list"]),
        ("{}", ["exactly one of", "found none"]),
        ('{"save": "a", "site": {"host": "h"}}', ["found site and save"]),
        ('{"save": "a", "colour": "red"}', ["save", "unknown key `colour`"]),
        ('{"expect": {"new": []}}', ["expect", "unknown key `expect.new`"]),
        ('{"expect": {"status": "ok"}}', ["`expect.status`", "integer"]),
        ('{"post": "webhooks/a/b"}', ["`post`"]),
        ('{"post": "/a", "headers": {"a": 1}}', ["`headers.a`", "string"]),
        ('{"site": {}}', ["host"]),
        ('{"site": {}, "gone": true}', ["host"]),
        ('{"site": {"host": "h"}, "gone": "when"}', ["`gone`"]),
        ('{"event": {"source": "cms"}}', ["detail-type"]),
        ('{"event": {"source": "cms", "detail-type": "a", "detail": {}, "time": "noon"}}', ["`event.time`"]),
        ('{"feed": "https://a/", "body": "", "file": "x"}', ["not both"]),
        ('{"feed": "https://a/", "file": "absent.xml"}', ["no file absent.xml"]),
        ('{"feed": "ftp://a/"}', ["`feed`"]),
        ('{"hub": "https://a/", "topic": "https://b/"}', ["hub", "give both, or neither"]),
        ('{"push": "https://a/", "topic": "https://b/", "sign": "md5"}', ["`sign`"]),
        ('{"at": "yesterday", "save": "a"}', ["`at`", "datetime"]),
        ('{"at": "2026-11-20T08:00:00", "save": "a"}', ["`at`", "timezone"]),
        ('{"at": "2026-11-20T07:59:59Z", "save": "a"}', ["before the step above"]),
        ('{"save": "../a"}', ["`save`"]),
        ('{"fault": {"service": "S3", "operation": "PutObject"}}', ["`fault.service`"]),
        ('{"fault": {"service": "s3", "operation": "PutObject", "times": 0}}', ["`fault.times`"]),
    ],
)
def test_the_error_of_an_invalid_line_contains_file_and_line_number(line: str, words: list[str]) -> None:
    with pytest.raises(ScenarioError) as error:
        parsed(SITE, line)

    message = str(error.value)
    assert message.startswith("case.jsonl:2: ")
    assert [word for word in words if word not in message] == []


def test_the_first_step_needs_an_instant() -> None:
    with pytest.raises(ScenarioError, match=r"case.jsonl:1: .*needs `at`"):
        parsed('{"save": "a"}')


def test_an_absent_or_empty_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read"):
        read(tmp_path / "absent.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ScenarioError, match="contains no step"):
        read(tmp_path / "empty.jsonl")
