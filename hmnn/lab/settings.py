"""Fields of a Config from words, checked against their types: `--set epochs=20`."""

import math
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hmnn import _check

WORDS = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a word"}


def override(config: Any, texts: list[str]) -> Any:
    """The config with each "field=value" put in; unknown fields and wrong types are refused."""
    types, values = get_type_hints(type(config)), dict[str, Any]()
    for text in texts:
        field, sign, value = text.partition("=")
        if not sign:
            raise _check.fail("--set", "field=value", text)
        if field in values:
            raise ValueError(f"--set must name each field once. Got {field!r} twice.")
        check_fields("--set", [field], config)
        values[field] = _parse(field, types[field], value)
    return replace(config, **values)


def words(values: dict[str, Any]) -> list[str]:
    """Values as `override` reads them."""
    return [f"{field}={_word(value)}" for field, value in values.items()]


def check_fields(name: str, fields: Any, config: Any) -> None:
    """Refuse a name that is no field of the config."""
    known = list(get_type_hints(type(config)))
    for field in fields:
        if field not in known:
            listed = ", ".join(known)
            raise ValueError(f"{name} has an unknown field {field!r}. The fields are {listed}.")


def _parse(field: str, kind: Any, text: str) -> Any:
    if get_origin(kind) in (Union, UnionType):
        if NoneType in get_args(kind) and text.lower() == "none":
            return None
        (kind, *others) = [k for k in get_args(kind) if k is not NoneType]
        for other in others:
            try:
                return _parse(field, other, text)
            except ValueError:
                continue
    if get_origin(kind) is tuple:
        return _tuple(field, get_args(kind), text)
    try:
        return _scalar(kind, text)
    except (ValueError, KeyError):
        allowed = WORDS.get(kind, "set in the code, not on the command line")
        raise _check.fail(field, allowed, text) from None


def _scalar(kind: Any, text: str) -> Any:
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if kind not in WORDS:
        raise ValueError(kind)
    value = kind(text)
    if kind is float and not math.isfinite(value):
        raise ValueError(text)
    return value


def _tuple(field: str, kinds: tuple[Any, ...], text: str) -> tuple[Any, ...]:
    items = [item.strip() for item in text.strip("()[]").split(",") if item.strip()]
    if kinds[-1:] == (...,):
        kinds = kinds[:1] * len(items)
    if len(items) != len(kinds):
        raise _check.fail(field, f"{len(kinds)} values with commas between them", text)
    return tuple(_parse(field, kind, item) for kind, item in zip(kinds, items, strict=True))


def _word(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(_word(item) for item in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
