"""`lorentzrec prepare`, `stats` and `synthesize`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from lorentzrec import Interactions
from lorentzrec.cli.application import app
from lorentzrec.cli.output import table
from lorentzrec.data.summary import summarise
from lorentzrec.ingest.dataset import open_dataset
from tests.cli.command_line import SETTINGS, error_of, run, run_json


def test_every_option_reaches_the_preparation(tmp_path: Path) -> None:
    """One line is rated too low, one is too old, one too new, one repeated, one faulty, and four are a robot's."""
    lines = [
        "ann;tea;5;100;view",
        "ann;cup;5;200;view",
        "ann;cup;5;300;buy",
        "ann;pot;1;400;view",
        "ann;jam;5;50;view",
        "ann;jam;5;900;view",
        "ann;tea;x;100;view",
        *(f"bot;tea;5;{time};view" for time in (100, 101, 102, 103)),
    ]
    (tmp_path / "log.txt").write_text("\n".join(lines))
    (tmp_path / "items.csv").write_text("sku,name\ntea,Green tea\ncup,Cup\n")
    layout = ("--format", "csv", "--separator", ";", "--columns", "user,item,stars,when,kind")
    roles = ("--rating-column", "stars", "--time-column", "when", "--event-column", "kind", "--time-unit", "seconds")
    filters = ("--minimum-rating", "4", "--since", "60", "--until", "900", "--bot-events", "3", "--duplicates", "last")
    weights = ("--event-weight", "view=1", "--event-weight", "buy=3", "--on-error", "skip")
    items = ("--items", tmp_path / "items.csv", "--item-field", "item=sku", "--item-field", "title=name")
    result = run_json(
        "prepare", tmp_path / "log.txt", "--out", tmp_path / "shop", *layout, *roles, *filters, *weights, *items
    )
    assert result["rejected"] == 1
    data = Interactions.from_dataset(tmp_path / "shop")
    assert data.history_ids("ann") == ["tea", "cup"]
    assert data.weights is not None
    assert dict(zip(data.history_ids("ann"), data.weights.tolist(), strict=False)) == {"tea": 1.0, "cup": 3.0}
    titles = open_dataset(tmp_path / "shop").items
    assert dict(zip(titles["id"], titles["title"], strict=True)) == {"tea": "Green tea", "cup": "Cup"}


@pytest.mark.parametrize(("field", "kind"), [("item=sku", "item"), ("title=name", "title")])
def test_a_column_that_an_item_file_lacks(events_file: Path, tmp_path: Path, field: str, kind: str) -> None:
    (tmp_path / "items.csv").write_text("item,label\ni1,Green tea\n")
    options = ("--items", tmp_path / "items.csv", "--item-field", field)
    line = error_of("prepare", events_file, "--out", tmp_path / "shop", *options)
    assert re.search(rf"items\.csv has no column '\w+' for the {kind}, only item, label: name one of these", line)


def test_splits_take_their_options(events_file: Path, tmp_path: Path) -> None:
    result = run_json("prepare", events_file, "--out", tmp_path / "shop", "--split", "random:ratio=0.5,seed=3")
    train_part, test_part = Interactions.from_file(events_file).split("random", ratio=0.5, seed=3)
    assert result["parts"] == {"train": len(train_part), "test": len(test_part)}


