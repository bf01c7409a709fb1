"""The data of one tuning or comparison: what to train on, what to choose by, and what to test on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lorentzrec.data.arrays import make_mask
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import events_to_train_on
from lorentzrec.errors import InputError

VALIDATION_RATIO = 0.1
"""Share of the training events held out if there is neither a validation part nor an order."""


@dataclass(frozen=True, eq=False)
class TuningTask:
    """The parts of one data set. Settings are chosen by `train` and `validation` only, never by the test."""

    train: Interactions
    validation: Interactions
    before_test: Interactions
    """What may be trained on once the settings are chosen: training and validation."""
    test: Interactions | None
    histories: Interactions
    """The events before the test of its customers, including those who are in no training part."""

    @classmethod
    def from_parts(cls, parts: Mapping[str, Interactions]) -> TuningTask:
        """From the parts of a dataset, by name. Without a validation part, the last training event of every customer is
        held out, with orders the last order, or a random tenth of the training events if they have no times."""
        train, validation = parts["train"], parts.get("validation")
        before = events_to_train_on(parts)
        if validation is None:
            train, validation = (
                train.split("leave_last_order_out" if train.in_orders else "leave_last_out")
                if train.ordered
                else train.split("random", ratio=VALIDATION_RATIO)
            )
        return cls(train, validation, before, parts.get("test"), parts.get("history", before))

    def require_test(self) -> Interactions:
        """The test part; an `InputError` if there is none."""
        if self.test is None:
            raise InputError("the dataset has no test part: prepare it with --split leave_last_two")
        return self.test

    def sample_validation(self, users: int, seed: int = 0) -> Interactions:
        """The validation events of at most `users` customers, chosen at random."""
        owners = np.flatnonzero(self.validation.lengths)
        if len(owners) <= users:
            return self.validation
        chosen = np.random.default_rng(seed).choice(owners, users, replace=False)
        return self.validation.select(make_mask(chosen, len(self.validation.users))[self.validation.user_rows])
