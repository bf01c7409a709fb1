"""Recommendations to the customers of a store on Spark; tasks run in this process."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from lorentzrec.batch import recommending
from lorentzrec.batch.recommending import BatchOptions, BatchSource, recommend_to_all
from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event
from lorentzrec.spark.recommending import recommend_on_spark
from tests.serving.small_shop import shop_model
from tests.spark.executor import Executor


def test_the_same_as_on_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 4)
    model, titles = replace(shop_model(), users=None, histories=None), pl.Series([f"T{row}" for row in range(40)])
    options = BatchOptions(k=3, diversity=0.2, reasons=True)
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        store.add_events(
            [Event(f"c{user}", f"i{user + 3 * item}", item, str(item)) for user in range(10) for item in range(4)]
        )
        store.forget("c3")
        source = BatchSource(model, "shop", store=store, titles=titles)
        here = recommend_to_all(source, tmp_path / "here", options)
        execute = Executor()
        there = recommend_on_spark(source, str(tmp_path / "there"), options, session=execute)
        assert replace(there, store=None) == replace(here, store=None)
        assert execute.ran == [("_write_part", number) for number in range(3)]
        assert pl.read_parquet(tmp_path / "there").equals(pl.read_parquet(tmp_path / "here"))
        with pytest.raises(InputError, match="where a store and titles cannot be used: give a shared folder"):
            recommend_on_spark(source, "az://container/all", options, session=Executor())


def test_a_process_that_outlives_a_run_reads_histories_again(tmp_path: Path) -> None:
    """The second run has other customers in a folder with the same name."""
    source_model, out = replace(shop_model(), users=None, histories=None), tmp_path / "all"
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        store.add_events([Event(f"c{user}", f"i{user}", 1.0, "a") for user in range(4)])
        source = BatchSource(source_model, "shop", store=store)
        recommend_on_spark(source, str(out), BatchOptions(k=2), session=Executor())
        store.forget("c1")
        store.add_events([Event("later", "i9", 1.0, "a")])
        recommend_on_spark(source, str(out), BatchOptions(k=2), session=Executor())
    assert set(pl.read_parquet(out)["user"]) == {"c0", "c2", "c3", "later"}


def test_a_damaged_part_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 20)
    shop_model().save(tmp_path / "model")
    source, out = recommending.source_of_model(tmp_path / "model"), tmp_path / "all"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("lorentzrec.spark.recommending.finish_parts", stop)
        with pytest.raises(KeyboardInterrupt):
            recommend_on_spark(source, str(out), BatchOptions(), session=Executor())
    part = tmp_path / ".all.unfinished" / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:-100])
    report = recommend_on_spark(source, str(out), BatchOptions(), session=Executor())
    assert report.parts_again == 1
    recommend_to_all(source, tmp_path / "expected", BatchOptions())
    assert pl.read_parquet(out).equals(pl.read_parquet(tmp_path / "expected"))
