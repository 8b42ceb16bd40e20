from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoppress_cli.app import app

pytestmark = pytest.mark.moto

REAL = Path(__file__).parents[2] / "template.yaml"


def test_the_demo_shows_what_became_of_each_article(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--once", "--log", str(tmp_path / "log"), "--template", str(REAL)])

    rows = [line.split() for line in result.stdout.splitlines()]
    in_news = {row[0]: "yes" in row for row in rows if row and row[-1] == "ms"}
    assert result.exit_code == 0
    assert in_news == {
        "flood-closes-the-harbour": False,
        "market-hall-reopens": True,
        "concert-called-off": False,
        "council-passes-the-budget": True,
        "ferry-sails-again": True,
    }
