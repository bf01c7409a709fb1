"""Fields are checked against their annotations, with one form of error text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from lorentzrec.base.field_checks import Range, check_fields, check_names, convert, field_hints, parse, requirement
from lorentzrec.errors import ConfigError

Share = Annotated[float, Range(above=0, most=1)]


@dataclass(frozen=True)
class Settings:
    port: Annotated[int, Range(0, 65535)] = 8000
    workers: Annotated[int, Range(1)] | None = None
    share: Share | None = 0.5
    offset: Annotated[float, Range(most=2)] = 0
    log_format: Literal["text", "json"] | None = "text"
    cache: Literal["none", "disk"] | None = None
    open: bool = False
    name: str = "x"
    since: str | float | None = None
    folder: Path | None = None
    options: tuple[str, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("name", "value", "requirement"),
    [
        ("port", -1, "a whole number from 0 to 65535"),
        ("port", 65536, "a whole number from 0 to 65535"),
        ("port", 1.0, "a whole number from 0 to 65535"),
        ("port", True, "a whole number from 0 to 65535"),
        ("port", None, "a whole number from 0 to 65535"),
        ("workers", 0, "a whole number of at least 1"),
        ("share", 0.0, "a number above 0 and at most 1"),
        ("share", float("nan"), "a number above 0 and at most 1"),
        ("offset", float("-inf"), "a number of at most 2"),
        ("offset", 3, "a number of at most 2"),
        ("log_format", "xml", "one of text, json"),
        ("log_format", 3, "one of text, json"),
        ("open", 1, "true or false"),
        ("name", 1, "text"),
        ("since", float("inf"), "text or a number"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_does(name: str, value: Any, requirement: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(**{name: value})
    assert str(caught.value) == f"{name} is {value!r}: give {requirement}"


def test_values_that_fit_are_accepted() -> None:
    Settings(65535, 1, 1, -10, "json", "disk", True, "y", 3.5, Path(), ("a",))
    Settings(workers=None, share=None, log_format=None, since="2020", folder=None)
    not_checked: Any = "a text"
    Settings(folder=not_checked)


def test_names_of_options_are_put_in_backticks() -> None:
    @dataclass
    class Options:
        bot_events: Annotated[int, Range(1)] = 1

    with pytest.raises(ValueError, match="`bot_events` is 0: give a whole number of at least 1"):
        check_fields(Options(0), as_options=True, error=ValueError)


def test_a_misspelled_name_is_guessed() -> None:
    check_names(Settings, ["port", "open"], "setting")
    with pytest.raises(ConfigError, match="there is no setting 'prt': did you mean 'port'"):
        check_names(Settings, ["prt"], "setting")
    with pytest.raises(ConfigError, match="there is no setting 'zzz': the names are port, workers, share, "):
        check_names(Settings, ["zzz"], "setting")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("port", "80", 80),
        ("port", "none", "none"),
        ("workers", "None", None),
        ("share", "0.25", 0.25),
        ("share", "half", "half"),
        ("open", "True", True),
        ("open", "1", "1"),
        ("log_format", "json", "json"),
        ("log_format", '"json"', "json"),
        ("log_format", "'json'", "json"),
        ("log_format", "'json", "'json"),
        ("log_format", "'", "'"),
        ("log_format", "", ""),
        ("log_format", "none", None),
        ("cache", "none", "none"),
        ("cache", '"none"', "none"),
        ("cache", "None", "None"),
    ],
)
def test_texts_are_parsed_as_far_as_the_annotation_allows(name: str, text: str, value: Any) -> None:
    parsed = parse(text, field_hints(Settings)[name])
    assert (parsed, type(parsed)) == (value, type(value))


def test_whole_numbers_become_floats_where_floats_are_wanted() -> None:
    hints = field_hints(Settings)
    assert isinstance(convert(1, hints["share"]), float)
    assert isinstance(convert(1, hints["port"]), int)
    assert convert(True, hints["share"]) is True


def test_requirements_leave_none_out() -> None:
    assert requirement(field_hints(Settings)["log_format"]) == "one of text, json"
    assert requirement(Share) == "a number above 0 and at most 1"
