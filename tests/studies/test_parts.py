"""Parts are saved when finished, found by their key, made again when damaged, and not saved when interrupted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lorentzrec.studies.parts import Part, PartStore


def squares(
    folder: Path, made: list[int], numbers: range, *, fails_at: int | None = None
) -> tuple[PartStore, list[int]]:
    def make(number: int) -> int:
        if number == fails_at:
            raise RuntimeError("killed")
        made.append(number)
        return number * number

    store = PartStore(folder)
    parts = [Part(f"number {number}", {"number": number}, lambda number=number: make(number)) for number in numbers]  # type: ignore[misc]
    return store, store.run(parts, lambda line: None)


def test_a_stopped_run_resumes(tmp_path: Path) -> None:
    made: list[int] = []
    with pytest.raises(RuntimeError):
        squares(tmp_path, made, range(5), fails_at=3)
    assert made == [0, 1, 2]
    store, results = squares(tmp_path, made, range(5))
    assert (made, results) == ([0, 1, 2, 3, 4], [0, 1, 4, 9, 16])
    assert (store.reused, store.made) == (3, 2)


def test_another_key_is_another_part(tmp_path: Path) -> None:
    store = PartStore(tmp_path)
    for expected in (1, 2):
        assert store.run([Part("x", {"seed": expected}, lambda value=expected: value)], print) == [expected]  # type: ignore[misc]
    assert store.run([Part("x", {"seed": 1}, lambda: 3)], print) == [1]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"key": {}, "seconds": 1, "result": 7}'])
def test_a_damaged_part_is_made_again(tmp_path: Path, content: str) -> None:
    part = Part("x", {}, lambda: [1, 2])
    PartStore(tmp_path).run([part], print)
    (file,) = tmp_path.iterdir()
    file.write_text(content)
    assert PartStore(tmp_path).run([part], print) == [[1, 2]]


def test_results_have_the_types_of_a_later_run(tmp_path: Path) -> None:
    assert PartStore(tmp_path).run([Part("x", {}, lambda: {"pair": (1, 2)})], print) == [{"pair": [1, 2]}]


def test_an_interrupted_part_is_not_saved(tmp_path: Path) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        PartStore(tmp_path).run([Part("x", {}, interrupt)], print)
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_what_is_left(tmp_path: Path) -> None:
    squares(tmp_path, [], range(2))
    lines: list[str] = []
    store = PartStore(tmp_path)
    store.run([Part(f"number {number}", {"number": number}, lambda: 0) for number in range(4)], lines.append)
    assert lines == [
        "2 of 4 parts are reused from an earlier run",
        "part 1 of 2, number 2: begins",
        "part 1 of 2, number 2: 0.0 s",
        "part 2 of 2, number 3: begins",
        "part 2 of 2, number 3: 0.0 s",
    ]
