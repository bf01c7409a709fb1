"""Addresses that lead nowhere, and stores whose extra is not installed."""

from __future__ import annotations

import sys
import traceback

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store


@pytest.mark.parametrize("url", ["", "shop", "file:", "file://", "http://shop", "sqlite:shop", "/shop"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InputError, match=r"is not the address of a store: give file:DIR, postgresql://"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [("postgresql://h/d", "psycopg", "postgres"), ("cosmos://h/d", "azure.cosmos", "azure")],
)
def test_a_missing_extra_is_named(url: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("lorentzrec.serving.stores.postgres", "lorentzrec.serving.stores.cosmos")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs {package}: pip install 'lorentzrec\[{extra}\]'"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:secretpw@[bad/rec",
        "postgresql://shop:secretpw",
        "postgresql://shop:secretpw@h:port/db",
        "postgresql://shop:secretpw%zz@h/db",
        "postgresql://shop@h/db?password=secretpw%zz",
        "postgresql://shop@h/db?pasword=secretpw",
        "postgresql:shop:secretpw@h",
        "postgre://shop:secretpw@h/db",
        "postgres//shop:secretpw@h",
        "host=h password=secretpw",
        "mysql:shop:secretpw",
    ],
)
def test_the_password_of_a_mistyped_address_is_not_printed(url: str) -> None:
    with pytest.raises(InputError, match=r"cannot be read \(.*\): correct it$|is not the address of a store") as caught:
        open_store(url)
    assert "secretpw" not in "".join(traceback.format_exception(caught.value))
