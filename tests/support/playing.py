"""Play scenarios in this process, as `stoppress play` does, and return the results for a test."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario import file, player
from stoppress_cli.scenario.file import Line
from tests.simulation.stack import StackOnDoubles
from tests.support import saved_files

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
SCENARIOS = Path(__file__).parents[1] / "scenarios"
GENERATED = SCENARIOS / "made-by-a-test.jsonl"  # there is no such file
END = "end"  # the save that is made when a scenario is over

Step = Mapping[str, Any]


@dataclass
class Played:
    """The result of a scenario: printed messages, failures, saves in their order, and waiting messages."""

    out: Path
    messages: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    saves: dict[str, datetime] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)  # messages by queue
    refused: list[str] = field(default_factory=list)  # calls that a function's role does not allow
    metrics: Mapping[str, float] = field(default_factory=dict)

    def files(self, save: str) -> dict[str, bytes]:
        """Return the files of a save by `<host>/<file>`."""
        folder = self.out / save
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def findings(self, moved: Sequence[str] = (), ignored: Sequence[str] = ()) -> list[str]:
        """Return the faults of each save, alone and compared with the save before. URLs in `moved` may change file or date.

        `ignored` are rules of the checker that the site breaks on purpose.
        """
        faults = []
        before: dict[str, Path] = {}
        for save, at in self.saves.items():
            faults += [f"{save}: {broken}" for broken in saved_files.broken_rules(self.out / save, at, ignored)]
            for folder in sorted(path for path in (self.out / save).iterdir() if path.is_dir()):
                if folder.name in before:
                    faults += [f"{save}: {fault}" for fault in saved_files.changes(before[folder.name], folder, moved)]
                before[folder.name] = folder
        return faults


def read(path: Path) -> list[Line]:
    return file.read(path)


def written(steps: Iterable[Step], path: Path = GENERATED) -> list[Line]:
    """Return the lines of a test's own scenario; files of feeds are read beside `path`."""
    return file.parse([json.dumps(step) for step in steps], path)


def play(
    lines: Sequence[Line],
    out: Path,
    *,
    path: Path = GENERATED,
    template: Path = TEMPLATE,
    kind: type[Stack] = StackOnDoubles,
    watch: Callable[[Stack], None] = lambda _stack: None,
) -> Played:
    """Play the lines on a new stack and save the files at the end; `watch` gets the stack before it closes.

    `kind` is `Stack` to use moto for AWS. `path` is the scenario's file: messages name it, and feeds' files are beside it.
    """
    played = Played(out)
    if END not in (line.step.save for line in lines if line.kind == "save"):
        step = file.SaveStep(save=END, at=lines[-1].at)
        lines = [*lines, Line(len(lines) + 1, "save", lines[-1].at, step)]
    with (
        kind(template, start=lines[0].at) as stack,
        player.playing(stack, path, out, lambda _line, text: played.messages.append(text)) as opened,
    ):
        played.failures = opened.play(list(lines))
        played.saves = {line.step.save: line.at for line in lines if line.kind == "save"}
        played.waiting = stack.waiting_messages()
        played.refused = stack.wire.guard.refused
        played.metrics = dict(stack.metrics)
        watch(stack)
    return played
