"""The compiled ranking is that of the reference: every way to find candidates, with boosts, filters and ties."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lorentzrec.base.c_compiler import compile_library, library_path, load_library
from lorentzrec.errors import ArtifactError, InputError, LorentzrecError
from lorentzrec.points.index import build_index
from lorentzrec.points.memory import Memory
from lorentzrec.points.native import SOURCE, Question, pack, unpack
from lorentzrec.points.points import History, Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.space import Space
from lorentzrec.points.trend import Trend
from tests.reference.ranking import rank

KINDS: list[tuple[Any, Any]] = [
    ("hyperboloid", "inner"),
    ("hyperboloid", "distance"),
    ("euclidean", "inner"),
    ("euclidean", "distance"),
]
WIDTHS = (1, 3, 7, 8, 9, 19)


def random_points(
    seed: int, count: int, geometry: Any, score: Any, dimension: int = 5, *, memory: str = "none", recency: float = 0.8
) -> Points:
    """A third of the points occur twice, so that there are ties."""
    random = np.random.default_rng(seed)

    def draw() -> NDArray[np.float32]:
        space = random.normal(size=(count, dimension)).astype(np.float32)
        space[: count // 3] = space[count - count // 3 :]
        if geometry == "euclidean":
            return space
        return np.concatenate([np.sqrt(1 + np.square(space).sum(axis=1, keepdims=True)), space], axis=1)

    remembered = None
    if memory != "none":
        sizes = random.integers(0, 6, count)
        columns = [np.sort(random.choice(count, min(size, count), replace=False)) for size in sizes]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in columns])])
        values = random.uniform(0.1, 2, offsets[-1]).astype(np.float32)
        flat = np.concatenate([np.empty(0, np.int64), *columns]).astype(np.int32)
        remembered = Memory(offsets.astype(np.int64), flat, values, memory == "ordered", 0.4)
    return Points(draw(), draw(), np.zeros(count, np.int64), Space(geometry, score, recency), remembered)


@pytest.mark.parametrize(("geometry", "score"), KINDS)
@pytest.mark.parametrize("memory", ["none", "ordered", "unordered"])
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_every_way_to_find_candidates_ranks_as_the_reference(
    geometry: str, score: str, memory: str, seed: int, data: st.DataObject
) -> None:
    count, k = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 30))
    points = random_points(seed, count, geometry, score, data.draw(st.sampled_from(WIDTHS)), memory=memory)
    rows = st.integers(0, count - 1)
    history = data.draw(st.lists(rows, min_size=1, max_size=20))
    weights = data.draw(st.none() | st.lists(st.floats(0.1, 3), min_size=len(history), max_size=len(history)))
    excluded = data.draw(st.lists(rows, max_size=40))
    eligible = data.draw(st.none() | st.lists(rows, max_size=80))
    repeats = data.draw(st.none() | st.dictionaries(rows, st.floats(0, 2)))
    expected = rank(points, k, history, event_weights=weights, repeats=repeats, excluded=excluded, eligible=eligible)
    ranker = Ranker(points)
    asked = Question(k, excluded=np.array(excluded, np.int64))
    if eligible is not None:
        mask = np.zeros(count, bool)
        mask[eligible] = True
        asked = asked._replace(eligible=pack(mask))
    given = History(np.array(history), None if weights is None else np.array(weights))
    asked = ranker.add_history(asked, given)
    if repeats is not None:
        values = np.array([repeats[row] for row in repeats], np.float64)
        asked = asked._replace(repeated=np.array([*repeats], np.int64), repeated_boosts=values)
    scorer = points.scorer
    point = ranker.query(*given.for_query).astype(np.float64)
    lists = build_index(points, point[None]).lists
    ways = {
        "all items": asked,
        "scores": asked._replace(query=point, linear=scorer.linear_scores(point[None])[0]),
        "candidates": asked._replace(candidates=np.append(np.arange(count)[::-1], -1)),
        "lists": asked._replace(lists=lists, probes=len(lists), wanted=count),
    }
    for way, question in ways.items():
        answer = scorer.rank(question)
        if answer is None:  # the lists and the given candidates have fewer than k
            assert way in ("lists", "candidates")
            assert len(expected) < k
            continue
        # Equal scores of different points differ by rounding here and there: such items may be swapped.
        assert answer.scores == pytest.approx([value for _, value in expected], rel=1e-5, abs=1e-5), way
        found = dict(zip(answer.rows.tolist(), answer.scores.tolist(), strict=True))
        assert len(found) == len(expected)
        for row, value in expected:
            if row not in found:
                assert value == pytest.approx(expected[-1][1], rel=1e-9, abs=1e-9), way
        assert answer.query == pytest.approx(point, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("geometry", "score"), KINDS)
@pytest.mark.parametrize("with_offsets", [False, True])
@pytest.mark.parametrize("size", [0.05, 1.0])
def test_remembered_items_that_cannot_be_among_the_best_are_skipped_and_no_others(
    geometry: str, score: str, with_offsets: bool, size: float
) -> None:
    """Shares of the greatest sum from 2^-20 to 1, near points and far ones, with and without repeats."""
    count, random = 400, np.random.default_rng(5)
    points = random_points(6, count, geometry, score, 9)
    space = points.item_points[:, 1:] * np.float32(size) if geometry == "hyperboloid" else points.item_points * size
    if geometry == "hyperboloid":
        space = np.concatenate([np.sqrt(1 + np.square(space).sum(axis=1, keepdims=True)), space], axis=1)
    rows = np.arange(count)
    values = np.exp2(-20 * random.random((2, count))).astype(np.float32).ravel()
    offsets = np.minimum(rows.size * np.arange(count + 1), 2 * count)
    memory = Memory(offsets, np.tile(rows, 2).astype(np.int32), values, ordered=False)
    trend = Trend(np.exp2(random.normal(size=count)).astype(np.float32), np.ones(count, np.float32), 0.5, 7, 0)
    for weight in (0.02, 0.5, 5.0):
        ranked = replace(
            points,
            item_points=space.astype(np.float32),
            memory=memory.with_weight(weight),
            trend=trend if with_offsets else None,
        )
        for history in ([0], [1], [0, 1, 1]):
            given = History(np.array(history))
            query = Ranker(ranked).query(*given.for_query)
            boosts = ranked.memory.boosts(given.items, np.array([0, len(history)]))  # type: ignore[union-attr]
            expected = ranked.scorer.exact_scores(query, rows)
            expected[boosts.items] += boosts.values
            if ranked.scorer.item_offsets is not None:
                expected += ranked.scorer.item_offsets
            for repeated in ({}, {7: 0.3, 200: 4.0}):
                asked = Ranker(ranked).add_history(Question(10, raised=True), given)
                asked = asked._replace(
                    repeated=np.array([*repeated], np.int64), repeated_boosts=np.array([*repeated.values()])
                )
                found = ranked.scorer.rank(asked)
                raised = expected.copy()
                raised[list(repeated)] += list(repeated.values())
                assert found is not None
                assert raised[found.rows] == pytest.approx(np.sort(raised)[::-1][:10], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("geometry", "score"), KINDS)
def test_equal_items_are_ranked_by_their_rows(geometry: str, score: str) -> None:
    points = random_points(1, 30, geometry, score)
    same = Points(
        np.repeat(points.item_points[:3], 400, axis=0),
        np.repeat(points.history_points[:3], 400, axis=0),
        np.zeros(1200, np.int64),
        points.space,
    )
    for history in ([0], [500, 3], [1100]):
        rows, scores = Ranker(same).top(None, 700, history=History(np.array(history)))
        assert [row for row, _ in rank(same, 700, history)] == rows.tolist()
        assert np.all(np.diff(scores) <= 0)


@pytest.mark.parametrize(("geometry", "score"), KINDS)
def test_a_codes_error_is_less_than_its_unit(geometry: str, score: str) -> None:
    """A coordinate of an item is that of the centre of its list plus a code, up to half a unit of the code."""
    points = random_points(3, 500, geometry, score, 9)
    lists = build_index(points, points.precise_items(np.arange(2))).lists
    width = points.item_points.shape[1]
    for number in range(len(lists)):
        for index in range(lists.offsets[number], lists.offsets[number + 1]):
            unit = lists.units * lists.scales[number]
            decoded = np.pad(lists.centres[number], (0, len(unit) - lists.centres.shape[1])) + unit * lists.codes[index]
            point = points.item_points[lists.rows[index]]
            assert np.all(np.abs(decoded[:width] - point) <= 0.51 * unit[:width] + 1e-5)
            assert np.all(lists.codes[index, width + 1 :] == 0)
    assert sorted(lists.rows.tolist()) == list(range(500))


def test_many_items_with_a_filter_of_few() -> None:
    points = random_points(5, 5000, "hyperboloid", "distance")
    for chosen in ([], [4999], [0], [63, 64, 65, 4991, 4992], list(range(0, 5000, 611))):
        rows, _ = Ranker(points).top(None, 10, allowed=np.array(chosen, np.int64), history=History(np.array([3, 9])))
        assert rows.tolist() == [row for row, _ in rank(points, 10, [3, 9], eligible=chosen)]


def test_bitmaps() -> None:
    mask = np.zeros(19, bool)
    mask[[0, 9, 18]] = True
    assert pack(mask).tolist() == [1, 2, 4]
    assert unpack(pack(mask), 19).tolist() == mask.tolist()


def test_a_history_without_a_midpoint() -> None:
    points = random_points(5, 10, "hyperboloid", "distance")
    with pytest.raises(InputError, match="the history has no midpoint: give it at least one item of positive weight"):
        Ranker(points).top(None, 3, history=History(np.array([1, 2]), np.array([0.0, 0.0])))


def test_points_without_coordinates_are_refused() -> None:
    """A forged manifest may say so."""
    for geometry, width in (("euclidean", 0), ("hyperboloid", 0), ("hyperboloid", 1)):
        empty = np.ones((3, width), np.float32)
        with pytest.raises(InputError, match="have no coordinates: give points of at least one dimension"):
            Points(empty, empty, np.zeros(3, np.int64), Space(geometry, "distance"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("geometry", "score"), KINDS)
def test_an_item_whose_score_is_no_number_is_never_recommended(geometry: str, score: str) -> None:
    # A point of eight numbers: of others, the scan also reads the first numbers of the next one, times zero.
    points = random_points(5, 200, geometry, score, 8 - (geometry == "hyperboloid"))
    wrong = points.item_points.copy()
    wrong[40:140] = np.nan
    forged = replace(points, item_points=wrong)
    left = [row for row in range(200) if not 40 <= row < 140]
    asked = Ranker(forged).add_history(Question(100), History(np.array([3, 7])))
    lists = build_index(points, points.precise_items(np.arange(2))).lists
    candidates = forged.scorer.rank(asked._replace(candidates=np.arange(200)))
    listed = forged.scorer.rank(asked._replace(lists=lists, probes=len(lists), wanted=200))
    for answer in (forged.scorer.rank(asked), candidates, listed):
        assert answer is not None
        assert sorted(answer.rows.tolist()) == left


@pytest.mark.parametrize(
    "change",
    [
        {"history": np.array([1, 30])},
        {"history": np.array([1, -1])},
        {"known": np.array([30, 1])},
        {"known": np.array([-1, 1])},
        {"repeated": np.array([30])},
        {"excluded": np.array([-1])},
        {"candidates": np.array([30])},
        {"candidates": np.array([-2])},
    ],
    ids=str,
)
def test_rows_of_other_items_are_an_error(change: dict[str, Any]) -> None:
    points = random_points(5, 30, "euclidean", "distance", memory="ordered")
    weights = np.ones(2)
    asked = Question(3, history=np.array([1, 2]), weights=weights, known=np.array([1, 2]), shares=weights)
    asked = asked._replace(repeated=np.array([4]), repeated_boosts=np.ones(1))
    assert points.scorer.rank(asked) is not None
    with pytest.raises(ArtifactError, match="rows that are not those of its items"):
        points.scorer.rank(asked._replace(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"history": np.array([1, 2], np.int32)},
        {"history": np.array([1, 0, 2, 0])[::2]},
        {"weights": np.ones(3)},
        {"query": np.ones(4)},
        {"shares": np.ones(1)},
        {"eligible": np.ones(3, np.uint8)},
        {"linear": np.ones(29, np.float32)},
    ],
    ids=str,
)
def test_arrays_of_another_form_are_an_error(change: dict[str, Any]) -> None:
    points = random_points(5, 30, "euclidean", "distance", memory="ordered")
    weights = np.ones(2)
    asked = Question(3, history=np.array([1, 2]), weights=weights, known=np.array([1, 2]), shares=weights)
    with pytest.raises(TypeError, match="the compiled ranking needs"):
        points.scorer.rank(asked._replace(**change))


def test_the_number_of_coordinates_does_not_depend_on_the_stack() -> None:
    random = np.random.default_rng(1)
    vectors = random.normal(size=(4, 100_000)).astype(np.float32)
    points = Points(vectors, vectors, np.zeros(4, np.int64), Space("euclidean", "inner"))
    query = points.precise_items(np.array([1]))
    lists = build_index(points, query).lists
    asked = Question(4, query=query[0], lists=lists, probes=len(lists), wanted=4)
    before = threading.stack_size(256 * 1024)
    try:
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(points.scorer.rank, asked).result()
    finally:
        threading.stack_size(before)
    assert found is not None
    assert found.rows[0] == 1


def test_a_memory_that_is_changed_in_place_after_it_was_opened() -> None:
    """A large file is mapped, and whoever can write to the store can write into it."""
    points = random_points(5, 30, "euclidean", "distance", memory="ordered")
    assert points.memory is not None
    history = History(np.arange(25))
    for array, index, value in (
        (points.memory.offsets, 20, 2**60),
        (points.memory.offsets, 20, -(2**60)),
        (points.memory.columns, slice(None), 2**31 - 1),
        (points.memory.columns, slice(None), -(2**31)),
    ):
        before = array.copy()
        assert len(Ranker(points).top(None, 5, history=history)[0]) == 5
        array[index] = value
        with pytest.raises(ArtifactError, match="was changed while it was in use"):
            Ranker(points).top(None, 5, history=history)
        array[:] = before


def test_lists_that_are_changed_in_place_after_they_were_opened() -> None:
    points = random_points(5, 300, "euclidean", "distance")
    index = build_index(points, points.precise_items(np.arange(2)))
    lists = index.lists
    asked = Question(3, query=points.precise_items(np.array([7]))[0], lists=lists, probes=len(lists), wanted=9)
    for array, position, value in (
        (lists.offsets, 4, 2**60),
        (lists.offsets, 4, -(2**60)),
        (lists.rows, slice(None), 2**31 - 1),
        (lists.rows, slice(None), -(2**31)),
    ):
        before = array.copy()
        assert points.scorer.rank(asked) is not None
        array[position] = value
        with pytest.raises(ArtifactError, match="was changed while it was in use"):
            points.scorer.rank(asked)
        array[:] = before


def test_the_library_is_compiled_once_per_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    path = library_path(source)
    before = path.stat().st_mtime_ns
    assert path.parent == tmp_path / "lorentzrec" / "compiled"
    assert path.parent.stat().st_mode & 0o022 == 0
    assert (library_path(source), path.stat().st_mtime_ns) == (path, before)
    source.write_text("int one(void) { return 2; }\n")
    assert library_path(source) != path
    packaged = source.with_name(f"lib{source.stem}.so")
    compile_library(source, packaged)
    assert library_path(source) == packaged
    assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")] == []


def test_a_library_that_somebody_else_may_have_written_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the file is known to everybody, and a cache may be shared."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    path = library_path(source)
    for target, mode in ((path.parent, 0o777), (path.parent, 0o770), (path, 0o666)):
        before = target.stat().st_mode
        target.chmod(mode)
        with pytest.raises(
            LorentzrecError, match=rf"other users can write {re.escape(str(target))}.*: .*XDG_CACHE_HOME"
        ):
            library_path(source)
        target.chmod(before)
    assert library_path(source) == path
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    if os.getuid():  # files of root are trusted
        with pytest.raises(LorentzrecError, match=rf"{re.escape(str(path.parent))} belongs to another user"):
            library_path(source)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_library_of_another_user_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    path = library_path(source)
    for target in (path, path.parent):
        os.chown(target, 12345, 12345)
        with pytest.raises(
            LorentzrecError, match=rf"{re.escape(str(target))} belongs to another user: .*XDG_CACHE_HOME"
        ):
            library_path(source)
        os.chown(target, 0, 0)
    assert library_path(source) == path


def test_a_home_that_cannot_be_used_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(LorentzrecError, match=r"cannot be written to .*: set XDG_CACHE_HOME"):
        library_path(source)

    stat = Path.stat

    def refuse(path: Path, **options: Any) -> os.stat_result:
        if "cache" in path.parts:
            raise PermissionError("of the home of another user")
        return stat(path, **options)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(LorentzrecError, match=r"cannot be written to .*: set XDG_CACHE_HOME"):
        library_path(source)
    monkeypatch.undo()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)  # HOME is not set, and the user has no entry in passwd
    with pytest.raises(LorentzrecError, match=r"there is no home folder.*: set XDG_CACHE_HOME"):
        library_path(source)


def test_a_broken_library_says_what_to_do(tmp_path: Path) -> None:
    broken = tmp_path / "ranking.so"
    broken.write_bytes(b"")
    with pytest.raises(LorentzrecError, match=r"ranking\.so cannot be loaded \(.*too short\): delete it"):
        load_library(broken)


def test_faults_of_the_compiler_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("int wrong(void) { return nothing; }\n")
    with pytest.raises(LorentzrecError, match=r"cannot be compiled by .*nothing.*: install gcc or clang"):
        compile_library(source, tmp_path / "wrong.so")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(LorentzrecError, match=r"wrong\.c has to be compiled, and there is no C compiler: install gcc"):
        compile_library(source, tmp_path / "wrong.so")


def test_no_warning_of_the_compiler_and_no_access_outside_of_arrays(tmp_path: Path) -> None:
    """The same call under the sanitisers of gcc, in a process of its own."""
    library = tmp_path / "checked.so"
    options = ["-O1", "-g", "-std=c11", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    sanitised = [*options, "-fsanitize=undefined", "-fno-sanitize-recover=all", "-DFAST="]
    subprocess.run(["cc", *sanitised, "-o", library, SOURCE, "-lm"], check=True)
    program = (
        "import sys, pytest; from lorentzrec.points import native; native.library_path = lambda _: sys.argv[1]; "
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-x', sys.argv[2], '-k', 'reference and not inner']))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(library), str(Path(__file__))],
        cwd=Path(__file__).parents[2],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
