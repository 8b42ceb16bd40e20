"""ReadersPolicy and OperatorsPolicy, the outputs of the template: the commands that they allow, on a local stack."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main
from botocore.client import BaseClient
from typer.testing import CliRunner

from stoppress_cli.app import app
from stoppress_cli.commands import forget, quarantine
from stoppress_cli.local import resources
from stoppress_cli.local.guard import denied
from stoppress_cli.local.permissions import Ask, Statement, allowed, statements
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION, arn_of, parse_yaml
from stoppress_cli.options import READS, WRITES
from tests.cli.test_commands_as_typed import command_of, commands
from tests.support.event_files import items, objects
from tests.support.operated import HOST, SITE, copy_table, event, later, on_the_bus, operated, pretend_deployed, url
from tests.support.playing import TEMPLATE

pytestmark = pytest.mark.moto

NEW = "www.example.org"
# Nobody can apply it.
BAD = on_the_bus(id="7", url=url("flood"), version="x")
# It can be applied once its site is there.
EARLY = on_the_bus(site=NEW, id="8", url=f"https://{NEW}/a", title="A", published_at="2026-11-20T12:00:00Z")

# By command: the arguments, and the exit code with both policies.
READING = {
    "status": ([], 1),
    "compare": (["old.xml", "--site", HOST], 0),
    "doctor": ([HOST, "--connect", "127.0.0.1:1"], 1),
    "explain": ([url("flood")], 0),
    "tail": (["--seconds", "0"], 0),
    "sites robots": ([HOST], 0),
    "sites files": ([HOST], 0),
    "crawlers": (["site.json", "--site", HOST], 0),
    "feeds show": ([], 0),
    "quarantine list": ([], 1),
    "quarantine show": (["ID"], 0),
    "sites list": ([], 0),
    "sites show": ([HOST], 0),
    "sites history": ([HOST], 0),
    "sites check": (["site.json"], 1),
    "sites page": ([HOST], 0),
}
# In this order on one stack: later commands need what earlier ones leave.
WRITING = {
    "rebuild": ([], 0),
    "reconcile": ([], 0),
    "redrive": ([], 0),
    "import": (["old.xml", "--site", HOST], 0),
    "sites put": (["site.json", "--yes"], 0),
    "sites rollback": ([NEW, "1", "--yes"], 0),
    "quarantine retry": (["--all"], 1),
    "quarantine drop": (["--all", "--yes"], 0),
    "secrets put": ([NEW, "cms"], 0),
    "secrets rotate": ([NEW, "cms"], 0),
    "send": ([HOST, "cms", "--api", "http://127.0.0.1:9"], 2),  # AWS is called first, and the port refuses connections
    "forget": ([url("flood"), "--yes"], 0),
    "sites remove": ([NEW, "--delete-files", "--yes"], 0),
    "restore": (["stoppress-Restored", "--yes"], 0),
}


def document(stack: Stack, output: str) -> str:
    """Return a policy document from the stack's outputs."""
    text = parse_yaml(TEMPLATE.read_text())["Outputs"][output]["Value"]["Fn::Sub"]
    names = {
        "AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::StackName": stack.name,
    }  # fmt: skip
    names |= {f"{name}.Arn": resource.arn for name, resource in stack.resources.items()}
    for name, value in names.items():
        text = text.replace(f"${{{name}}}", value)
    return str(text)


class Person:
    """Types commands with the permissions of some policies only."""

    def __init__(self, stack: Stack, folder: Path, policies: list[Statement]) -> None:
        self.stack, self.folder, self.policies = stack, folder, policies
        self.refused: list[str] = []
        self.is_acting = False

    def __call__(self, words: str, arguments: list[str]) -> Any:
        files = {name: str(self.folder / name) for name in ("site.json", "old.xml")}
        values = {**files, "ID": quarantined_id(self.stack)}
        self.is_acting = True
        try:
            return CliRunner().invoke(
                app, [*words.split(), *(values.get(word, word) for word in arguments), "--stack", self.stack.name]
            )
        finally:
            self.is_acting = False

    def check(self, service: str, operation: str, params: Mapping[str, Any]) -> None:
        """Raise ClientError if no policy allows the call."""
        if not self.is_acting:
            return
        for ask in self.stack.wire.guard.asks(service, operation, dict(params)):
            if not allowed(ask, self.policies):
                self.refused.append(str(ask))
                raise denied(service, operation, f"not authorized to perform: {ask}")

    def sleep(self, _: float) -> None:
        """Let a minute pass for the functions, which have their own permissions."""
        self.is_acting = False
        later(self.stack, 1)
        self.is_acting = True


