"""The guides to deploying and serving agree with the templates, and every `aws` command in the pages exists."""

import json
import re
import shlex
from typing import Any

import botocore.session
import jmespath
import pytest
from botocore import xform_name
from botocore.exceptions import UnknownServiceError
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import validate_parameters

from stoppress_cli.local.template import parse_yaml
from tests.deployment.test_deployment import ENVIRONMENTS, SOURCE
from tests.docs.pages import ROOT, commands, table_rows, text_of

pytestmark = pytest.mark.deployed

GUIDE, PARAMETERS = text_of("docs/how-to/deploy.md"), text_of("docs/reference/parameters.md")


def test_the_reference_has_each_parameter_in_the_order_in_which_sam_asks() -> None:
    # sam deploy --guided shows the names only.
    rows = table_rows(PARAMETERS, "| parameter | value |")

    assert [row[0].strip("`") for row in rows] == list(SOURCE["Parameters"])


def test_the_guide_answers_questions_in_the_order_in_which_sam_asks() -> None:
    answered = [name for row in table_rows(GUIDE, "| SAM asks | answer |") for name in re.findall(r"`(\w+)`", row[0])]

    assert answered == [name for name in SOURCE["Parameters"] if name in answered]


def test_the_guide_has_a_command_for_the_role_of_each_environment() -> None:
    template_of_role = parse_yaml(text_of(".github/deploy-role.yaml"))
    created = [shlex.split(line) for _, line, _ in commands("aws") if line.startswith("cloudformation create-stack")]
    stacks = [words[words.index("--stack-name") + 1] for words in created]
    choices = [dict(re.findall(r"ParameterKey=(\w+),ParameterValue=(\S+)", " ".join(words))) for words in created]

    assert len(set(stacks)) == len(stacks) == len(ENVIRONMENTS)
    assert {values.get("Environment", "production") for values in choices} == set(
        template_of_role["Parameters"]["Environment"]["AllowedValues"]
    )
    assert {values["StackName"] for values in choices} == {
        table["global"]["parameters"]["stack_name"] for table in ENVIRONMENTS.values()
    }
    # An account has one provider for GitHub, which the first stack creates.
    assert ["ProviderArn" in values for values in choices] == [False, *[True] * (len(choices) - 1)]
    for values in choices:
        for name, value in values.items():
            parameter = template_of_role["Parameters"][name]
            assert re.fullmatch(parameter.get("AllowedPattern", ".*"), value), f"{name}={value}"
            assert value in parameter.get("AllowedValues", [value]), f"{name}={value}"


@pytest.mark.parametrize(
    ("page", "line"), [(page, line) for page, line, _ in commands("sam") if "--parameter-overrides" in line]
)
def test_the_template_accepts_each_parameter_that_a_command_for_sam_sets(page: str, line: str) -> None:
    words = shlex.split(line)
    for word in words[words.index("--parameter-overrides") + 1 :]:
        name, _, value = word.partition("=")
        parameter = SOURCE["Parameters"][name]
        # SAM refuses a value without quotation marks if it is empty.
        assert value, f"{page}: {word}"
        value = value.strip('"')
        assert re.fullmatch(parameter.get("AllowedPattern", ".*"), value), f"{page}: {word}"
        assert value in map(str, parameter.get("AllowedValues", [value])), f"{page}: {word}"


# Options of the CLI itself, and the number of words that follow.
GLOBAL_OPTIONS = {"--endpoint-url": 1, "--region": 1, "--query": 1, "--output": 1, "--profile": 1, "--no-cli-pager": 0}
# Commands of the CLI itself, not operations of the service.
OF_THE_CLI = {("s3", "ls"), ("s3", "rm"), ("s3", "cp"), ("s3", "sync"), ("cloudformation", "deploy")}
SIMPLE = {"integer": int, "long": int, "float": float, "double": float}


def from_words(shape: Shape, words: list[str], where: str) -> Any:
    """Return the value of an option's words: JSON, a file, the short form for structures, or a scalar."""
    if len(words) == 1 and words[0].startswith("file://"):
        path = ROOT / words[0].removeprefix("file://")
        if path.name == "versions.json":  # written by the command above it
            return {"Objects": [{"Key": "www.example.com/sitemap.xml", "VersionId": "1"}]}
        text = path.read_text(encoding="utf-8")
        return text if shape.type_name == "string" else json.loads(text)
    if words and words[0][:1] in "{[" and shape.type_name != "string":
        return json.loads(words[0])
    match shape:
        case ListShape():
            return [from_words(shape.member, [word], where) for word in words]
        case StructureShape() | MapShape():
            pairs = (pair.partition("=")[::2] for pair in re.split(r",(?=\w+=)", words[0]))
            members = getattr(shape, "members", {})
            return {
                name: from_words(members[name], value.split(","), where) if name in members else value
                for name, value in pairs
            }
    assert len(words) == 1, f"{where}: {words} for one value"
    return SIMPLE.get(shape.type_name, str)(words[0])


def parameters_of(structure: StructureShape, words: list[str], where: str) -> dict[str, Any]:
    options = {f"--{xform_name(name, '-')}": name for name in structure.members}
    parameters: dict[str, Any] = {}
    while words:
        option = words.pop(0)
        values = []
        while words and not words[0].startswith("--"):
            values.append(words.pop(0))
        if option in GLOBAL_OPTIONS:
            assert len(values) == GLOBAL_OPTIONS[option], f"{where}: {option} {values}"
            if option == "--query":
                jmespath.compile(values[0])
            continue
        if option == "--no-paginate":  # the CLI's own paging
            continue
        if option not in options and f"--{option.removeprefix('--no-')}" in options:
            parameters[options[f"--{option.removeprefix('--no-')}"]] = False
            continue
        assert option in options, f"{where}: there is no {option}"
        shape = structure.members[options[option]]
        parameters[options[option]] = True if shape.type_name == "boolean" else from_words(shape, values, where)
    return parameters


# A sentence may mention an operation without its parameters.
@pytest.mark.parametrize(
    ("page", "line"), [(page, line) for page, line, in_sentence in commands("aws") if " --" in line]
)
def test_a_command_for_aws_exists(page: str, line: str) -> None:
    where = f"{page}: aws {line}"
    words = shlex.split(re.sub(r"<[a-z ]+>", "placeholder", line), comments=True)
    words = words[: words.index(">")] if ">" in words else words
    while words[0].startswith("--"):
        words = words[GLOBAL_OPTIONS[words[0]] + 1 :]
    service, operation, *rest = words
    if (service, operation) in OF_THE_CLI:
        return
    session = botocore.session.get_session()
    try:
        model = session.get_service_model("s3" if service == "s3api" else service)
    except UnknownServiceError:
        pytest.fail(f"{where}: there is no service {service}")
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in operations, f"{where}: {service} has no {operation}"

    shape = model.operation_model(operations[operation]).input_shape
    assert shape
    validate_parameters(parameters_of(shape, rest, where), shape)
