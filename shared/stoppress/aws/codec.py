"""Turn dataclasses into items of the table and back, by the types of their fields.

A field at its default is left out. Tuples become lists. Instants become text, without a fraction if they are whole seconds. A
dataclass within another one becomes the list of its values, because names count towards an item's size. The table counts `rev`, so
it is only read.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
# None: the table takes the value as it is.
_Convert: TypeAlias = Callable[[Any], Any] | None


class _Form(NamedTuple):
    default: Any
    write: _Convert
    read: _Convert


def to_item(value: Any, key: tuple[str, str], *, without: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return the item of a dataclass under a key; `without`: fields that the key already contains."""
    item = {"pk": key[0], "sk": key[1], **more}
    for name, (default, write, _) in _forms(value.__class__).items():
        part = getattr(value, name)
        # Comparing with None by identity spares a nested dataclass a slow comparison.
        if part is not default and (default is None or part != default):
            item[name] = write(part) if write else part
    for name in (*without, "rev"):
        item.pop(name, None)
    return item


def from_item(kind: Callable[..., T], item: Mapping[str, Any], **key_fields: Any) -> T:
    """Return the dataclass in an item. `key_fields` are those that the item lacks, because its key has them."""
    forms = _forms(kind)
    values = {
        name: form.read(value) if form.read else value for name, value in item.items() if (form := forms.get(name))
    }
    return kind(**values | key_fields)


@cache
def _forms(kind: Any) -> dict[str, _Form]:
    hints = get_type_hints(kind)
    forms = {}
    for field in fields(kind):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        forms[field.name] = _Form(default, *_converters(hints[field.name]))
    return forms


def _converters(hint: Any) -> tuple[_Convert, _Convert]:
    """Return how values of a type are written and read."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if isinstance(hint, UnionType) else [hint]
    kind, of = get_origin(kinds[0]) or kinds[0], get_args(kinds[0])
    if kind is datetime:
        return _write_instant, datetime.fromisoformat
    if is_dataclass(kind):
        return _values, lambda values: _from_values(kind, values)
    if kind is tuple:
        write, read = _converters(of[0])
        return _convert_parts(list, write), _convert_parts(tuple, read)
    if kind is Mapping:
        write, read = _converters(of[1])
        return _convert_values(write), _convert_values(read)
    return None, None


def to_attribute(value: Any) -> dict[str, Any]:
    """Return a value as a DynamoDB attribute, `{"S": "text"}` for example. Raises TypeError for a type that no item has."""
    if value is None or isinstance(value, bool):
        return {"NULL": True} if value is None else {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, int | Decimal):
        return {"N": str(value)}
    if isinstance(value, list):
        return {"L": [to_attribute(part) for part in value]}
    if isinstance(value, dict):
        return {"M": {name: to_attribute(part) for name, part in value.items()}}
    raise TypeError(f"{type(value).__name__} is no type of an attribute")


def from_attribute(attribute: Mapping[str, Any]) -> Any:
    """Return the value of a DynamoDB attribute. A fraction, which only a newer version may have written, becomes a Decimal."""
    [(kind, value)] = attribute.items()
    if kind == "N":
        return Decimal(value) if "." in value or "E" in value else int(value)
    if kind == "L":
        return [from_attribute(part) for part in value]
    if kind == "M":
        return {name: from_attribute(part) for name, part in value.items()}
    return None if kind == "NULL" else value


def _write_instant(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat() + "Z"


def _convert_parts(kind: type, convert: _Convert) -> _Convert:
    return (lambda parts: kind(map(convert, parts))) if convert else kind


def _convert_values(convert: _Convert) -> _Convert:
    return (lambda values: {name: convert(value) for name, value in values.items()}) if convert else dict


def _values(value: Any) -> list[Any]:
    parts = ((form.write, getattr(value, name)) for name, form in _forms(value.__class__).items())
    return [part if part is None or write is None else write(part) for write, part in parts]


def _from_values(kind: Any, values: list[Any]) -> Any:
    forms = zip(_forms(kind).items(), values, strict=False)  # the next version may add fields
    return kind(
        **{name: value if value is None or form.read is None else form.read(value) for (name, form), value in forms}
    )
