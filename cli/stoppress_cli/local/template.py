"""Reads template.yaml as CloudFormation does: SAM transform, parameters, conditions, intrinsic functions."""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
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
    """Return the ARN of a resource of the local stack."""
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"


class TemplateError(ValueError):
    """The template cannot run here; the text names the resource, what is wrong and what to do."""


@dataclass(frozen=True)
class Template:
    """A transformed template, intrinsic functions still in place.

    `code` maps the logical name of each function to its folder; `layers` are the folders of the layers.
    """

    resources: dict[str, Json]
    conditions: dict[str, Any]
    parameters: dict[str, str | list[str]]
    code: dict[str, Path]
    layers: tuple[Path, ...]


def find(given: Path | None) -> Path:
    """Return the template: the given one, else this checkout's, else the wheel's. Raises TemplateError."""
    if given is not None and not given.is_file():
        raise TemplateError(f"there is no template {given}")
    folders = Path(__file__).resolve().parents
    places = [folders[3] / "template.yaml", folders[1] / "deployment/template.yaml"]
    path = given or next((place for place in places if place.is_file()), None)
    if path is None:
        raise TemplateError("this installation has no template.yaml: install the wheel again, or give --template")
    return path


def parse_yaml(text: str) -> Any:
    """Return the document in a template's YAML; short forms such as !Ref become {"Ref": …}. Raises yaml.YAMLError."""
    import yaml
    from samtranslator.yaml_helper import intrinsics_multi_constructor

    # SAM's own parser takes PyYAML's loader in Python, which needs eight times as long as the one in C.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader.add_multi_constructor("!", intrinsics_multi_constructor)
    return yaml.load(text, loader)  # noqa: S506 - a safe loader


@functools.cache
def _read(path: Path, changed_ns: int) -> str:
    """Return the template as JSON text; `changed_ns` tells the cache that the file was edited. Raises TemplateError."""
    from yaml import YAMLError

    try:
        document = parse_yaml(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).replace('in "<unicode string>", ', "").split())
        raise TemplateError(f"{path} is not YAML: {problem}") from error
    if not isinstance(document, dict):
        raise TemplateError(f"{path} is no template: give a file with Resources")
    return json.dumps(document, default=str)


@functools.cache
def _transform(text: str) -> str:
    from samtranslator.parser.parser import Parser
    from samtranslator.public.exceptions import InvalidDocumentException
    from samtranslator.translator.translator import Translator

    session: Any = SimpleNamespace(region_name=REGION)  # instead of one with the user's settings
    try:
        return json.dumps(Translator({}, Parser(), boto_session=session).translate(json.loads(text), {}))
    except InvalidDocumentException as error:
        causes = "; ".join(str(cause.message) for cause in error.causes)
        raise TemplateError(f"the SAM transform refuses the template: {causes}") from error


def load(
    path: Path, parameters: Mapping[str, str] | None = None, defaults: Mapping[str, str] | None = None
) -> Template:
    """Read and transform the template at `path`.

    `parameters` override `defaults`, and `defaults` override the template's defaults. Names in `defaults` that the template lacks
    are ignored. Raises TemplateError for invalid SAM, a parameter without a value, or a name in `parameters` that the template lacks.
    """
    document: Json = json.loads(_read(path.resolve(), path.stat().st_mtime_ns))
    declared: Json = document.get("Parameters", {})
    given = dict(parameters or {})
    if unknown := sorted(set(given) - set(declared)):
        raise TemplateError(f"{path.name} has no parameter {unknown[0]}; it has {', '.join(sorted(declared))}")
    values: dict[str, str | list[str]] = {}
    for name, declaration in declared.items():
        value = given.get(name, (defaults or {}).get(name, declaration.get("Default")))
        if value is None:
            raise TemplateError(f"{path.name}: the parameter {name} has no default; give it a value")
        values[name] = str(value).split(",") if declaration.get("Type") == "CommaDelimitedList" else str(value)
    folders: dict[str, Path] = {}
    layers: list[Path] = []
    for name, resource in document.get("Resources", {}).items():
        code_property = _CODE_PROPERTY.get(resource.get("Type"))
        if code_property is None:
            continue
        folder = path.resolve().parent / str(resource["Properties"].get(code_property, "."))
        if resource["Type"] == "AWS::Serverless::Function":
            folders[name] = folder
        else:
            layers.append(folder)
        resource["Properties"][code_property] = _PLACEHOLDER
    transformed: Json = json.loads(_transform(json.dumps(document)))
    return Template(transformed.get("Resources", {}), transformed.get("Conditions", {}), values, folders, tuple(layers))