def quarantined_id(stack: Stack) -> str:
    return next((item.id for item in quarantine.find_events()), "none")


@contextmanager
def acting(folder: Path, patch: pytest.MonkeyPatch, *outputs: str) -> Iterator[Person]:
    """Yield a person with these policies, on a stack with a site, an article, and two quarantined events."""
    pretend_deployed(patch)
    patch.setenv("PAGES_URL", "https://pages.example.com/sites")
    site = {**SITE, "host": NEW, "sources": {"cms": {"secret": "newsroom"}, "bus": {}}}
    (folder / "site.json").write_text(json.dumps(site))
    (folder / "old.xml").write_text(f"<urlset><url><loc>{url('flood')}</loc></url></urlset>")
    patch.chdir(folder)
    with operated([event(1, "1", "flood"), BAD, EARLY], folder, versioned=True) as stack:
        later(stack, 2)
        policies = [statement for name in outputs for statement in statements(json.loads(document(stack, name)))]
        person = Person(stack, folder, policies)
        call = BaseClient._make_api_call  # type: ignore[attr-defined]

        def checked(client: BaseClient, operation: str, params: Any) -> Any:
            person.check(client.meta.service_model.service_name, operation, params)
            return call(client, operation, params)

        patch.setattr(BaseClient, "_make_api_call", checked)
        patch.setitem(forget.erase.__kwdefaults__ or {}, "pause", person.sleep)
        yield person


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    with acting(tmp_path, monkeypatch, "ReadersPolicy") as person:
        yield person


def test_every_command_on_a_stack_is_tested() -> None:
    root: Any = typer.main.get_command(app)
    by_words = {words: command_of(root, words) for words in commands(root)}
    effects = {words: case.effect for words, case in by_words.items() if "--stack" in getattr(case, "example", "")}

    assert effects == dict.fromkeys(READING, READS) | dict.fromkeys(WRITING, WRITES)


def test_a_reader_may_run_each_command_that_reads(reader: Person) -> None:
    for words, (arguments, code) in READING.items():
        done = reader(words, arguments)
        assert (words, done.exit_code, reader.refused) == (words, code, []), done.output


def test_a_reader_may_run_no_command_that_writes(reader: Person) -> None:
    copy_table(reader.stack, "stoppress-Restored")
    document = (reader.folder / "site.json").read_text()
    site = json.loads(document)
    reader.stack.put_site(NEW, document)
    reader.stack.put_site(NEW, json.dumps(site | {"publication": "Second"}))
    later(reader.stack, 1)
    before = items(reader.stack), objects(reader.stack)
    # `sites put` must differ from what is there.
    (reader.folder / "site.json").write_text(json.dumps(site | {"publication": "Another"}))
    for words, (arguments, _) in WRITING.items():
        reader.refused.clear()
        done = reader(words, arguments)
        assert (words, done.exit_code, len(reader.refused)) == (words, 2, 1), done.output
    assert (items(reader.stack), objects(reader.stack)) == before


def test_an_operator_may_run_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with acting(tmp_path, monkeypatch, "ReadersPolicy", "OperatorsPolicy") as operator:
        copy_table(operator.stack, "stoppress-Restored")
        for words, (arguments, code) in WRITING.items():
            done = operator(words, arguments)
            assert (words, done.exit_code, operator.refused) == (words, code, []), done.output


@pytest.mark.parametrize("output", ["ReadersPolicy", "OperatorsPolicy"])
def test_a_policy_reaches_this_stack_alone_and_no_function(output: str, reader: Person) -> None:
    text = document(reader.stack, output)
    policy = statements(json.loads(text))

    assert len(text) < 6_144  # IAM quotas: characters of a managed policy
    other = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{reader.stack.name}-staging/x"
    assert not allowed(Ask("cloudformation:DescribeStacks", other), policy)
    own = Ask("cloudformation:DescribeStacks", other.replace("-staging", ""))
    assert allowed(own, policy) == (output == "ReadersPolicy")
    for service, rest in (("dynamodb", "table/other-Table"), ("sqs", "other-Failures")):
        for action in ("GetItem", "PutItem", "Scan", "SendMessage", "GetQueueAttributes"):
            assert not allowed(Ask(f"{service}:{action}", arn_of(service, rest)), policy)
    functions = resources.of_type(reader.stack.resources.values(), "AWS::Lambda::Function")
    assert not any(allowed(Ask("lambda:InvokeFunction", function.arn), policy) for function in functions)
