"""The measured import notices what is missing."""

import sys

import pytest

from bench import import_archive
from stoppress.aws import queues

pytestmark = pytest.mark.matrix


def test_2_000_articles_imported_with_ten_kills_are_in_the_files_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["import_archive", "--articles", "2000", "--kills", "10"])
    assert import_archive.main() == 0


def test_an_article_that_was_not_sent_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    send = queues.send_imports
    monkeypatch.setattr(sys, "argv", ["import_archive", "--articles", "300", "--kills", "0"])
    monkeypatch.setattr(queues, "send_imports", lambda events: send([event for event in events if event.id != "217"]))
    assert import_archive.main() == 1
    assert "missing: 1; too many: 0" in capsys.readouterr().err
