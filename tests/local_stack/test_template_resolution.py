import json
from pathlib import Path
from typing import Any

import pytest

from stoppress.model.http_request import Request
from stoppress_cli.local.resources import resolve
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import TemplateError, load
from tests.local_stack.toy import NOON, QUEUES, Toy

pytestmark = pytest.mark.moto

REAL = Path(__file__).parents[2] / "template.yaml"


def resolved(folder: Path, document: dict[str, Any], **parameters: str) -> dict[str, Any]:
    path = folder / "template.yaml"
    path.write_text(json.dumps(document))
    return {resource.logical: resource.properties for resource in resolve(load(path, parameters), "toy")}


def bus_template(value: Any, **more: Any) -> dict[str, Any]:
    return {**more, "Resources": {"Bus": {"Type": "AWS::Events::EventBus", "Properties": {"Name": value}}}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "Who"}, "cms"),
        ({"Fn::Sub": "${AWS::StackName}-${Who}"}, "toy-cms"),
        ({"Fn::Sub": ["${Who}/${What}", {"What": {"Ref": "AWS::Region"}}]}, "cms/eu-west-1"),
        ({"Fn::Join": ["-", ["a", {"Ref": "Who"}]]}, "a-cms"),
        ({"Fn::Join": ["+", {"Ref": "List"}]}, "cms+bus"),
        ({"Fn::If": ["IsCms", "yes", "no"]}, "yes"),
        ({"Fn::If": ["IsNotCms", "yes", "no"]}, "no"),
    ],
)
def test_intrinsic_functions_are_resolved(tmp_path: Path, value: Any, expected: str) -> None:
    equals = {"Fn::Equals": [{"Ref": "Who"}, "cms"]}
    conditions = {"IsCms": equals, "IsNotCms": {"Fn::Not": [{"Condition": "IsCms"}]}}
    parameters = {"Who": {"Type": "String", "Default": "cms"}, "List": {"Type": "CommaDelimitedList", "Default": "x"}}

    resources = resolved(tmp_path, bus_template(value, Parameters=parameters, Conditions=conditions), List="cms,bus")

    assert resources["Bus"]["Name"] == expected


def test_a_property_without_a_value_is_omitted_everywhere(tmp_path: Path) -> None:
    nothing = {"Fn::If": ["Never", "b", {"Ref": "AWS::NoValue"}]}
    document = bus_template("articles", Conditions={"Never": {"Fn::Equals": ["a", "b"]}})
    document["Resources"]["Bus"]["Properties"] |= {"Description": nothing, "Tags": ["a", nothing, "c"]}
    document["Resources"]["Bus"]["Properties"]["Policy"] = {"Ref": "AWS::NoValue"}

    assert resolved(tmp_path, document) == {"Bus": {"Name": "articles", "Tags": ["a", "c"]}}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            {"Resources": {"Mail": {"Type": "AWS::SES::Template"}}},
            ["Mail", "AWS::SES::Template", "resource_types.toml"],
        ),
        (bus_template({"Fn::Cidr": []}), ["Fn::Cidr"]),
        (bus_template({"Ref": "Nobody"}), ["Nobody"]),
        (bus_template({"Fn::GetAtt": ["Bus", "Colour"]}), ["Bus.Colour"]),
        (bus_template("x", Parameters={"Who": {"Type": "String"}}), ["Who", "no default"]),
    ],
)
def test_an_unsupported_resource_or_reference_is_rejected_by_name(
    tmp_path: Path, document: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(TemplateError) as error:
        resolved(tmp_path, document)

    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Resources:\n  A: [1,\n", "template.yaml is not YAML: while parsing a flow node .*line 3"),
        ("just text\n", "template.yaml is no template: give a file with Resources"),
        ("", "template.yaml is no template"),
    ],
)
def test_a_file_that_is_not_a_template_is_rejected_with_its_reason(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(text)

    with pytest.raises(TemplateError, match=message):
        load(path)


def test_an_unknown_parameter_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="no parameter Colour"):
        resolved(tmp_path, bus_template("x"), Colour="red")


def test_an_unsupported_property_is_rejected(toy: Toy) -> None:
    queues = {**QUEUES, "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True}}}
    toy.write({}, queues)

    with pytest.raises(TemplateError, match="FifoQueue"), toy.running():
        pass


def test_without_hubs_the_stack_has_nothing_that_only_hubs_need() -> None:
    with Stack(REAL, {"Hubs": "no"}, start=NOON) as stack:
        names = [name for name in stack.resources if "Push" in name or "Hub" in name or "WebSub" in name]
        answer = stack.request(Request(method="GET", path="/websub/www.example.com/feed/token"))

        assert names == []
        assert stack.variable("WEBSUB_URL") == ""
        assert (answer.status, answer.body) == (404, b'{"message": "Not Found"}')
