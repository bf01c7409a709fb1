"""Tasks of Spark in this process, one after another."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from lorentzrec.spark.tasks import Work


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
