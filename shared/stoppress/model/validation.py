"""The base of all validated configuration: the class of its parts, common types, and errors that explain what to change."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from stoppress.primitives.text import did_you_mean, language_code, publication_name
from stoppress.primitives.urls import canonical


class Part(BaseModel):
    """A part of a configuration, in which unknown keys are errors."""

    # Saves cold-start time: pydantic builds the schema of a part only when the part is used alone.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def matching(pattern: str, advice: str) -> AfterValidator:
    """Return a validator of texts that must match a whole pattern. `advice` is the text of the error."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(advice)
        return text

    return AfterValidator(check)


def priority_text(value: object) -> str | None:
    """Return a priority from 0.0 to 1.0 in the format of sitemaps. None stays None. Raises ValueError."""
    if value is None:
        return None
    is_number = isinstance(value, int | float | str) and not isinstance(value, bool)
    if is_number and re.fullmatch(r"0(\.\d+)?|1(\.0+)?", str(value)):
        return f"{float(str(value)):.1f}"
    raise ValueError("give a number from 0.0 to 1.0")


def _publication(name: str) -> str:
    plain = publication_name(name)
    if not plain:
        raise ValueError("give the name of the publication as news.google.com shows it")
    return plain


def _language(language: str) -> str:
    code = language_code(language)
    if code is None:
        raise ValueError("give a language code such as en, fr, zh-tw")
    return code


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("give a name of the IANA time zone database, such as Europe/Paris") from None
    return name


def _web_url(url: str) -> str:
    canonical(url)
    return url


Publication: TypeAlias = Annotated[str, AfterValidator(_publication)]
Language: TypeAlias = Annotated[str, AfterValidator(_language)]
Zone: TypeAlias = Annotated[str, AfterValidator(_zone)]
WebUrl: TypeAlias = Annotated[str, AfterValidator(_web_url)]
Priority: TypeAlias = Annotated[str | None, BeforeValidator(priority_text, json_schema_input_type=float | str | None)]
# sitemaps.org: the values of changefreq.
ChangeFreq: TypeAlias = Literal["always", "hourly", "daily", "weekly", "monthly", "yearly", "never"]

# Pydantic's error types, with advice that explains what to change.
_FINDINGS = {
    "missing": "is missing: it has to be given",
    "string_type": "give it as text, in quotation marks",
    "string_too_short": "is empty: give it",
    "string_too_long": "give at most {max_length} characters",
    "bool_type": "give true or false, without quotation marks",
    "bool_parsing": "give true or false, without quotation marks",
    "int_type": "give a whole number, without quotation marks",
    "int_parsing": "give a whole number, without quotation marks",
    "int_from_float": "give a whole number, without a fraction",
    "float_type": "give a number, without quotation marks",
    "greater_than": "give a number that is more than {gt}",
    "greater_than_equal": "give a number that is {ge} or more",
    "less_than_equal": "give a number that is {le} or less",
    "string_pattern_mismatch": "is not of the form {pattern}",
    "literal_error": "give one of these: {expected}",
    "too_short": "give at least {min_length} of them",
    "too_long": "give at most {max_length} of them",
    "tuple_type": "give a list, in square brackets",
    "dict_type": "give an object, in curly brackets",
    "model_type": "give an object, in curly brackets",
    "extra_forbidden": "is not known here: correct its name, or take it out",
    "unexpected_keyword_argument": "is not known here: correct its name, or take it out",
}


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return pydantic's errors, a line for each: the place, and what to change. `model`: as in `explain_each`."""
    return "\n".join(
        f"{'.'.join(map(str, place)) or 'the document'}: {reason}" for place, _, reason in explain_each(error, model)
    )


def explain_each(
    error: ValidationError, model: type[BaseModel] | None = None
) -> list[tuple[tuple[int | str, ...], object, str]]:
    """Return pydantic's errors: the place, the value there (None where it is missing), and what to change.

    `model` is the validated class. With it, an unknown key gets a suggestion.
    """
    return [
        (finding["loc"], None if finding["type"] == "missing" else finding["input"], _advice(finding, model))
        for finding in error.errors(include_url=False)
    ]


def _advice(finding: ErrorDetails, model: type[BaseModel] | None) -> str:
    advice = _FINDINGS.get(finding["type"])
    if model and finding["type"] == "extra_forbidden":
        return f"{advice}{did_you_mean(str(finding['loc'][-1]), _keys_at(model, finding['loc'][:-1]))}"
    return advice.format(**finding.get("ctx", {})) if advice else finding["msg"].removeprefix("Value error, ")


def _keys_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the keys that an object at a place of a model may have. Items of lists and dictionaries have the keys of their type."""
    models = [model]
    for step in place:
        inner = [part for outer in models for part in _models_in(_keys(outer).get(str(step)))]
        models = inner or models
    return [key for part in models for key in _keys(part)]


def _keys(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
