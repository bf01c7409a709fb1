"""Errors of other libraries become one line that names the next action."""

from __future__ import annotations

import importlib

import polars as pl
import pytest

from lorentzrec.base.library_faults import first_line, parquet_faults, polars_faults, require_extra, require_package
from lorentzrec.errors import ArtifactError, ConfigError, InputError


def test_a_missing_package_is_named_with_its_extra() -> None:
    expected = r"^shops need no_such_package: pip install 'lorentzrec\[serve\]', and Java$"
    with pytest.raises(InputError, match=expected), require_extra("serve", "shops need {name}", ", and Java"):
        importlib.import_module("no_such_package")


def test_a_package_of_another_version_says_what_it_lacks() -> None:
    with pytest.raises(ConfigError, match=r"^cannot import x: upgrade it$"):  # noqa: SIM117
        with require_package("needs {name}", "upgrade it", ConfigError):
            raise ImportError("cannot import x\nmore")


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), require_extra("serve", "shops need {name}"):
        raise KeyError("x")
    with pytest.raises(KeyError), polars_faults("what", "action"):
        raise KeyError("x")


@pytest.mark.parametrize(
    "error", [pl.exceptions.ComputeError("damaged\nmore"), pl.exceptions.PanicException("damaged"), OSError("damaged")]
)
def test_what_polars_raises_is_one_line(error: BaseException) -> None:
    with pytest.raises(ArtifactError, match=r"^d/items\.parquet cannot be read \(damaged\): copy it again$"):  # noqa: SIM117
        with parquet_faults("d/items.parquet", "copy it again"):
            raise error
    with pytest.raises(InputError, match=r"^the frame cannot be read \(damaged\): check it$"):  # noqa: SIM117
        with polars_faults("the frame cannot be read", "check it"):
            raise error


def test_first_lines_are_short_and_never_empty() -> None:
    assert first_line(ValueError("\n  one \n two")) == "one"
    assert first_line(ValueError("x" * 500)) == "x" * 200
    assert first_line(ValueError()) == "ValueError"
