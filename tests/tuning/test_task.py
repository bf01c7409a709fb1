"""What is learned from, what is chosen by, and what is never looked at."""

from __future__ import annotations

import pytest

from lorentzrec.errors import InputError
from lorentzrec.tuning.task import Question
from tuning.small_task import grouped


def test_a_validation_part_is_used_and_learned_from_in_the_end() -> None:
    data = grouped()
    train, validation, test = data.split("leave_last_two")
    question = Question.of_parts({"train": train, "validation": validation, "test": test})
    assert (question.learned, question.validation, question.test) == (train, validation, test)
    assert question.before.digest == data.split("leave_last_out")[0].digest
    assert question.histories.digest == question.before.digest


@pytest.mark.parametrize(("ordered", "least", "most"), [(True, 40, 40), (False, 30, 110)])
def test_else_validation_comes_out_of_training(ordered: bool, least: int, most: int) -> None:
    """The last of everybody's events; without times about a tenth of 760."""
    train, test = grouped(ordered=ordered).split("leave_last_out")
    question = Question.of_parts({"train": train, "test": test})
    assert question.before is train
    assert len(question.learned) + len(question.validation) == len(train)
    assert least <= len(question.validation) <= most


def test_new_customers_have_histories_of_their_own() -> None:
    train, history, test = grouped().split("held_out_customers", share=0.3)
    question = Question.of_parts({"train": train, "history": history, "test": test})
    assert question.before is train
    assert question.histories is history


def test_some_customers_to_validate_on() -> None:
    question = Question.of_parts({"train": grouped()})
    assert len(question.validation_of(7)) == 7
    assert question.validation_of(40) is question.validation
    with pytest.raises(InputError, match="the dataset has no test part: prepare it with --split"):
        question.asked_test()