def test_a_person_sees_every_step(events_file: Path, tmp_path: Path) -> None:
    arguments = (
        "prepare",
        events_file,
        "--out",
        tmp_path / "shop",
        "--minimum-item-events",
        "2",
        "--split",
        "leave_last_out",
    )
    text = run(*arguments).stdout
    assert "720 events, 60 users, 30 items" in text
    assert "Events of its parts: train 660, test 60" in text
    again = run(*arguments)
    assert "the same dataset exists already, so nothing was done" in again.stderr
    assert again.stdout.startswith("Prepared with polars earlier")
    assert "already" not in run(*arguments, "--force").stderr


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--split", "yesterday"), "there is no split 'yesterday': use one of leave_last_out"),
        (("--split", "last_days:weeks=1"), "the split last_days has no option 'weeks'"),
        (("--split", "last_days:days"), "--split 'days' has no name and value: write name=value"),
        (("--split", "last_days:days=many"), "--split: 'many' is not a number: write name=number"),
        (("--event-weight", "view=much"), "--event-weight: 'much' is not a number: write name=number"),
        (("--engine", "dask"), "there is no engine 'dask': use polars or spark"),
        (("--master", "local[2]"), "--master is for --engine spark: give both, or none"),
        (
            ("--minimum-rating", "4"),
            "events.csv: an option needs the rating of every event: name its column with --rating-column",
        ),
        (("--duplicates", "some"), "--duplicates is 'some': give one of keep, exact, first, last, sum"),
        (("--k-core",), "--k-core without minimum counts does nothing"),
        (("--test-events", "events.csv"), "the --split given and --test-events go together"),
    ],
)
def test_options_that_cannot_be(
    options: tuple[str, ...], line: str, events_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_bytes(events_file.read_bytes())
    assert error_of("prepare", "events.csv", "--out", "shop", *options).startswith(line)
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


def attempts(folder: Path, path: Path, *options: str) -> tuple[int, str]:
    """Prepare, each time with the flags that the last error named; how many attempts it took, and the notes."""
    for attempt in range(1, 4):
        result = CliRunner().invoke(app, ["prepare", str(path), "--out", str(folder / "shop"), *options])
        if result.exit_code == 0:
            return attempt, result.stderr
        assert result.exit_code == 2, result.stderr
        words = shlex.split(result.stderr.splitlines()[-1].rpartition(": ")[2].replace(",", " "))
        flags = [place for place, word in enumerate(words) if word.startswith("--") and word != "--on-error"]
        options += tuple(word for place in flags for word in words[place : place + 2])
    raise AssertionError(options)


@pytest.mark.parametrize(
    ("name", "content", "events"),
    [
        (
            "books.csv",
            b'"User-ID";"ISBN";"Book-Rating"\r\n"1";"2";"0"\r\n"3";"K\xe4se \\"x\\"";"1"\r\n"3";"a\\"b";"1"\r\n',
            3,
        ),
        ("excel.csv", "\ufeffuser;item;time;weight\r\nann;tea;13.05.2024 10:00;1,5\r\n".encode(), 1),
        ("beauty.txt", b"1 30\n1 10\n", 2),
        ("utf16.csv", "user,item\nann,K\u00e4se\n".encode("utf-16-le"), 1),
        ("days.csv", b"user,item,date\nann,tea,20240513\n", 1),
    ],
)
def test_messy_files_are_prepared_after_following_the_message_once(
    name: str, content: bytes, events: int, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    tried, _ = attempts(tmp_path, path)
    assert tried == 2
    assert len(Interactions.from_dataset(tmp_path / "shop")) == events


def test_flags_and_notes_are_those_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("buyer,sku,order_date\nann,tea,2024\n")
    message = error_of("prepare", path, "--out", tmp_path / "shop")
    assert "name the column of the user with --user-column; try: lorentzrec prepare " in message
    result = run("prepare", path, "--out", tmp_path / "shop", "--user-column", "buyer")
    assert "note: the column 'sku' is taken for the item" in result.stderr
    assert "'order_date' may be a time and is not used: if it is, give --time-column" in result.stderr
    path.write_text("user,item,time\nann,tea,13.05.2024\n")
    line = error_of("train", path, "--out", tmp_path / "model")
    assert "give --time-format %d.%m.%Y" in line
    assert line.endswith("(options of lorentzrec prepare: make a dataset first)")


def test_rejected_rows_are_mentioned(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item\nann,tea\nbob\n" + "c" * 600 + ",tea\n")
    result = run("prepare", path, "--out", tmp_path / "shop", "--on-error", "skip")
    assert "note: 2 faulty rows skipped: 1 field instead of 2 (1), column 'user': longer than 512 characters (1)" in (
        result.stderr
    )
    assert "see rejected.parquet in the dataset" in result.stderr


def test_ordered_files(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item\nann,tea\nann,cup\nann,jam\nbob,tea\n")
    result = run("prepare", path, "--out", tmp_path / "shop", "--ordered", "--split", "leave_last_out")
    assert "note: times are positions in the files, not moments" in result.stderr
    dataset = open_dataset(tmp_path / "shop")
    assert dataset.manifest["times"] == "positions"
    assert dataset.interactions("test").history_ids("ann") == ["jam"]
    line = error_of("prepare", path, "--out", tmp_path / "shop", "--ordered", "--split", "last_days")
    assert line == "the --split last_days needs times, and positions are not times: use another split"


def test_a_model_is_no_event_file(model: Path, tmp_path: Path) -> None:
    line = error_of("train", model, "--out", tmp_path / "other")
    assert line == f"{model} is a lorentzrec model, not events: give a dataset or event files"


def test_long_ids_are_cut_in_tables() -> None:
    made = table({"item": "left"}, [["x" * 10_000]])
    assert list(made.columns[0].cells) == ["x" * 200 + "..."]


def test_a_model_is_not_overwritten_with_a_dataset(events_file: Path, tmp_path: Path) -> None:
    run("train", events_file, "--out", tmp_path / "model", *SETTINGS)
    line = error_of("prepare", events_file, "--out", tmp_path / "model")
    assert line.endswith("holds something else (lorentzrec model): choose another name, or remove it first")


def test_statistics_are_those_of_the_library(shop: Path, events_file: Path) -> None:
    of_dataset, of_file = run_json("stats", shop, events_file)
    assert of_dataset == {"name": "shop"} | summarise(Interactions.from_dataset(shop)).to_dict()
    assert of_file == of_dataset | {"name": "events.csv"}


def test_files_of_the_same_name_have_their_folders_in_the_heading(
    events_file: Path, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "events.csv").write_bytes(events_file.read_bytes())
    heading = run("stats", "a/events.csv", shop, "b/events.csv").stdout.splitlines()[0]
    assert heading.split() == ["a/events.csv", "shop", "b/events.csv"]


def test_statistics_stand_in_columns(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    lines = run("stats", shop).stdout.splitlines()
    assert max(map(len, lines)) <= 70
    rows = {line.split("  ")[0].strip(): line.split()[-1] for line in lines[2:] if line}
    assert (rows["customers"], rows["items"], rows["density"], rows["orders"]) == ("60", "30", "24.3%", "-")
    assert rows["first event"].startswith("1970-01-")


def test_positions_are_not_shown_as_dates(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("1 30\n1 10\n2 30\n")
    run("prepare", tmp_path / "e.txt", "--reader", "sasrec", "--out", tmp_path / "d")
    of_file, of_dataset = (
        run_json("stats", tmp_path / "e.txt", "--reader", "sasrec")[0],
        run_json("stats", tmp_path / "d")[0],
    )
    assert of_file | {"name": "d"} == of_dataset
    assert (of_file["events"], of_file["first_time"], of_file["ties"]) == (3, None, None)


def test_synthesize_then_prepare(tmp_path: Path) -> None:
    sizes = ("--customers", "50", "--items", "40", "--interactions", "300", "--seed", "3")
    result = run_json("synthesize", "--out", tmp_path / "raw", *sizes)
    assert result["interactions"] == 300
    assert pl.read_parquet(Path(result["events"], "*.parquet")).columns == ["user", "item", "time"]
    prepared = run_json("prepare", result["events"], "--items", result["items_file"], "--out", tmp_path / "shop")
    assert prepared["counts"] == {"events": 300, "users": 50, "items": result["items_met"]}
    assert error_of("synthesize", "--out", tmp_path / "shop", *sizes).endswith(
        "choose another name, or remove it first"
    )
    assert "300 events of 50 customers" in run("synthesize", "--out", tmp_path / "raw", *sizes).stdout


def test_synthesize_refuses_what_cannot_be(tmp_path: Path) -> None:
    assert error_of("synthesize", "--out", tmp_path / "raw", "--space", "round").startswith("space is 'round'")
    assert error_of("synthesize", "--out", tmp_path / "raw", "--items", "0").startswith(
        "items is 0: give a whole number of at least 1"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_error_about_a_file_has_a_command_to_copy(tmp_path: Path) -> None:
    path = tmp_path / "Export.csv"
    lines = ["Kunde;Artikel;Datum;Menge", "Müller;Käse;13.05.2024 10:00;1,5", "Müller;Tee;12.05.2024 09:30;2,25"]
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    message = error_of("prepare", path, "--out", tmp_path / "shop")
    command = shlex.split(message.partition("; try: ")[2])
    assert command[0] == "lorentzrec"
    assert command[-4:] == ["--encoding", "latin-1", "--time-format", "%d.%m.%Y %H:%M"]
    run(*command[1:])
    data = Interactions.from_dataset(tmp_path / "shop")
    assert data.history_ids("Müller") == ["Tee", "Käse"]
    path.write_text("buyer,item,when\nu,a,1\n")
    assert "--user-column COLUMN" in error_of("prepare", path, "--out", tmp_path / "other")
    path.write_text('user,item,weight\nu,a,"1,250"\n')
    ambiguous = error_of("prepare", path, "--out", tmp_path / "other")
    assert "--decimal , or --thousands ," in ambiguous
    assert "try:" not in ambiguous  # the wrong one of the two would divide every weight by 1,000


def test_deliveries_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("base.csv").write_text("user,item,time\nann,tea,10\nbob,cup,20\n")
    Path("day.csv").write_text("user,item,time\nann,jam,15\n")
    run("prepare", "base.csv", "--out", "shop")
    result = run("prepare", "--append", "day.csv", "--out", "shop")
    assert re.search(r"day\.csv appended +count", result.stdout)
    assert "The dataset shop has 3 events, 2 users, 3 items" in result.stdout
    assert "1 event is not newer" in result.stderr
    assert run_json("prepare", "--append", "day.csv", "--out", "shop")["unchanged"] is True
    assert "events of customers" not in run("stats", "shop").stderr
    assert "--append uses the options of the dataset, so it takes no --split" in error_of(
        "prepare", "--append", "day.csv", "--out", "shop", "--split", "leave_last_out"
    )
    assert "prepare without --append takes no --replace" in error_of("prepare", "base.csv", "--out", "x", "--replace")
    assert "there are no event files" in error_of("prepare", "--out", "other")
    assert run_json("prepare", "--compact", "--out", "shop")["counts"] == {"events": 3, "users": 2, "items": 3}
    assert run_json("prepare", "--compact", "--out", "shop") == {"address": "shop", "unchanged": True}
    assert open_dataset("shop").interactions().history_ids("ann") == ["tea", "jam"]
