"""Lambda functions in this process: each is loaded from its app.py, and called with its own environment."""

import importlib.util
import io
import itertools
import json
import sys
import traceback
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from stoppress_cli.local.process import environment
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import REGION, TemplateError, arn_of

_loaded = itertools.count()
_NO_METRIC = {"_aws", "message", "service"}


class Output(io.TextIOBase):
    """Replaces standard output while functions run: sums the metrics in their lines (`stoppress.aws.metrics`), and copies lines to a log.

    A process has one instance, because a logger keeps its first stream. `write_to` sets the log.
    """

    def __init__(self) -> None:
        self.metrics: Counter[str] = Counter()
        self._log: TextIO | None = None
        self._line = ""

    @contextmanager
    def write_to(self, log: TextIO | None) -> Iterator["Counter[str]"]:
        """Send lines to `log` and sum metrics into the yielded counter while the block runs."""
        before = self.metrics, self._log
        self.metrics, self._log = Counter(), log
        try:
            yield self.metrics
        finally:
            self.metrics, self._log = before

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if self._log is not None:
                self._log.write(line + "\n")
            if line.startswith('{"message": "counts"'):
                for name, value in json.loads(line).items():
                    if name not in _NO_METRIC:
                        self.metrics[name] += sum(value) if isinstance(value, list) else value
        return len(text)


OUTPUT = Output()


@dataclass(frozen=True)
class Context:
    """The context that Lambda passes beside the event. Time never runs out, so a slow machine does not change a run."""

    function_name: str
    memory_limit_in_mb: int
    timeout_s: int
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def invoked_function_arn(self) -> str:
        return arn_of("lambda", f"function:{self.function_name}")

    def get_remaining_time_in_millis(self) -> int:
        """Return the whole time-out, always."""
        return self.timeout_s * 1000


@dataclass(frozen=True)
class Result:
    """The result of an invocation: a payload, or an error as Lambda reports it."""

    payload: Any = None
    error: dict[str, Any] | None = None


class Function:
    """A function of the template. Its module is loaded at the first call, as by a cold start."""

    def __init__(self, resource: Resource, folder: Path) -> None:
        properties = resource.properties
        self.name = resource.ref
        self.logical = resource.logical
        self.arn = resource.arn
        self.folder = folder
        self.timeout_s = int(properties.get("Timeout", 3))
        self.memory_mib = int(properties.get("MemorySize", 128))
        variables = properties.get("Environment", {}).get("Variables", {})
        self.variables = {name: str(value) for name, value in variables.items()}
        self.invocations = 0
        self.errors = 0
        module, _, self._attribute = str(properties["Handler"]).rpartition(".")
        self._path = folder / (module.replace(".", "/") + ".py")
        self._module: ModuleType | None = None

    def variables_set(self) -> dict[str, str]:
        """Return the variables of the template and those that Lambda itself sets."""
        return self.variables | {
            "AWS_LAMBDA_FUNCTION_NAME": self.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.memory_mib),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }

    def invoke(self, event: Any) -> Result:
        """Call the handler with a JSON copy of `event`. The result has the handler's error, if any."""
        context = Context(self.name, self.memory_mib, self.timeout_s)
        self.invocations += 1
        with environment(self.variables_set()), redirect_stdout(OUTPUT):
            try:
                handler = getattr(self._load(), self._attribute)
                payload = json.loads(json.dumps(handler(json.loads(json.dumps(event)), context)))
                return Result(payload)
            except TemplateError:
                raise
            except Exception as error:  # noqa: BLE001 - Lambda reports whatever a function raises
                self.errors += 1
                report = {
                    "errorMessage": str(error),
                    "errorType": type(error).__name__,
                    "stackTrace": traceback.format_exception(error),
                }
                OUTPUT.write(json.dumps({"function": self.name, "requestId": context.aws_request_id, **report}) + "\n")
                return Result(error=report)

    def _load(self) -> ModuleType:
        if self._module is None:
            if not self._path.is_file():
                raise TemplateError(f"{self.logical}: there is no {self._path}, which is its code in the template")
            # All handlers are called app.py, so each module gets its own name.
            name = f"stoppress_function_{self.folder.name}_{next(_loaded)}"
            spec = importlib.util.spec_from_file_location(name, self._path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            self._module = module
        return self._module
