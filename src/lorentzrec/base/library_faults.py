"""Errors of other libraries as one line of ours: packages that are not installed, files that Polars cannot read, JSON
that msgspec refuses; and what the errors of SQLite mean."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.errors import ArtifactError, InputError

if TYPE_CHECKING:
    import sqlite3


def how_to_install(extra: str) -> str:
    """The next action where an optional dependency is missing.

    pip finds the extras in the installed package, be it a wheel or a checkout, and needs no index that has it.
    """
    return f"pip install 'lorentzrec[{extra}]'"


@contextmanager
def require_extra(extra: str, reason: str, more: str = "") -> Iterator[None]:
    """Raise an `InputError` that names the extra to install if a package that the block imports is missing.

    reason: what needs the package, with `{name}` for the name of the package. more: what else is needed.
    """
    with require_package(reason, how_to_install(extra) + more):
        yield


@contextmanager
def require_package(reason: str, action: str, kind: type[InputError] = InputError) -> Iterator[None]:
    """The same with another action, for a package that no extra has."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise kind(f"{reason.replace('{name}', error.name or str(error))}: {action}") from error
    except ImportError as error:  # of another version, or without a library of the system
        raise kind(f"{first_line(error)}: {action}") from error


@contextmanager
def polars_faults(what: str, action: str, kind: type[InputError] = InputError) -> Iterator[None]:
    """Report all errors of Polars and of the disk in one line: what happened, why, and the action to take.

    Polars panics on some damaged files, and its panic is not even an `Exception`.
    """
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise kind(f"{what} ({first_line(error)}): {action}") from error


@contextmanager
def parquet_faults(path: str | Path, action: str) -> Iterator[None]:
    """Report all errors about a Parquet file of ours in one line: it is damaged."""
    with polars_faults(f"{path} cannot be read", action, ArtifactError):
        yield


def locate_json_fault(error: Exception, whole: str) -> tuple[str, str]:
    """Where msgspec found a fault, such as `items[3]`, and which. `whole`: where it is if it is in no field."""
    what, _, where = str(error).partition(" - at ")
    return where.strip("`").removeprefix("$").lstrip(".") or whole, what


def first_line(error: BaseException) -> str:
    """What an error of another library says, short enough for a message; the name of its type if it says nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:200]


def sqlite_code(error: sqlite3.Error) -> int | None:
    """The primary code of an error: SQLite adds details in higher bits. None for errors of Python's module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_sqlite_damage(error: sqlite3.Error, codes: Collection[int]) -> bool:
    """Whether what was read is damaged: one of the codes, or text that is not UTF-8, which Python's module reports
    itself and without a code."""
    code = sqlite_code(error)
    return code in codes if code is not None else "decode" in str(error)
