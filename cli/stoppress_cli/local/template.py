"""Reads template.yaml as CloudFormation does: SAM transform, parameters, conditions, intrinsic functions."""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ACCOUNT = "123456789012"  # moto's account
REGION = "eu-west-1"
STACK_NAME = "stoppress"
# Parts that a deployed stack leaves out by default. The local stack has them: they cost nothing, and scenarios may need them.
WITH_ALL = {"Engines": "yes", "Hubs": "yes", "Listing": "yes", "StatusPage": "yes"}

# The SAM transform requires code in S3; `load` keeps the folders beside the template.
_PLACEHOLDER = "s3://local/code"
_CODE_PROPERTY = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}

Json = dict[str, Any]

_NO_VALUE = object()  # the value of AWS::NoValue: the property is left out


def arn_of(service: str, rest: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"


class TemplateError(ValueError):
    """The template cannot run here; the text contains the resource, what is wrong and what to do."""


@dataclass(frozen=True)
class Template:
    """A transformed template, intrinsic functions still in place.

    `code` maps the logical name of each function to its folder. The code of layers is this installation's.
    """

    resources: dict[str, Json]
    conditions: dict[str, Any]
    parameters: dict[str, str | list[str]]
    code: dict[str, Path]


def find(path: Path | None) -> Path:
    """Return `path`, or else this checkout's template, or the wheel's. Raises TemplateError."""
    if path is not None and not path.is_file():
        raise TemplateError(f"there is no template {path}")
    folders = Path(__file__).resolve().parents
    places = [folders[3] / "template.yaml", folders[1] / "deployment/template.yaml"]
    path = path or next((place for place in places if place.is_file()), None)
    if path is None:
        raise TemplateError("this installation has no template.yaml: install the wheel again, or give --template")
    return path


def parse_yaml(text: str) -> Any:
    """Return the document in a template's YAML; short forms such as !Ref become {"Ref": …}. Raises yaml.YAMLError."""
    import yaml
    from samtranslator.yaml_helper import intrinsics_multi_constructor

    # SAM's own parser uses PyYAML's loader in Python, which takes eight times as long as the loader in C.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader.add_multi_constructor("!", intrinsics_multi_constructor)
    return yaml.load(text, loader)  # noqa: S506 - a safe loader


@functools.cache
def _read(path: Path, changed_ns: int) -> tuple[Json, Template]:
    """Return the declared parameters and the transformed template, without values of parameters.

    `changed_ns` makes the cache notice that the file was edited. Raises TemplateError.
    """
    from yaml import YAMLError

    try:
        document = parse_yaml(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).replace('in "<unicode string>", ', "").split())
        raise TemplateError(f"{path} is not YAML: {problem}") from error
    if not isinstance(document, dict):
        raise TemplateError(f"{path} is no template: give a file with Resources")
    document = json.loads(json.dumps(document, default=str))  # YAML has dates
    folders: dict[str, Path] = {}
    for name, resource in document.get("Resources", {}).items():
        if code_property := _CODE_PROPERTY.get(resource.get("Type")):
            folder = path.parent / str(resource["Properties"].get(code_property, "."))
            resource["Properties"][code_property] = _PLACEHOLDER
            if resource["Type"] == "AWS::Serverless::Function":
                folders[name] = folder
    declared: Json = document.get("Parameters", {})
    transformed = _transform(document)
    return declared, Template(transformed.get("Resources", {}), transformed.get("Conditions", {}), {}, folders)


def _transform(document: Json) -> Json:
    from samtranslator.parser.parser import Parser
    from samtranslator.public.exceptions import InvalidDocumentException
    from samtranslator.translator.translator import Translator

    session: Any = SimpleNamespace(region_name=REGION)  # instead of one with the user's settings
    try:
        translated = Translator({}, Parser(), boto_session=session).translate(document, {})
    except InvalidDocumentException as error:
        causes = "; ".join(str(cause.message) for cause in error.causes)
        raise TemplateError(f"the SAM transform refuses the template: {causes}") from error
    transformed: Json = json.loads(json.dumps(translated))
    return transformed


