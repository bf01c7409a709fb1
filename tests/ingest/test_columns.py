"""Interactions from columns and matrices as they come out of pandas, Polars, NumPy and SciPy."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from lorentzrec import Interactions, evaluate, train
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.baselines import Popularity

BERLIN = pd.to_datetime(pd.Series(["2024-01-01 10:00", "2024-06-01 00:00"])).dt.tz_localize("Europe/Berlin")
IN_UTC = [1_704_099_600, 1_717_192_800]


@pytest.mark.parametrize(
    "times",
    [
        BERLIN,
        pd.DatetimeIndex(BERLIN),
        pl.Series([datetime(2024, 1, 1, 9, tzinfo=UTC), datetime(2024, 5, 31, 22, tzinfo=UTC)]),
        pl.Series(["2024-01-01T10:00", "2024-06-01T00:00"]).str.to_datetime().dt.replace_time_zone("Europe/Berlin"),
        [datetime(2024, 1, 1, 10, tzinfo=timezone(timedelta(hours=1))), datetime(2024, 5, 31, 22, tzinfo=UTC)],
        ["2024-01-01T10:00+01:00", "2024-05-31 22:00 UTC"],
        ["20240101T090000Z", "2024-05-31T22:00:00.000Z"],
        pd.Series(["2024-01-01 09:00", "2024-05-31 22:00"]),
        np.array(["2024-01-01T09:00", "2024-05-31T22:00"], dtype="datetime64[m]"),
    ],
)
def test_times_with_a_time_zone_are_converted_to_utc(times: Any) -> None:
    data = Interactions.from_pairs(["u", "u"], ["a", "b"], times)
    assert data.times is not None
    assert data.times.tolist() == IN_UTC


WITHOUT_PYARROW = """
import importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name.startswith("pyarrow") else real(name, *more)
class Without:
    def find_spec(self, name, *more):
        if name.startswith("pyarrow"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import pandas as pd
from lorentzrec import Interactions
"""


def printed_without_pyarrow(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYARROW + script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_time_zone_needs_no_pyarrow() -> None:
    script = """
times = pd.to_datetime(pd.Series(["2024-01-01 10:00", "2024-06-01 00:00"])).dt.tz_localize("Europe/Berlin")
print(Interactions.from_pairs(["u", "u"], ["a", "b"], times).times.tolist())
print(Interactions.from_pairs(["u", "u"], ["a", "b"], pd.Series([7, 8], dtype="Int64")).times.tolist())
"""
    assert printed_without_pyarrow(script) == [str(IN_UTC), "[7, 8]"]


def test_frames_of_pandas_need_no_pyarrow() -> None:
    script = """
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.model.item_table import read_item_columns, rows_of_categories
frame = pd.DataFrame({"user": ["u", "v"], "item": ["a", "b"], "time": pd.to_datetime(["2024-01-01", "2024-01-02"])})
data = Interactions.from_frame(frame)
print(data.times.tolist())
table = pd.DataFrame({
    "item": ["a", "b", "c"],
    "category": ["x > y", "x", None],
    "kind": pd.Categorical(["k", None, "k"]),
    "size": pd.array([None, 1, 1], dtype="Int64"),
    "price": [2.5, 2.5, float("nan")],
})
attributes = ItemAttributes.from_frame(table)
print(attributes.values.series.to_list(), attributes.counts.tolist())
print(attributes.encode(table.tail(1)).counts.tolist())
print(rows_of_categories(read_item_columns(data.items, table), ["x > y"])[0].tolist())
"""
    values = ["category=x", "kind=k", "price=2.5", "size=1"]
    expected = ["[1704067200, 1704153600]", f"{values} [3, 3, 2]", "[2]", "[0]"]
    assert printed_without_pyarrow(script) == expected


def test_time_units_and_formats() -> None:
    milliseconds = Interactions.from_pairs(["u"], ["a"], [1_577_836_800_000], time_unit="milliseconds")
    written = Interactions.from_pairs(["u"], ["a"], ["01.01.2020 00:00"], time_format="%d.%m.%Y %H:%M")
    numbered = Interactions.from_pairs(["u"], ["a"], [20200101], time_format="%Y%m%d")
    dated = Interactions.from_pairs(["u"], ["a"], [date(2020, 1, 1)])
    for data in (milliseconds, written, numbered, dated):
        assert data.times is not None
        assert data.times.tolist() == [1_577_836_800]


@pytest.mark.parametrize(
    ("times", "options"),
    [
        ([-86_400_000, -1_500], {"time_unit": "milliseconds"}),
        ([-86_400_000_000.0, -1_500_000.0], {"time_unit": "microseconds"}),
        (["-86400", "-1.5"], {}),
        ([-86_400, -1.5], {}),
        ([datetime(1969, 12, 31, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)], {}),
    ],
)
def test_times_before_1970_are_kept_in_every_notation(times: list[Any], options: dict[str, Any]) -> None:
    data = Interactions.from_pairs(["u", "u"], ["b", "a"], times, **options)
    assert data.times is not None
    assert data.times.tolist() == [-86_400, -1.5]


@pytest.mark.parametrize(
    ("times", "complaint"),
    [
        ([-(10**12), 0], "row 1 is -1000000000000, before the year 1: fix the row"),
        ([0, -(2**63)], "row 2 is -9223372036854775808, before the year 1"),
        (["0", "-1e12"], "row 2 is '-1e12', before the year 1"),
        (
            [1_577_836_800_000, 1_577_836_800_001],
            r"row 1 is 1577836800000, after the year 2099: give `time_unit='milli",
        ),
        ([1_577_836_800_000_000], r"give `time_unit='microseconds'`"),
        (
            [1_577_836_800, 1_577_836_800_001],
            "row 2 is 1577836800001, after the year 2099, where other times are in seconds: the column mixes units",
        ),
        ([20240513, 20240514], r"such as 20240513, which look like dates: give `time_format='%Y%m%d'`"),
        (["13.05.2024 10:00"], r"not an ISO date or time: give `time_format='%d.%m.%Y %H:%M'`"),
        (["5/6/2024"], r"give `time_format='%d/%m/%Y'` or `time_format='%m/%d/%Y'`"),
        (["2024-01-01", None], "the time in row 2 is None"),
        (["2024-01-01", "soon"], "the time in row 2 is 'soon', not an ISO date or time"),
        ([True, False], "the times are Boolean"),
    ],
)
def test_times_that_are_refused(times: list[Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Interactions.from_pairs(["u"] * len(times), list("ab")[: len(times)], times)


def test_small_integers_are_times() -> None:
    data = Interactions.from_pairs(["u"] * 3, ["c", "b", "a"], [2, 0, 20240513])
    assert data.history_ids("u") == ["b", "c", "a"]


def test_equal_times_can_keep_the_order_of_the_columns() -> None:
    users, items, times = ["u"] * 3, ["c", "a", "b"], [1, 1, 0]
    assert Interactions.from_pairs(users, items, times).history_ids("u")[0] == "b"
    assert Interactions.from_pairs(users, items, times, ties="given").history_ids("u") == ["b", "c", "a"]
    with pytest.raises(ConfigError, match="ties is 'given'"):
        Interactions.from_pairs(users, items, ties="given")


def test_true_entries_of_a_matrix_weigh_1() -> None:
    matrix = sparse.csr_array(np.array([[True, False], [True, True]]))
    data = Interactions.from_csr(matrix)
    assert data.weights is None
    assert data.history_ids(1) == [0, 1]


def test_a_wrong_entry_of_a_matrix_is_named_by_row_and_column() -> None:
    matrix = sparse.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 0.0, -1.0]]))
    with pytest.raises(InputError, match=r"row 1, column 2 of the matrix is -1\.0"):
        Interactions.from_csr(matrix)


def test_float_ids_name_the_missing_one() -> None:
    for users in (
        pd.Series([1, 2, None]),
        np.array([1, 2, np.nan]),
        [1.0, 2.0, float("nan")],
        pl.Series([1.0, 2.0, None]),
    ):
        with pytest.raises(InputError, match="the user in row 3 is missing"):
            Interactions.from_pairs(users, ["a", "b", "c"])
    with pytest.raises(
        InputError, match=r"the users are floats \(1\.0 in row 1\): convert them to integers or strings"
    ):
        Interactions.from_pairs([1.0, 2.0], ["a", "b"])


def test_uuids_are_strings() -> None:
    users = [uuid.UUID(int=1), uuid.UUID(int=2)]
    assert Interactions.from_pairs(users, ["a", "b"]).users.series.to_list() == [str(one) for one in users]


def test_repr_counts_only_users_and_items_with_events() -> None:
    data = Interactions.from_pairs(["u", "u", "v"], ["a", "b", "a"], [1, 2, 3])
    _, test = data.split("leave_last_out")
    assert repr(test) == "Interactions(1 event of 1 user with 1 item, in time order)"


@pytest.mark.parametrize(
    ("data", "how"),
    [
        (pd.DataFrame({"user": [1], "item": [2]}), "not DataFrame: give Interactions.from_frame(frame, user="),
        (sparse.csr_array(np.eye(2)), "not csr_array: give Interactions.from_csr(matrix)"),
        ("events.csv", "not str: give Interactions.from_file(...)"),
        ([("u", "i")], "not list: give Interactions.from_pairs(users, items, times)"),
    ],
)
def test_other_data_are_refused_with_what_to_call(data: Any, how: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"train takes Interactions, {how}")):
        train(data)
    with pytest.raises(InputError, match=re.escape(f"evaluate takes Interactions, {how}")):
        evaluate(Popularity(Interactions.from_pairs(["u"], ["i"])), data)


def test_other_configs_and_systems_are_refused_with_what_to_give() -> None:
    data = Interactions.from_pairs(["u", "u"], ["a", "b"], [1, 2])
    with pytest.raises(ConfigError, match=r"config is a dict: give TrainingConfig\(dimension=20, \.\.\.\)"):
        train(data, {"dimension": 8})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"object has no items and no histories .*give a trained model or a baseline"):
        evaluate(object(), data)  # type: ignore[arg-type]


def test_long_work_reports_its_progress() -> None:
    draw = np.random.default_rng(0)
    data = Interactions.from_pairs(draw.integers(0, 50, 500), draw.zipf(2, 500) % 40, np.arange(500))
    train_part, test_part = data.split("leave_last_out")
    shares: list[float] = []
    evaluate(Popularity(train_part), test_part, watch=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
