"""Tests compare the kind of a store's error, not its words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lorentzrec.errors import LorentzrecError
from lorentzrec.serving.stores.faults import StoreFault


@contextmanager
def raises_fault(fault: StoreFault, *details: object) -> Iterator[pytest.ExceptionInfo[LorentzrecError]]:
    """The block raises this fault; the message names the details, such as a file or a version."""
    error_class, _ = fault.value
    with pytest.raises(error_class) as caught:
        yield caught
    assert caught.value.kind is fault
    assert all(str(detail) in str(caught.value) for detail in details), caught.value
