"""Checks of dataclass fields against their annotations: types, choices and ranges are stated once, where the field is.

@dataclass(frozen=True)
class Settings:
    port: Annotated[int, Range(0, 65535)] = 8000
    timeout: Annotated[float, Range(above=0)] | None = None
    log_format: Literal["text", "json"] = "text"

    def __post_init__(self) -> None:
        check_fields(self)  # Settings(port=-1) raises "port is -1: give a whole number from 0 to 65535"

Types other than bool, int, float, str, None and Literal are not checked. Annotations must be importable at run time.
"""

from __future__ import annotations

import ast
import difflib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from lorentzrec.errors import ConfigError


@dataclass(frozen=True)
class Range:
    """Numbers from `least` (or `above`, exclusive) to `most`; goes into `Annotated`."""

    least: float | None = None
    most: float = math.inf
    above: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and value <= self.most
        )

    def __str__(self) -> str:
        if self.above is not None:
            return f"above {self.above}" + (f" and at most {self.most}" if self.most < math.inf else "")
        if self.least is None:
            return f"of at most {self.most}" if self.most < math.inf else ""
        return f"from {self.least} to {self.most}" if self.most < math.inf else f"of at least {self.least}"


PositiveInt: TypeAlias = Annotated[int, Range(1)]


@dataclass(frozen=True)
class Prefix:
    """Texts that begin with `start`; goes into `Annotated`."""

    start: str


class _Kind(NamedTuple):
    """One alternative of an annotation: a type with a range, or a literal."""

    type: Any
    range: Range = Range()

    def accepts(self, value: Any) -> bool:
        if self.type in (int, float):
            whole = isinstance(value, int) and not isinstance(value, bool)
            real = self.type is float and isinstance(value, float) and math.isfinite(value)
            return (whole or real) and value in self.range
        if isinstance(self.type, str):
            return bool(value == self.type)
        if isinstance(self.type, Prefix):
            return isinstance(value, str) and value.startswith(self.type.start) and value != self.type.start
        return isinstance(value, self.type) if self.type in (bool, str, NoneType) else True


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def check_fields(instance: Any, *, as_options: bool = False, error: type[Exception] = ConfigError) -> None:
    """Raise `error` for the first field of a dataclass whose value does not fit its annotation.

    as_options: put the name in backticks, so that the command line prints it as its option.
    """
    for name, hint in field_hints(type(instance)).items():
        check_value(f"`{name}`" if as_options else name, getattr(instance, name), hint, error)


def check_value(name: str, value: Any, hint: Any, error: type[Exception] = ConfigError) -> None:
    """Raise `error` if a value does not fit an annotation: "`name` is `value`: give `requirement`"."""
    if not any(kind.accepts(value) for kind in _kinds(hint)):
        raise error(f"{name} is {value!r}: give {requirement(hint)}")


def check_names(
    known: type | Iterable[str], names: Iterable[str], what: str, error: type[Exception] = ConfigError
) -> None:
    """Raise `error` for the first name that is not known, or not a field of a dataclass, with the most similar one."""
    known = list(field_hints(known) if isinstance(known, type) else known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(known)}"
            raise error(f"there is no {what} {name!r}: {meant}")


def requirement(hint: Any) -> str:
    """What an annotation accepts, in words; that None is accepted is left out."""
    choices = [choice for choice in alternatives(hint) if isinstance(choice, str)]
    choices += [f"{kind.start}NAME" for kind in alternatives(hint) if isinstance(kind, Prefix)]
    numbers = [f"{_NAMES[kind.type]} {kind.range}".strip() for kind in _kinds(hint) if kind.type in _NAMES]
    return " or ".join([*([f"one of {', '.join(choices)}"] if choices else []), *numbers])


def alternatives(hint: Any) -> list[Any]:
    """The types, and for a literal the values, that an annotation accepts."""
    return [kind.type for kind in _kinds(hint)]


def convert(value: Any, hint: Any) -> Any:
    """A whole number as a float where the annotation has no int; anything else unchanged."""
    types = alternatives(hint)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and float in types and int not in types else value


def parse(text: str, hint: Any) -> Any:
    """The value of a text: `none`, `true`, a number or the text itself; `check_value` decides on it.

    A literal may be in quotes, as in TOML. Where "none" is a literal itself, it is that and not None.
    """
    types = alternatives(hint)
    if text[:1] == text[-1:] and text[:1] in ("'", '"') and text[1:-1] in types:
        return text[1:-1]
    if text.lower() == "none" and NoneType in types and "none" not in types:
        return None
    if bool in types and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in types:
            try:
                return kind(text)
            except ValueError:
                pass
    return text


_type_hints: Any = cache(partial(get_type_hints, include_extras=True))


def field_hints(cls: type) -> dict[str, Any]:
    """The annotation of each field of a dataclass, in order."""
    hints = _type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


@cache
def field_texts(cls: type) -> dict[str, list[str]]:
    """The paragraphs of the text below each field of a dataclass: what it is, then when to change it."""
    loader: Any = sys.modules[cls.__module__].__loader__  # inspect.getsource takes several times as long
    module = ast.parse(loader.get_source(cls.__module__)).body
    [body] = [node.body for node in module if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
    texts = {}
    for node, following in pairwise([*body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(following, ast.Expr):
            paragraphs = str(ast.literal_eval(following.value)).split("\n\n")
            texts[ast.unparse(node.target)] = [" ".join(paragraph.split()) for paragraph in paragraphs]
    return texts


def _kinds(hint: Any, allowed: Range = Range()) -> tuple[_Kind, ...]:  # noqa: B008 - immutable
    if get_origin(hint) is Annotated:
        for one in hint.__metadata__:
            if isinstance(one, Prefix):
                return (_Kind(one),)
        ranges = [one for one in hint.__metadata__ if isinstance(one, Range)]
        return _kinds(hint.__origin__, *ranges[:1])
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _kinds(part, allowed))
    if get_origin(hint) is Literal:
        return tuple(_Kind(choice) for choice in get_args(hint))
    return (_Kind(hint, allowed),)
