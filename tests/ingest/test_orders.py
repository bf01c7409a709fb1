"""Orders are one number per event through every step; equal times are shuffled, or as declared, never by item id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.data.joining import append, concatenate
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.ingest.dataset import open_dataset, write_frame
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.sources import Source
from tests.saved_datasets import save_dataset

TEXT = (
    "user,item,time,order_id\n"
    "u,a,5,o2\nu,b,5,o1\nu,c,5,o2\nu,d,5,o1\nu,e,3,o9\nu,f,7,o9\n"  # o9 has events before and after the others
    "v,a,1,o1\nv,b,2,\nv,c,2,\nv,d,3,\n"  # three events without an order, two at the same time
)


def written(folder: Path, text: str = TEXT) -> Path:
    (folder / "events.csv").write_text(text)
    return folder / "events.csv"


def orders(data: Interactions) -> dict[Any, list[tuple[Any, int]]]:
    """The items of each customer with the number of their order."""
    assert data.orders is not None
    spans = {data.users.id(row): slice(data.offsets[row], data.offsets[row + 1]) for row in range(len(data.users))}
    return {
        user: list(zip(data.items.ids(data.item_rows[span]), data.orders[span].tolist(), strict=True))
        for user, span in spans.items()
    }


def test_events_of_one_order_have_one_number_and_are_together(tmp_path: Path) -> None:
    data = Interactions.from_file(written(tmp_path))
    assert data.notes[0] == "the column 'order_id' is taken for the order"
    of_u = orders(data)["u"]
    assert [number for _, number in of_u] == [0, 1, 1, 2, 2, 0]
    together = [{item for item, number in of_u if number == one} for one in range(3)]
    assert together[0] == {"e", "f"}
    assert sorted(map(sorted, together[1:])) == [["a", "c"], ["b", "d"]]
    assert sorted(orders(data)["v"]) == [("a", 0), ("b", 1), ("c", 1), ("d", 2)]


def test_every_way_in_gives_the_same_orders(tmp_path: Path) -> None:
    path = written(tmp_path)
    data, frame = Interactions.from_file(path), pl.read_csv(path)
    assert Interactions.from_frame(frame).digest == data.digest
    assert Interactions.from_frame(frame.rename({"order_id": "nr"}), order="nr").digest == data.digest
    of_u = frame.filter(user="u")
    pairs = Interactions.from_pairs(of_u["user"], of_u["item"], of_u["time"], orders=of_u["order_id"])
    alone = Interactions.from_frame(of_u)
    assert pairs.digest == alone.digest
    report = prepare(PrepareConfig(events=(str(path),)), str(tmp_path / "d"))
    assert open_dataset(tmp_path / "d").interactions().digest == data.digest
    assert open_dataset(tmp_path / "d").manifest["columns"] == [
        "user_row",
        "item_row",
        "time",
        "order",
        "next_item_row",
    ]
    assert report.notes[0] == data.notes[0]


@pytest.mark.parametrize("ties", ["shuffle", "file"])
@pytest.mark.parametrize("duplicates", ["sum", "last", "first"])
def test_one_event_of_several_has_the_order_of_the_event_that_stays(duplicates: str, ties: str, tmp_path: Path) -> None:
    path = written(tmp_path, "user,item,time,order_id\nu,1,5,9\nu,2,6,10\nu,1,6,10\n")
    data = Interactions.from_file(path, duplicates=duplicates, ties=ties)
    assert data.orders is not None
    assert data.orders.tolist() == ([0, 1] if duplicates == "first" else [0, 0])


@pytest.mark.parametrize(("duplicates", "together"), [("sum", "b"), ("last", "b"), ("first", "a")])
def test_of_equal_times_the_order_is_that_of_the_row_in_the_file(
    duplicates: str, together: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "user,item,time,order_id\nu,x,5,o9\nu,a,5,o9\nu,x,5,o10\nu,b,5,o10\n")
    of_u = dict(orders(Interactions.from_file(path, duplicates=duplicates, ties="file"))["u"])
    assert [item for item in "ab" if of_u[item] == of_u["x"]] == [together]


def test_orders_are_kept_by_splits_and_joins_and_on_disk(tmp_path: Path) -> None:
    data = Interactions.from_file(written(tmp_path))
    train_part, test_part = data.split("leave_last_out")
    assert orders(test_part)["u"] == [("f", 0)]
    whole = concatenate([train_part, test_part])
    assert orders(whole) == orders(data)
    saved = save_dataset({"train": train_part, "test": test_part}, tmp_path / "d")
    assert orders(saved.interactions("test")) == orders(test_part)
    later = Interactions.from_pairs(["u", "u"], ["a", "z"], [9, 9], orders=["x", "x"])
    both = append(data, later)
    assert orders(both)["u"][:6] == orders(data)["u"]
    numbers = {number for _, number in orders(both)["u"][6:]}
    assert len(numbers) == 1
    assert not numbers & {number for _, number in orders(data)["u"]}
    without = append(data, Interactions.from_pairs(["u"], ["a"], [9]))
    assert without.orders is None
    assert without.notes[-1] == "the orders of some events are not known, so that orders are not used"


def test_orders_do_not_change_the_points() -> None:
    draw = np.random.default_rng(0)
    users, items, times = draw.integers(0, 30, 400), draw.integers(0, 40, 400), np.arange(400)
    plain = Interactions.from_pairs(users, items, times)
    ordered = Interactions.from_pairs(users, items, times, orders=times // 3)
    config = TrainingConfig(epochs=2, dimension=4)
    first, second = (train(data, config, progress=False).item_points for data in (plain, ordered))
    assert np.array_equal(first, second)
    assert plain.digest != ordered.digest


def test_a_named_order_column_must_exist_and_can_be_left_out(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(InputError, match="no column 'nr' for the order, only user, item, time, order_id"):
        Interactions.from_file(path, order_column="nr")
    assert Interactions.from_file(path, order_column="").orders is None


def test_a_dataset_with_damaged_orders_is_refused(tmp_path: Path) -> None:
    dataset = save_dataset(Interactions.from_file(written(tmp_path)), tmp_path / "d")
    events = pl.read_parquet(tmp_path / "d" / "interactions.parquet").with_columns(order=pl.lit(-1, pl.Int32))
    sha = write_frame(events, dataset.address, "interactions.parquet")
    dataset.manifest["files"]["interactions.parquet"] = sha
    with pytest.raises(ArtifactError, match="order is -1, it must be at least 0"):
        dataset.interactions()


def tied(customers: int = 400) -> Interactions:
    """Every customer has the items a to d at one time."""
    users = [number for number in range(customers) for _ in "abcd"]
    return Interactions.from_pairs(users, list("abcd") * customers, [7] * len(users))


def test_equal_times_follow_neither_ids_nor_each_other() -> None:
    data = tied()
    places = data.item_rows.reshape(-1, 4)
    for first in range(4):
        assert 60 < (places[:, 0] == first).sum() < 140
        for second in range(first):
            before = (np.argmax(places == first, axis=1) < np.argmax(places == second, axis=1)).mean()
            assert 0.4 < before < 0.6
    orders_seen = np.unique(places, axis=0)
    assert len(orders_seen) == 24


def test_orders_of_one_time_follow_no_number_and_their_events_are_together(tmp_path: Path) -> None:
    rows = [(user, item, 7, order) for user in range(400) for order, item in ((999, 1), (999, 2), (1000, 3), (1000, 4))]
    frame = pl.DataFrame(rows, schema=["user", "item", "time", "order_id"], orient="row")
    data = Interactions.from_pairs(frame["user"], frame["item"], frame["time"], orders=frame["order_id"])
    assert data.notes == (
        "100 % of neighbouring events of a customer have equal times, and are shuffled, with the events of an order "
        "together: give `ties='given'` if the order of the rows is meaningful",
    )
    assert Interactions.from_frame(frame).notes[-1] == data.notes[0]
    for histories in (data.item_rows.reshape(-1, 4), Interactions.from_frame(frame).item_rows.reshape(-1, 4)):
        older = histories < 2  # the items of 999
        assert (older[:, 0] == older[:, 1]).all()
        assert 140 < older[:, 0].sum() < 260
        assert len(np.unique(histories, axis=0)) == 8
    frame.write_csv(tmp_path / "events.csv")
    assert Interactions.from_frame(frame).digest == data.digest
    assert Interactions.from_file(tmp_path / "events.csv").digest == data.digest
    assert Interactions.from_file(tmp_path / "events.csv", tie_seed=1).digest != data.digest


def test_one_customer_has_another_order_at_another_time() -> None:
    times = np.repeat(np.arange(200) * 86_400, 2)
    data = Interactions.from_pairs(["u"] * 400, ["a", "b"] * 200, times)
    first = data.item_rows.reshape(-1, 2)[:, 0]
    assert 70 < (first == 0).sum() < 130


def test_the_seed_decides_and_the_note_names_the_option(tmp_path: Path) -> None:
    rows = "".join(f"u{user},{item},5\n" for user in range(50) for item in "dbca")
    path = written(tmp_path, f"user,item,time\n{rows}")
    first, again, other = (Interactions.from_file(path, tie_seed=seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest
    assert first.notes == (
        "all 200 events have the same time, so none is later: check `time_column`",
        "100 % of neighbouring events of a customer have equal times, and are shuffled: give `ties='file'` if the "
        "order of the file is meaningful",
    )
    assert Interactions.from_frame(pl.read_csv(path), tie_seed=1).digest == other.digest
    kept = Interactions.from_file(path, ties="file")
    assert kept.history_ids("u7") == ["d", "b", "c", "a"]
    assert kept.notes[1].endswith("have equal times, and are in the order of the file")
    framed = Interactions.from_frame(pl.read_csv(path), ties="given")
    assert (framed.digest, framed.ties_given) == (kept.digest, True)
    report = prepare(PrepareConfig(events=(str(path),), source=Source(ties="file")), str(tmp_path / "d"))
    assert open_dataset(report.address).interactions().ties_given
    assert report.notes == kept.notes


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"user": ["u", "v", "v"], "order": ["1", "1", "2"], "time": [1, 2, 3]},
            "1 order has events of several customers, and is divided by customer: check `order`",
        ),
        (
            {"user": ["u"] * 3, "order": ["1", "1", "2"], "time": [90_000, 1, 3]},
            "1 order has events that are a day or more apart: an order counts from its first event on",
        ),
        (
            {"user": ["u"] * 10_001, "order": ["1"] * 10_000 + ["2"], "time": list(range(10_001))},
            "1 order has more than 1,000 events, the largest 10,000: check `order`",
        ),
        (
            {"user": ["u", "u", "v"], "order": ["1"] * 3, "time": [1, 2, 3]},
            "every customer has a single order, so nothing follows another order: check `order`",
        ),
        (
            {"user": ["u", "u", "v"], "order": ["1", "2", "3"], "time": [5, 5, 5]},
            "all 3 events have the same time, so none is later: check `time`",
        ),
        (
            {"user": ["u", "u", "u"], "order": ["1", "2", None], "time": [5, 6, 7]},
            "1 event has no order: those of a customer with equal times are one",
        ),
    ],
)
def test_orders_and_times_that_may_be_something_else_are_noted(columns: dict[str, Any], expected: str) -> None:
    frame = pl.DataFrame({**columns, "item": [f"i{number}" for number in range(len(columns["user"]))]})
    assert expected in Interactions.from_frame(frame).notes


def test_usual_orders_are_not_noted() -> None:
    frame = pl.DataFrame({"user": list("uuvv"), "item": list("abab"), "order": list("1234"), "time": [1, 2, 3, 90_000]})
    assert Interactions.from_frame(frame).notes == ("the column 'order' is taken for the order",)


def test_times_that_go_backwards_within_an_order_do_not_depend_on_the_rows() -> None:
    frame = pl.DataFrame({"user": list("uuu"), "item": list("abc"), "order": list("112"), "time": [9, 3, 5]})
    data = Interactions.from_frame(frame)
    assert data.digest == Interactions.from_frame(frame.reverse()).digest
    assert orders(data)["u"] == [("b", 0), ("c", 1), ("a", 0)]
