"""The texts of the errors of stores."""

from __future__ import annotations

import string

import pytest

from lorentzrec.errors import LorentzrecError
from lorentzrec.serving.stores.faults import StoreFault


@pytest.mark.parametrize("fault", StoreFault)
def test_every_fault_is_one_line_that_ends_with_the_next_action(fault: StoreFault) -> None:
    error_class, text = fault.value
    fields = {name: f"<{name}>" for _, name, _, _ in string.Formatter().parse(text) if name}
    error = fault.error(**fields)
    assert isinstance(error, LorentzrecError)
    assert (type(error), error.kind) == (error_class, fault)
    assert all(value in str(error) for value in fields.values())
    assert "\n" not in str(error)
    assert str(error).rpartition(": ")[2]


@pytest.mark.parametrize("fault", [StoreFault.TOO_LARGE, StoreFault.HISTORY_DAMAGED])
def test_faults_that_clients_receive_do_not_name_the_store(fault: StoreFault) -> None:
    assert "{store}" not in fault.value[1]


def test_errors_of_one_class_differ_in_their_kind() -> None:
    errors = [fault.error(store="file:shop") for fault in (StoreFault.CLOSED, StoreFault.FILE_GONE)]
    assert len({type(error) for error in errors}) == 1
    assert [error.kind for error in errors] == [StoreFault.CLOSED, StoreFault.FILE_GONE]