def load(
    path: Path, parameters: Mapping[str, str] | None = None, defaults: Mapping[str, str] | None = None
) -> Template:
    """Read and transform the template at `path`.

    `parameters` override `defaults`, and `defaults` override the template's defaults. Names in `defaults` that the template lacks
    are ignored. Raises TemplateError for invalid SAM, a parameter without a value, or a name in `parameters` that the template lacks.
    """
    declared, template = _read(path.resolve(), path.stat().st_mtime_ns)
    overrides = dict(parameters or {})
    if unknown := sorted(set(overrides) - set(declared)):
        raise TemplateError(f"{path.name} has no parameter {unknown[0]}; it has {', '.join(sorted(declared))}")
    values: dict[str, str | list[str]] = {}
    for name, declaration in declared.items():
        value = overrides.get(name, (defaults or {}).get(name, declaration.get("Default")))
        if value is None:
            raise TemplateError(f"{path.name}: the parameter {name} has no default; give it a value")
        values[name] = str(value).split(",") if declaration.get("Type") == "CommaDelimitedList" else str(value)
    return replace(template, parameters=values)


class Resolver:
    """Resolves intrinsic functions against parameters and the resources' names.

    `names` maps a logical name to the value of Ref, and to the values of Fn::GetAtt by attribute.
    """

    def __init__(self, template: Template, names: Mapping[str, tuple[str, Mapping[str, str]]], stack_name: str) -> None:
        self._conditions = template.conditions
        # Values of Ref, and of Fn::GetAtt by `<name>.<attribute>`.
        self._values: dict[str, Any] = {
            **{name: ref for name, (ref, _) in names.items()},
            **{f"{name}.{key}": value for name, (_, attributes) in names.items() for key, value in attributes.items()},
            **template.parameters,
            "AWS::AccountId": ACCOUNT,
            "AWS::NoValue": _NO_VALUE,
            "AWS::Region": REGION,
            "AWS::Partition": "aws",
            "AWS::StackName": stack_name,
            "AWS::URLSuffix": "amazonaws.com",
        }

    def resolve(self, value: Any) -> Any:
        """Replace every intrinsic function in `value`, and leave out properties that are AWS::NoValue."""
        if isinstance(value, list):
            return [resolved for part in value if (resolved := self.resolve(part)) is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        match [*value.items()]:
            case [("Ref", name)]:
                return self._value(name)
            case [("Fn::GetAtt", name)]:
                return self._value(name if isinstance(name, str) else ".".join(name))
            case [("Fn::Sub", [text, variables])]:
                return self._fill_in(text, self.resolve(variables))
            case [("Fn::Sub", text)]:
                return self._fill_in(text, {})
            case [("Fn::Join", [separator, parts])]:
                return separator.join(str(part) for part in self.resolve(parts))
            case [("Fn::If", [condition, then, otherwise])]:
                return self.resolve(then if self.holds(condition) else otherwise)
            case [(name, _)] if name.startswith("Fn::"):
                raise TemplateError(f"the local stack lacks the intrinsic function {name}; add it to Resolver")
        resolved = {key: self.resolve(part) for key, part in value.items()}
        return {key: part for key, part in resolved.items() if part is not _NO_VALUE}

    def holds(self, condition: Any) -> bool:
        """Return True if a condition holds; it is a name or an expression."""
        if isinstance(condition, str):
            if condition not in self._conditions:
                raise TemplateError(f"the template has no condition {condition}")
            return self.holds(self._conditions[condition])
        name, argument = next(iter(condition.items()))
        match name:
            case "Fn::Equals":
                return bool(self.resolve(argument[0]) == self.resolve(argument[1]))
            case "Fn::Not":
                return not self.holds(argument[0])
            case "Condition":
                return self.holds(argument)
        raise TemplateError(f"the local stack lacks the condition function {name}; add it to Resolver")

    def _value(self, name: str) -> Any:
        if name not in self._values:
            raise TemplateError(f"the template refers to {name}, which is no parameter and nothing that runs here")
        return self._values[name]

    def _fill_in(self, text: str, variables: Mapping[str, Any]) -> str:
        """Replace each ${name} in a text."""
        return re.sub(
            r"\$\{([^}]+)\}",
            lambda name: str(variables[name[1]] if name[1] in variables else self._value(name[1])),
            text,
        )
