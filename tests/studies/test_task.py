"""The parts of a dataset that are used for training, for choosing, and for the test."""

from __future__ import annotations

import pytest

from lorentzrec.errors import InputError
from lorentzrec.studies.task import TuningTask
from tests.studies.small_data import grouped


def test_a_validation_part_is_used_and_trained_on_in_the_end() -> None:
    data = grouped()
    train, validation, test = data.split("leave_last_two")
    task = TuningTask.from_parts({"train": train, "validation": validation, "test": test})
    assert (task.train, task.validation, task.test) == (train, validation, test)
    assert task.before_test.digest == data.split("leave_last_out")[0].digest
    assert task.histories.digest == task.before_test.digest


@pytest.mark.parametrize(("ordered", "least", "most"), [(True, 40, 40), (False, 30, 110)])
def test_otherwise_validation_is_held_out_of_training(ordered: bool, least: int, most: int) -> None:
    """The last event of every customer; without times about a tenth of 760."""
    train, test = grouped(ordered=ordered).split("leave_last_out")
    task = TuningTask.from_parts({"train": train, "test": test})
    assert task.before_test is train
    assert len(task.train) + len(task.validation) == len(train)
    assert least <= len(task.validation) <= most


def test_new_customers_have_their_own_histories() -> None:
    train, history, test = grouped().split("held_out_customers", share=0.3)
    task = TuningTask.from_parts({"train": train, "history": history, "test": test})
    assert task.before_test is train
    assert task.histories is history


def test_some_customers_to_validate_on() -> None:
    task = TuningTask.from_parts({"train": grouped()})
    assert len(task.sample_validation(7)) == 7
    assert task.sample_validation(40) is task.validation
    with pytest.raises(InputError, match="the dataset has no test part: prepare it with --split"):
        task.require_test()