class Resolver:
    """Resolves intrinsic functions against parameters and the resources' names.

    `names` maps a logical name to the value of Ref, and to the values of Fn::GetAtt by attribute.
    """

    def __init__(self, template: Template, names: Mapping[str, tuple[str, Mapping[str, str]]], stack_name: str) -> None:
        self._template = template
        self._names = names
        self._pseudo: dict[str, str] = {
            "AWS::AccountId": ACCOUNT,
            "AWS::Region": REGION,
            "AWS::Partition": "aws",
            "AWS::StackName": stack_name,
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{stack_name}/local",
            "AWS::URLSuffix": "amazonaws.com",
        }

    def resolve(self, value: Any, local: Mapping[str, Any] | None = None) -> Any:
        """Replace every intrinsic function in `value`, and leave out properties that are AWS::NoValue."""
        local = local or {}
        if isinstance(value, list):
            return [resolved for part in value if (resolved := self.resolve(part, local)) is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        match [*value.items()]:
            case [("Ref", name)]:
                return self._ref(name)
            case [("Fn::GetAtt", name)]:
                return self._attribute(name if isinstance(name, str) else ".".join(name))
            case [("Fn::Sub", text)]:
                return self._sub(text, local)
            case [("Fn::Join", [separator, parts])]:
                return separator.join(str(part) for part in self.resolve(parts, local))
            case [("Fn::If", [condition, then, otherwise])]:
                return self.resolve(then if self.holds(condition) else otherwise, local)
            case [(name, _)] if name.startswith("Fn::"):
                raise TemplateError(f"the local stack does not know the intrinsic function {name}; add it to Resolver")
        resolved = {key: self.resolve(part, local) for key, part in value.items()}
        return {key: part for key, part in resolved.items() if part is not _NO_VALUE}

    def holds(self, condition: Any) -> bool:
        """Return True if a condition holds; it is a name or an expression."""
        if isinstance(condition, str):
            if condition not in self._template.conditions:
                raise TemplateError(f"the template has no condition {condition}")
            return self.holds(self._template.conditions[condition])
        name, argument = next(iter(condition.items()))
        match name:
            case "Fn::Equals":
                return bool(self.resolve(argument[0]) == self.resolve(argument[1]))
            case "Fn::Not":
                return not self.holds(argument[0])
            case "Condition":
                return self.holds(argument)
        raise TemplateError(f"the local stack does not know the condition function {name}; add it to Resolver")

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NO_VALUE
        if name in self._pseudo:
            return self._pseudo[name]
        if name in self._template.parameters:
            return self._template.parameters[name]
        if name in self._names:
            return self._names[name][0]
        raise TemplateError(f"Ref to {name}, which is neither a parameter nor a resource that runs here")

    def _attribute(self, path: str) -> str:
        name, attribute = path.split(".", 1)
        attributes = self._names.get(name, ("", {}))[1]
        if attribute not in attributes:
            raise TemplateError(f"Fn::GetAtt of {name}.{attribute}, which the local stack cannot give")
        return attributes[attribute]

    def _sub(self, value: Any, local: Mapping[str, Any]) -> str:
        text, more = (value, {}) if isinstance(value, str) else (value[0], value[1])
        local = {**local, **{key: self.resolve(part, local) for key, part in more.items()}}

        def replaced(match: re.Match[str]) -> str:
            name = match[1]
            if name in local:
                return str(local[name])
            return self._attribute(name) if "." in name else str(self._ref(name))

        return re.sub(r"\$\{([^}]+)\}", replaced, text)
