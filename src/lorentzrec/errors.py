"""Every error a user can cause or see. Each message is one line that names the cause and ends with the next action.
Options are named in backticks as in Python (`user_column`, `separator=';'`); the command line prints them as its own
(`--user-column`, `--separator ';'`). This module alone reads such names: `replace_options` writes them in another way,
and an error has its `options`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Any

_OPTION = re.compile(r"`([a-z]+(?:_[a-z]+)*)(?:=('[^`']*'|\"[^`\"]*\"|\d+))?`")
_ALTERNATIVE = re.compile(r"`[^`]*` or `[^`]*`")


def replace_options(message: str, show: Callable[[str, str | int | None], str]) -> str:
    """A message with every option as `show` writes its name and its value, which is None if the message has none."""

    def replace(found: re.Match[str]) -> str:
        name, value = found.groups()
        return show(name, None if value is None else ast.literal_eval(value))

    return _OPTION.sub(replace, message)


class LorentzrecError(Exception):
    """Base of all errors raised on purpose; the command line prints its message as one line and exits with
    `exit_code`."""

    exit_code = 1
    kind: Enum | None = None
    """Which error it is, where there are several of one class (`lorentzrec.serving.stores.faults.StoreFault`)."""

    @property
    def options(self) -> list[tuple[str, str | int | None]]:
        """The names and the values of the options that the message names, in its order."""
        found: list[tuple[str, str | int | None]] = []

        def note(name: str, value: str | int | None) -> str:
            found.append((name, value))
            return ""

        replace_options(str(self), note)
        return found

    @property
    def leaves_choice(self) -> bool:
        """Whether the message leaves a choice between two options: only a person knows which of them is true."""
        return _ALTERNATIVE.search(str(self)) is not None


class InputError(LorentzrecError):
    """Data, a file or an argument that cannot be used as it is."""

    exit_code = 2


class ConfigError(InputError):
    """A hyper-parameter or option with an unknown name or an impossible value."""


class WriteError(InputError):
    """A file or folder that cannot be written: the disk is full, or a right is missing."""

    def __init__(self, message: str, path: str | PathLike[str]) -> None:
        super().__init__(message)
        self.path = Path(path)


class ArtifactError(InputError):
    """A saved model or dataset that is damaged, incomplete, or of another version."""


class TrainingError(LorentzrecError):
    """A number became infinite or NaN in training; the message names the epoch and the row."""


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C ended training. `model` is the model so far: of the best epoch where there is validation, else with the
    points as they were; None if no epoch had ended.

    A `KeyboardInterrupt` and not a `LorentzrecError`: `except Exception` in a loop over seeds must not continue with
    the next seed, and code that handles Ctrl-C already handles this.
    """

    def __init__(self, message: str, model: Any = None) -> None:
        super().__init__(message)
        self.model = model  # a `lorentzrec.Model`, which this module may not import


class StopTraining(Exception):  # noqa: N818 - a request, not an error
    """Raised by a callback to end training after the current epoch; `train` then returns the model so far."""


class StoreUnavailable(LorentzrecError):  # noqa: N818 - the name states the condition
    """A store that cannot be reached now: network, time-out, server gone. The same request may succeed later."""


class StoreBroken(ArtifactError):  # noqa: N818 - the name states the condition
    """A store that cannot serve any request until it is repaired: a wrong key, missing rights or tables, a damaged
    file."""


class RecordDamaged(ArtifactError):  # noqa: N818 - the name states the condition
    """Data of one customer that cannot be read from a store; the rest of the store can."""


@dataclass(frozen=True)
class RowFault:
    """What is wrong with a row of a file, and the option that may resolve it.

    role: what the column is for that the option names, such as `user`; empty for other options.
    """

    reason: str
    option: str = ""
    role: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.option})" if self.option else self.reason


class RowError(ValueError):
    """A row of a file that cannot be split into its fields."""

    def __init__(self, reason: str, option: str = "") -> None:
        self.fault = RowFault(reason, option)
        super().__init__(str(self.fault))
