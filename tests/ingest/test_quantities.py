"""Quantities: cancellations take back earlier events, quantities of 0 are no purchases, everything is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions
from lorentzrec.errors import InputError
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, PrepareReport, prepare

DAY = 86_400


def read(rows: list[tuple[Any, ...]], **options: Any) -> Interactions:
    """The events of a frame with the columns user, item, time, quantity."""
    frame = pl.DataFrame(rows, schema=["user", "item", "time", "quantity"], orient="row", strict=False)
    return Interactions.from_frame(frame, **options)


def list_events(data: Interactions) -> list[tuple[Any, Any, float]]:
    assert data.times is not None
    users, items = data.users.ids(data.user_rows), data.items.ids(data.item_rows)
    return sorted(zip(users, items, data.times.tolist(), strict=True))


def prepared(folder: Path, rows: list[tuple[Any, ...]], **options: Any) -> tuple[PrepareReport, dict[str, Any]]:
    frame = pl.DataFrame(rows, schema=["user", "item", "time", "quantity"], orient="row", strict=False)
    frame.write_parquet(folder / "events.parquet")
    report = prepare(PrepareConfig(events=(str(folder / "events.parquet"),), **options), folder / "dataset")
    dataset = open_dataset(folder / "dataset")
    return report, {part: list_events(dataset.interactions(part)) for part in report.parts}


def test_a_cancellation_takes_back_the_latest_earlier_event_of_its_customer_and_item() -> None:
    data = read(
        [
            ("ann", "tea", 1, 2),
            ("ann", "tea", 2, 3),
            ("ann", "cup", 2, 1),
            ("bob", "tea", 2, 1),
            ("ann", "tea", 3, -1),
            ("ann", "tea", 4, 1),
            ("bob", "pot", 5, -1),
        ]
    )
    assert list_events(data) == [("ann", "cup", 2), ("ann", "tea", 1), ("ann", "tea", 4), ("bob", "tea", 2)]
    assert "1 cancellation took back an earlier event, 1 had none" in data.notes
    assert "pot" not in data.items


def test_several_cancellations_take_back_one_event_each() -> None:
    quantities = [1, 1, -1, 1, -1, -1, -1, 1]  # the fourth cancellation finds nothing
    data = read([("u", "a", time, quantity) for time, quantity in enumerate(quantities)] + [("u", "b", 0, 1)])
    assert list_events(data) == [("u", "a", 7), ("u", "b", 0)]
    assert "3 cancellations took back an earlier event, 1 had none" in data.notes


def take_back_slowly(rows: list[tuple[Any, ...]]) -> list[tuple[Any, Any, float]]:
    """The same rule with a stack for each pair; at one time, events come before cancellations."""
    stacks: dict[tuple[Any, Any], list[float]] = {}
    for user, item, time, quantity in sorted(rows, key=lambda row: (row[2], row[3] < 0)):
        stack = stacks.setdefault((user, item), [])
        if quantity > 0:
            stack.append(time)
        elif stack:
            stack.pop()
    return sorted((*pair, time) for pair, times in stacks.items() for time in times)


@pytest.mark.parametrize("seed", range(5))
def test_the_rule_is_that_of_a_stack_for_each_pair(seed: int) -> None:
    draw = np.random.default_rng(seed)
    count = 600
    columns = draw.integers(0, 6, count), draw.integers(0, 8, count), draw.integers(0, 40, count)
    rows = list(zip(*(one.tolist() for one in columns), draw.choice([2, 1, -1], count).tolist(), strict=True))
    assert list_events(read(rows)) == take_back_slowly(rows)


def test_at_one_time_a_purchase_comes_before_its_cancellation_unless_the_file_is_in_order() -> None:
    rows = [("u", "a", 5, -1), ("u", "a", 5, 1), ("u", "b", 5, 1)]
    assert list_events(read(rows)) == [("u", "b", 5)]
    assert list_events(read(rows, ties="given")) == [("u", "a", 5), ("u", "b", 5)]


def test_without_times_a_cancellation_takes_back_any_event() -> None:
    frame = pl.DataFrame({"user": ["u"] * 4, "item": ["a", "a", "a", "b"], "qty": [-1, 1, 1, 1]})
    data = Interactions.from_frame(frame)
    assert data.items.ids(data.item_rows) == ["a", "b"]
    assert data.notes[-1] == "1 cancellation took back an event, 0 had none"


@pytest.mark.parametrize("split", ["last_days", "next_order"])
def test_a_cancellation_after_the_end_of_training_takes_back_no_training_event(tmp_path: Path, split: str) -> None:
    rows = [
        ("u", "a", 1 * DAY, 1),
        ("u", "b", 2 * DAY, 1),
        ("u", "c", 3 * DAY, 1),
        ("u", "c", 4 * DAY, -1),  # before the end of training
        ("u", "d", 20 * DAY, 1),
        ("u", "a", 21 * DAY, -1),  # after it
        ("u", "e", 20 * DAY, 1),
        ("u", "e", 22 * DAY, -1),
        ("v", "a", 3 * DAY, 1),
        ("v", "b", 20 * DAY, 1),
    ]
    report, parts = prepared(tmp_path, rows, split=split, split_options={"days": 10})
    assert parts["train"] == [("u", "a", DAY), ("u", "b", 2 * DAY), ("v", "a", 3 * DAY)]
    assert parts["test"] == [("u", "d", 20 * DAY), ("v", "b", 20 * DAY)]
    assert (
        "2 cancellations took back an earlier event, 0 had none, 1 came after training ended and left its events as "
        "they were"
    ) in report.notes
    whole, _ = prepared(tmp_path, rows)
    assert whole.counts["events"] == 4
    until, _ = prepared(tmp_path, rows, until=21 * DAY)
    assert until.counts["events"] == 6


def test_the_end_of_training_does_not_depend_on_filters(tmp_path: Path) -> None:
    rows = [("u", "a", 1 * DAY, 1), ("u", "b", 2 * DAY, 1), ("u", "b", 15 * DAY, 1), ("v", "a", 3 * DAY, 1)]
    rows += [("u", "a", 12 * DAY, -1), ("w", "z", 20 * DAY, 1)]  # w is dropped, and the end is still 10 days before
    report, parts = prepared(tmp_path, rows, split="last_days", split_options={"days": 10}, minimum_item_events=2)
    assert parts["train"] == [("u", "a", DAY), ("u", "b", 2 * DAY), ("v", "a", 3 * DAY)]
    assert report.parts["test"] == 1


def test_cancellations_in_test_files_take_back_test_events_only(tmp_path: Path) -> None:
    header = "user,item,time,quantity\n"
    (tmp_path / "train.csv").write_text(f"{header}u,a,1,1\nu,b,2,1\n")
    (tmp_path / "test.csv").write_text(f"{header}u,a,3,-1\nu,c,4,1\nu,d,4,1\nu,c,5,-2\n")
    train, test = ((str(tmp_path / name),) for name in ("train.csv", "test.csv"))
    report = prepare(PrepareConfig(events=train, test_events=test, split="given"), tmp_path / "d")
    assert report.parts == {"train": 2, "test": 1}


def test_unusual_quantities_are_counted() -> None:
    data = read([("u", "a", 1, 0.0), ("u", "b", 2, 0.5), ("u", "c", 3, 2.0), ("v", "c", 3, None), ("v", "d", 4, 1.0)])
    assert list_events(data) == [("u", "b", 2), ("u", "c", 3), ("v", "c", 3), ("v", "d", 4)]
    assert data.notes[1:4] == (
        "1 event with a quantity of 0 is left out",
        "1 event without a quantity is taken for a purchase",
        "1 event has a fractional quantity",
    )


def test_views_may_have_a_quantity_of_0() -> None:
    frame = pl.DataFrame(
        {
            "user": ["u"] * 4,
            "item": list("aaba"),
            "time": [1, 2, 3, 4],
            "kind": ["buy", "view", "view", "buy"],
            "quantity": [1, 0, 0, -1],
        }
    )
    data = Interactions.from_frame(frame.vstack(frame.with_columns(user=pl.lit("v"))[:3]), label_events=("buy",))
    assert len(data) == 5  # the purchase of u is taken back, not the view after it
    assert data.labels is not None
    assert data.labels.sum() == 1


def test_columns_of_quantities_are_recognised_by_name_and_values(tmp_path: Path) -> None:
    for name in ("quantity", "qty", "Quantity", "order_qty", "Menge", "Anzahl", "cantidad"):
        frame = pl.DataFrame({"user": ["u", "u", "u"], "item": ["a", "b", "b"], name: [1, 1, -1]})
        assert len(Interactions.from_frame(frame)) == 1
        assert len(Interactions.from_frame(frame, quantity="")) == 3
        frame.write_csv(tmp_path / "events.csv")
        assert len(Interactions.from_file(tmp_path / "events.csv")) == 1
        assert len(Interactions.from_file(tmp_path / "events.csv", quantity_column="")) == 3
    text = pl.DataFrame({"user": ["u", "u"], "item": ["a", "b"], "quantity": ["one", "2 kg"]})
    assert "'quantity' has the name of a quantity and holds no numbers: it is not used" in (
        Interactions.from_frame(text).notes
    )


def test_quantities_that_cannot_be_read_name_the_row_and_the_way_out(tmp_path: Path) -> None:
    lines = ["user,item,quantity", *["u,a,1"] * 150, "u,b,many"]
    (tmp_path / "events.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"line 152: column 'quantity': not a finite number.*`quantity_column=''`"):
        Interactions.from_file(tmp_path / "events.csv")
    with pytest.raises(InputError, match=r"0 or negative in 2 of 3 events: check the column 'quantity'.*`quantity=''`"):
        read([("u", "a", 1, -1), ("u", "b", 2, 0), ("u", "c", 3, 1)])


def test_invoices_with_float_customers_are_read_without_options(tmp_path: Path) -> None:
    lines = [
        "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country",
        "536365,85123A,WHITE HEART,6,2010-12-01 08:26:00,2.55,17850.0,United Kingdom",
        "536365,71053,LANTERN,6,2010-12-01 08:26:00,3.39,17850.0,United Kingdom",
        "536366,71053,LANTERN,2,2010-12-02 08:26:00,3.39,13047.0,United Kingdom",
        "536414,22139,,56,2010-12-02 11:52:00,0.0,,United Kingdom",
        "C536379,71053,LANTERN,-1,2010-12-03 09:41:00,3.39,17850.0,United Kingdom",
        "C536383,35004C,SET OF 3,-1,2010-12-03 09:49:00,4.65,13047.0,United Kingdom",
    ]
    (tmp_path / "events.csv").write_text("\n".join(lines))
    data = Interactions.from_file(tmp_path / "events.csv")
    assert sorted(data.users.series) == [13047, 17850]
    assert [row[:2] for row in list_events(data)] == [(13047, "71053"), (17850, "85123A")]
    assert data.orders is not None
    assert {
        "1 row without a user is left out",
        "the users are whole numbers stored as floats, such as '13047.0': read as integers",
        "1 cancellation took back an earlier event, 1 had none",
        "the column 'Quantity' is taken for the quantity",
        "the column 'InvoiceNo' is taken for the order",
    } <= set(data.notes)
    frame = pl.read_csv(tmp_path / "events.csv", try_parse_dates=True)
    assert Interactions.from_frame(frame).digest == data.digest
