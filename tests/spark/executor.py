"""Tasks of Spark in this process, one after another."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lorentzrec.spark.tasks import Round, Work, train_part


class Executor:
    """A Spark session that runs tasks in this process, and counts them."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []
        self._found: dict[int, dict[str, Any]] = {}

    def range(self, *_: int) -> Executor:
        return self

    def mapInArrow(self, task: Any, schema: str) -> Executor:  # noqa: N802 - as in Spark
        given = task.keywords["work"].keywords
        self._found = self(given["work"], given["numbers"], given["options"])
        return self

    def collect(self) -> list[Any]:
        return [SimpleNamespace(result=json.dumps(result)) for result in self._found.items()]

    def __call__(self, work: Work, numbers: list[int], options: dict[str, Any]) -> dict[int, dict[str, Any]]:
        self.ran += [(work.__name__, number) for number in numbers]
        return {number: work(number, **options) for number in numbers}


class Damaging(Executor):
    """Damages what a round of training wrote, with a function of the task, in the first `times` rounds."""

    def __init__(self, damage: Callable[[Round], None], times: int = 1) -> None:
        super().__init__()
        self._damage, self._left = damage, times

    def __call__(self, work: Work, numbers: list[int], options: dict[str, Any]) -> dict[int, dict[str, Any]]:
        found = super().__call__(work, numbers, options)
        if work is train_part and self._left:
            self._left -= 1
            self._damage(options["task"])
        return found
