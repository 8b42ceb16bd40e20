from pathlib import Path

import pytest

from stoppress_cli import demo
from stoppress_cli.commands import WELL

pytestmark = pytest.mark.moto

REAL = Path(__file__).parents[2] / "template.yaml"


def test_the_demo_shows_what_became_of_each_article(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = demo.demonstrate(once=True, host="127.0.0.1", port=0, log=tmp_path / "log", template=REAL)

    rows = [line.split() for line in capfd.readouterr().out.splitlines()]
    in_news = {row[0]: "yes" in row for row in rows if row and row[-1] == "ms"}
    assert code == WELL
    assert in_news == {
        "flood-closes-the-harbour": False,
        "market-hall-reopens": True,
        "concert-called-off": False,
        "council-passes-the-budget": True,
        "ferry-sails-again": True,
    }


def test_the_request_to_paste_carries_the_secret_of_the_demo() -> None:
    assert demo.SECRET in demo.snippet("http://127.0.0.1:8000/")
    assert demo.SECRET in demo.SCENARIO.read_text()
