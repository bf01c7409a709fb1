"""What a set of data asks: what to learn from while choosing, what to choose by, what to learn from in the end, and
the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import before_test
from lorentzrec.errors import InputError

VALIDATION_RATIO = 0.1
"""Share of the training events held out where there is neither a validation part nor an order."""


@dataclass(frozen=True, eq=False)
class Question:
    """The parts of one set of data. Choosing uses `learned` and `validation` only: nothing is chosen by the test."""

    learned: Interactions
    validation: Interactions
    before: Interactions
    """All that may be learned from once everything is chosen: training and validation."""
    test: Interactions | None
    histories: Interactions
    """What the customers of the test did before it; their own for customers who are in no training part."""

    @classmethod
    def of_parts(cls, parts: Mapping[str, Interactions]) -> Question:
        """From the parts of a dataset, by name. Validation is the part of that name; else the last training event of
        everybody, and without times a random tenth of the training events."""
        train, validation = parts["train"], parts.get("validation")
        before = before_test({name: part for name, part in parts.items() if name != "history"})
        histories = before_test(dict(parts))
        if validation is None:
            how: tuple[Interactions, ...] = (
                train.split("leave_last_out") if train.ordered else train.split("random", ratio=VALIDATION_RATIO)
            )
            return cls(how[0], how[1], before, parts.get("test"), histories)
        return cls(train, validation, before, parts.get("test"), histories)

    def asked_test(self) -> Interactions:
        """The test part, which comparisons need."""
        if self.test is None:
            raise InputError("the dataset has no test part: prepare it with --split leave_last_two")
        return self.test

    def validation_of(self, users: int, seed: int = 0) -> Interactions:
        """The validation events of so many customers, drawn at random; of all if there are no more."""
        owners = np.flatnonzero(self.validation.lengths)
        if len(owners) <= users:
            return self.validation
        chosen = np.zeros(len(self.validation.users), bool)
        chosen[np.random.default_rng(seed).choice(owners, users, replace=False)] = True
        return self.validation.select(chosen[self.validation.user_rows])
