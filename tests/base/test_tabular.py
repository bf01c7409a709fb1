"""Results as pandas frames, files, Markdown and LaTeX."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec import Interactions, Model, TrainingConfig, evaluate, load, train
from lorentzrec.base.tabular import TableText, to_pandas
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.evaluation.report import Metric, Report

DATA = Interactions.from_pairs(list("aabbcc"), ["x", "y", "y", "z", "x", "w"], times=[1, 2, 1, 2, 1, 2])
MODEL = train(DATA, TrainingConfig(dimension=3, epochs=2, threads=1))


def test_a_batch_as_pandas_csv_and_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    batch = MODEL.recommend_many(users=["a", "b"], k=2)
    frame = batch.to_frame()
    found = batch.to_pandas()
    assert found.columns.tolist() == ["user", "rank", "item", "score"]
    assert found["item"].tolist() == frame["item"].to_list()
    assert found["score"].dtype == np.float32
    batch.write_parquet(tmp_path / "batch.parquet")
    assert pl.read_parquet(tmp_path / "batch.parquet").equals(frame)
    text = batch.to_csv(tmp_path / "batch.csv")
    assert (tmp_path / "batch.csv").read_text() == text == batch.to_csv()
    assert pl.read_csv(io.StringIO(text))["item"].to_list() == frame["item"].to_list()
    similar = MODEL.similar_items_many(["x", "y"], 2)
    assert similar.to_pandas()["query"].tolist() == ["x", "x", "y", "y"]
    single = MODEL.recommend(history=["x"], k=2)
    assert single.to_pandas()["item"].tolist() == single.ids
    single.write_parquet(tmp_path / "single.parquet")
    assert pl.read_parquet(tmp_path / "single.parquet").columns == ["rank", "item", "score"]
    empty = MODEL.recommend_many([], k=2)
    assert len(empty.to_pandas()) == 0


def test_reasons_survive_parquet_and_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    batch = MODEL.recommend_many([["x", "y"]], k=2, reasons=True)
    batch.write_parquet(tmp_path / "batch.parquet")
    assert pl.read_parquet(tmp_path / "batch.parquet").equals(batch.to_frame())
    assert batch.to_pandas()["because"].tolist() == batch.to_frame()["because"].to_list()


def test_events_as_frames_with_ids() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = DATA.to_frame()
    assert frame.columns == ["user", "item", "time"]
    assert frame.select("user", "item").rows() == [
        ("a", "x"), ("a", "y"), ("b", "y"), ("b", "z"), ("c", "x"), ("c", "w"),
    ]  # fmt: skip
    assert DATA.to_frame(rows=True).columns == ["user_row", "item_row", "time"]
    found = DATA.to_pandas()
    assert found["time"].tolist() == [1, 2, 1, 2, 1, 2]
    again = Interactions.from_frame(found)
    assert again.digest == DATA.digest
    numbers = Interactions.from_pairs([7, 7], [30, 10], weights=[1.5, 2.0])
    assert sorted(numbers.to_frame().rows()) == [(7, 10, 2.0), (7, 30, 1.5)]


def test_missing_numbers_are_missing_in_pandas() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    found = to_pandas(pl.DataFrame({"p": [0.5, None], "n": [1, 2], "name": ["a", None]}))
    assert found["p"].isna().tolist() == [False, True]
    assert found["n"].dtype == np.int64
    assert found["name"].isna().tolist() == [False, True]


def test_without_pandas_there_is_one_line() -> None:
    script = (
        "import sys; sys.modules['pandas'] = None\n"
        "import polars as pl\n"
        "from lorentzrec.base.tabular import to_pandas\n"
        "to_pandas(pl.DataFrame({'a': [1]}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (
        done.stderr.strip().splitlines()[-1]
        == "lorentzrec.errors.InputError: to_pandas needs pandas: pip install pandas"
    )


REPORT = Report(
    "full",
    {"ndcg@10": Metric(0.25, 0.2, 0.3), "coverage": Metric(0.5)},
    {},
    Vocabulary(["a"]),
    {"events": 1, "users": 1},
)


def test_a_report_in_markdown_and_latex(tmp_path: Path) -> None:
    markdown = REPORT.to_markdown(tmp_path / "report.md")
    assert markdown == (
        "| metric | mean | 95 % interval |\n"
        "| --- | ---: | ---: |\n"
        "| ndcg@10 | 0.2500 | 0.2000 to 0.3000 |\n"
        "| coverage | 0.5000 |  |\n"
    )
    assert (tmp_path / "report.md").read_text() == markdown
    latex = REPORT.to_latex(tmp_path / "report.tex")
    assert latex == (
        "\\begin{tabular}{lrr}\n"
        "\\toprule\n"
        "metric & mean & 95 \\% interval \\\\\n"
        "\\midrule\n"
        "ndcg@10 & 0.2500 & 0.2000 to 0.3000 \\\\\n"
        "coverage & 0.5000 &  \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
    )
    assert (tmp_path / "report.tex").read_text() == latex
    assert REPORT.to_csv() == "metric,value,low,high\nndcg@10,0.25,0.2,0.3\ncoverage,0.5,,\n"


def test_a_real_report_as_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    report = evaluate(MODEL, Interactions.from_pairs(["a"], ["z"], [3]), k=2)
    frame = report.to_pandas().set_index("metric")
    assert frame.loc["ndcg@2", "value"] == report["ndcg@2"]
    report.write_parquet(tmp_path / "report.parquet")
    assert pl.read_parquet(tmp_path / "report.parquet").equals(report.to_frame())


def test_special_characters_are_escaped() -> None:
    table = TableText(("a|b", "c_d"), [("50 % & ~^#${}\\", "0.1 ± 0.2"), ("two\nlines", "<b>*x*</b>")])
    assert table.to_latex().splitlines()[2:6] == [
        r"a|b & c\_d \\",
        r"\midrule",
        r"50 \% \& \textasciitilde{}\textasciicircum{}\#\$\{\}\textbackslash{} & 0.1 $\pm$ 0.2 \\",
        r"two lines & <b>*x*</b> \\",
    ]
    assert table.to_markdown().splitlines()[0] == r"| a\|b | c\_d |"
    assert table.to_markdown().splitlines()[3] == r"| two lines | \<b>\*x\*\</b> |"


def test_a_model_is_loaded_by_its_class(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.item_points, load(tmp_path / "model").item_points)
    assert loaded.recommend(history=["x"]) == MODEL.recommend(history=["x"])
