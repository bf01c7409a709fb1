"""Every public kernel is called and compared with its reference, on one example each; other tests use many examples."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.learning import kernels
from lorentzrec.learning.kernels import attributes as kernel_attributes
from lorentzrec.learning.kernels import blocks, histories, numbers, scores, steps, triplets
from lorentzrec.learning.kernels.structures import HISTORY, TARGET, Attributes, Slots
from lorentzrec.learning.tables import allocate_composed, allocate_step, allocate_workspace, convert_attributes
from tests.learning.small_blocks import KEY, Outcome, events, in_float64, resolved, run_both, settings, table
from tests.reference import composition, euclidean, hyperboloid, losses, midpoint, optimisers, sampling
from tests.reference.blocks import histories_of

WORD, ITEMS = np.uint64(KEY), 9
SQUARES = np.linspace(0, 1, 5)
NUMBERS = np.array([1e-3, 0.5, 1.0, 7.0])
Pair = tuple[Any, Any]
"""What a kernel returns or writes, and what its reference does."""


def on_each(kernel: Callable[..., Any], values: Any) -> list[Any]:
    return [kernel(np.float32(value)) for value in values]


def draw_negatives() -> Pair:
    rows, bits = np.zeros(3, np.int32), np.zeros(1, np.uint32)
    blocks.draw_negatives(rows, bits, ITEMS, WORD)
    return rows, sampling.draw_negatives(3, ITEMS, KEY)


def unseen() -> Pair:
    return triplets.unseen(WORD, np.array([1 << 3], np.uint32), ITEMS), sampling.unseen(KEY, {3}, ITEMS)


def find_score() -> Pair:
    points = table(resolved(), 2, seed=1).points
    chosen, product = settings(score="distance"), steps.dot(points, 0, points, 1)
    found = scores.find_score(product, points, 0, points, 1, chosen, np.zeros(5, np.int64))
    expected = losses.score("hyperboloid", "distance", *points.astype(np.float64))
    return found, (expected, 1 / np.sinh(-expected))


def find_distances() -> Pair:
    queries, negatives = table(resolved(), 3, seed=1).points, table(resolved(), 4, seed=2).points
    wide = queries.astype(np.float64)[:, None], negatives.astype(np.float64)[None]
    found = hyperboloid.minkowski_dot(*wide).astype(np.float32)
    chosen, slopes = settings(score="distance"), np.empty_like(found)
    times = negatives[:, 0].copy()
    scores.find_distances(found, slopes, queries, negatives, times, chosen, np.zeros(5, np.int64))
    return found, losses.score("hyperboloid", "distance", *wide)


def find_offset() -> Pair:
    """u + k v is the tangent gradient of <u, v> at v."""
    u, v = in_float64(table(resolved(), 2, seed=1)).points
    found = u + scores.find_offset(hyperboloid.minkowski_dot(u, v), settings(score="inner")) * v
    return found, hyperboloid.project_to_tangent(v, losses.score_gradients("hyperboloid", "inner", u, v)[1])


def losses_of_row() -> Pair:
    config = resolved(loss="wmrb", negative_count=4, scale=2.0)
    workspace = allocate_workspace(config, rows=1, history_count=5, item_count=5, shared=True)
    workspace.positives.scores[0], workspace.positives.weights[0] = 0.3, 1.5
    row = np.array([[0.1, -2.0, 0.9, 0.4]], np.float32)
    compared = np.append(0.3, row[0])
    chosen = settings(loss="wmrb", scale=2.0)
    value = scores.losses_of_row(row, 0, 0, 1, workspace.positives, workspace.tile, chosen)
    expected, derivatives = losses.loss("wmrb", compared, scale=2.0, weight=1.5)
    return [value, workspace.positives.pulls[0], *row[0]], [expected, *derivatives]


def pull_to_origin() -> Pair:
    point = in_float64(table(resolved(), 1, seed=1)).points[0]
    _, gradient = losses.penalty("hyperboloid", 0.3, point)
    found = steps.pull_to_origin(np.float32(point[0]), settings(regularisation=0.3)) * point[1:]
    return found, hyperboloid.project_to_tangent(point, gradient)[1:]


def step_rows() -> Pair:
    fast = table(resolved(), 3, seed=1)
    slow, counters = in_float64(fast), np.zeros(5, np.int64)
    gradients = table(resolved(), 3, seed=2).points
    for row in range(3):
        optimisers.row_step(slow, row, gradients[row].astype(np.float64), settings(), counters)
    rows = np.arange(3, dtype=np.int32)
    steps.step_rows(fast, rows, rows, gradients, settings(), counters)
    return fast.points, slow.points


def find_slot() -> Pair:
    config = resolved(targets="separate")
    work = allocate_workspace(config, rows=9, history_count=9, item_count=9, shared=False)
    step = allocate_step(config, rows=9, item_count=9)
    slots = Slots(step.gradients[0], step.mass_gradients[0], step.rows[0], step.sides[0], work.histories, work.targets)
    slot_numbers: dict[tuple[int, int], int] = {}
    found, expected, used = [], [], 0
    for row, side in [(4, HISTORY), (2, HISTORY), (4, HISTORY), (4, TARGET)]:
        slot, used = histories.find_slot(row, side, used, slots)
        found.append(slot)
        expected.append(slot_numbers.setdefault((row, side), len(slot_numbers)))
    return found, expected


def write_queries() -> Pair:
    """Of the prefixes of one history."""
    config = resolved(recency=0.7, targets="separate")
    data, points = events([4], ITEMS, weighted=True, seed=1), table(config, ITEMS, 1).points
    work = allocate_workspace(config, rows=4, history_count=ITEMS, item_count=ITEMS, shared=False)
    chosen = settings(recency=0.7)
    count = histories.write_queries(0, 4, 0, 0, data, points, chosen, WORD, work.queries, work.positives, work.sums)
    wide = points.astype(np.float64)
    expected = [
        midpoint.einstein_midpoint(wide[data.items[others]], np.array(shares))
        for _, others, shares in histories_of(data.weights.tolist(), chosen, KEY)
    ]
    return work.queries.points[:count], expected


def spread_gradients() -> Pair:
    """Of flat prefixes without recency: the gradient of each mean goes in equal shares to its items."""
    config = resolved(geometry="euclidean", recency=1.0, targets="separate")
    data, points = events([4], ITEMS, weighted=False, seed=1), table(config, ITEMS, 1).points
    data.items[:] = [3, 1, 4, 2]
    work = allocate_workspace(config, rows=4, history_count=ITEMS, item_count=ITEMS, shared=False)
    chosen = settings(geometry="euclidean", recency=1.0)
    count = histories.write_queries(0, 4, 0, 0, data, points, chosen, WORD, work.queries, work.positives, work.sums)
    work.queries.gradients[:count] = np.random.default_rng(1).normal(size=(count, points.shape[1]))
    expected = np.zeros((ITEMS, points.shape[1]))
    for row, (_, others, shares) in enumerate(histories_of([1.0] * 4, chosen, KEY)):
        in_sum = euclidean.midpoint_gradient(np.sum(shares), work.queries.gradients[row].astype(np.float64))
        expected[data.items[others]] += in_sum
    step = allocate_step(config, rows=4, item_count=ITEMS)
    slots = Slots(step.gradients[0], step.mass_gradients[0], step.rows[0], step.sides[0], work.histories, work.targets)
    parts = work.queries, work.positives, work.vectors
    used = histories.spread_gradients(0, 4, 0, data, chosen, 0, slots, *parts)
    found = np.zeros_like(expected)
    found[slots.rows[:used]] = slots.gradients[:used]
    return found, expected


def epoch(**options: Any) -> Pair:
    """An epoch of blocks or triplets by the kernels, and by their references."""

    def numbers_of(outcome: Outcome) -> list[float]:
        return [outcome.loss, *outcome.items.points.ravel(), *outcome.histories.points.ravel(), *outcome.counters]

    config = resolved(negative_count=3, **options)
    found, expected = run_both(config, events([3, 2, 4, 8], 7, weighted=True, seed=1), 7)
    return numbers_of(found), numbers_of(expected)


def attributes() -> Attributes:
    """Item 0 has both attributes and item 2 one of them; item 1 has none."""
    config = resolved()
    named = ItemAttributes(
        Vocabulary.numbered(3), Vocabulary(["x=a", "x=b"]), np.array([0, 2, 2, 3]), np.array([0, 1, 1], np.int32)
    )
    return convert_attributes(named, np.ones(3, bool), config)


def compose() -> Pair:
    vectors, made = table(resolved(), 5, seed=1), allocate_composed(3, 5)
    for row in range(3):
        sums = np.zeros((2, vectors.points.shape[1]))
        kernel_attributes.compose(row, np.float32(1), vectors.points, attributes(), True, made, sums)
    wide = in_float64(vectors).points
    return made.points, [composition.compose(row, 1.0, wide, attributes(), curved=True) for row in range(3)]


def own_weight() -> Pair:
    given = attributes()
    places = [(row, side) for row in range(3) for side in (HISTORY, TARGET)]
    return [kernel_attributes.own_weight(*place, given, WORD) for place in places], [
        composition.own_weight(*place, given, KEY) for place in places
    ]


def pass_to_vectors() -> Pair:
    """Of a block with a gradient for each of three items, all as targets."""
    given, vectors = attributes(), table(resolved(), 5, seed=1)
    made, step = allocate_composed(3, 5), allocate_step(resolved(blocks_per_step=1), rows=3, item_count=3)
    own = [1.0, 1.0, 0.0]
    for row in range(3):
        sums = np.zeros((2, vectors.points.shape[1]))
        kernel_attributes.compose(row, np.float32(own[row]), vectors.points, given, True, made, sums)
    gradients = table(resolved(), 3, seed=2).points
    step.gradients[0, :3], step.rows[0, :3], step.sides[0, :3], step.used[0] = gradients, range(3), TARGET, 3
    lookup = np.full(2, -1, np.int32)
    kernel_attributes.pass_to_vectors(1, np.zeros(1, np.int64), given, (made, made), True, (lookup, lookup), step)
    assert (lookup == -1).all()
    found, expected = np.zeros((5, gradients.shape[1])), np.zeros((5, gradients.shape[1]))
    for slot in range(step.used[0]):
        if step.sides[0, slot] == TARGET:
            found[step.rows[0, slot]] = step.gradients[0, slot]
    wide = in_float64(vectors).points
    for row in range(3):
        parts = composition.gradients_of_parts(row, own[row], wide, gradients[row], given, curved=True)
        for part, gradient in parts.items():
            expected[part] += gradient
    return found, expected


def compose_points() -> Pair:
    """The points of all rows of an epoch of one block, without dropout."""
    config = resolved(item_dropout=0.0, negative_count=3)
    data, given = events([2, 2], 3, weighted=False, seed=1), attributes()
    given.dropouts[:] = 0
    histories, items = table(config, 5, seed=1), table(config, 5, seed=2)
    made = allocate_composed(3, 5), allocate_composed(3, 5)
    work = allocate_workspace(config, rows=4, history_count=5, item_count=3, shared=False)
    cut = np.arange(2), np.array([0, 2])
    for part in (1, 0):
        kernel_attributes.compose_points(
            1, 0, 1, part, 2, *cut, data, histories, items, given, made, settings(), WORD, work
        )
    assert (work.negatives.bits == 0).all()
    rows = sorted(set(data.items.tolist()))
    wide = [in_float64(one).points for one in (histories, items)]
    expected = [composition.compose(row, 1.0, wide[0], given, curved=True) for row in rows]
    expected += [composition.compose(row, 1.0, wide[1], given, curved=True) for row in range(3)]
    return np.concatenate([made[0].points[rows], made[1].points]), expected


CASES: dict[str, Callable[[], Pair]] = {
    "mix": lambda: (numbers.mix(WORD), sampling.mix(KEY)),
    "key_for": lambda: (numbers.key_for(WORD, numbers.FOLDS, 5), sampling.key_for(KEY, sampling.FOLDS, 5)),
    "below": lambda: (numbers.below(WORD, 1000), sampling.below(KEY, 1000)),
    "permuted": lambda: (
        [numbers.permuted(place, 20, WORD) for place in range(20)],
        [sampling.permuted(place, 20, KEY) for place in range(20)],
    ),
    "is_finite": lambda: (on_each(numbers.is_finite, [1, np.inf, np.nan]), [True, False, False]),
    "fast_exp": lambda: (on_each(numbers.fast_exp, NUMBERS), np.exp(NUMBERS)),
    "fast_log": lambda: (on_each(numbers.fast_log, NUMBERS), np.log(NUMBERS)),
    "cosh_and_sinhc": lambda: (
        on_each(numbers.cosh_and_sinhc, SQUARES[1:]),
        np.stack([np.cosh(SQUARES**0.5), np.sinh(SQUARES**0.5) / np.maximum(SQUARES, 1e-9) ** 0.5], axis=1)[1:],
    ),
    "dot": lambda: (
        steps.dot(table(resolved(), 2, seed=1).points, 0, table(resolved(), 2, seed=1).points, 1),
        hyperboloid.minkowski_dot(*in_float64(table(resolved(), 2, seed=1)).points),
    ),
    **{
        function.__name__: function
        for function in (
            draw_negatives,
            unseen,
            find_score,
            find_distances,
            find_offset,
            losses_of_row,
            pull_to_origin,
            step_rows,
            find_slot,
            write_queries,
            spread_gradients,
            compose,
            own_weight,
            pass_to_vectors,
            compose_points,
        )
    },
    "asymmetric_gradients": epoch,
    "apply_gradients": lambda: epoch(blocks_per_step=2, targets="separate"),
    "symmetric_gradients": lambda: epoch(model="symmetric", loss="wmrb"),
    "triplet_steps": lambda: epoch(model="symmetric", loss="bpr"),
}
PARTS = {
    "add_point": "write_queries",
    "write_midpoint": "write_queries",
    "find_part": "apply_gradients",
    "clear": "compose_points",
    "find_bit": "unseen",
    "chain": "asymmetric_gradients",
    "find_clipping": "step_rows",
    "capped": "step_rows",
    "step_factor": "step_rows",
    "settle": "step_rows",
    "step_mass": "apply_gradients",
}
"""Kernels of a line or two, and the case that calls them: a reference of their own would repeat them."""


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_computes_what_its_reference_computes(name: str) -> None:
    found, expected = (np.asarray(side, np.float64) for side in CASES[name]())
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if name in ("mix", "key_for", "below", "permuted", "draw_negatives", "unseen", "find_slot", "own_weight"):
        assert found.tolist() == expected.tolist()


def compiled(source: str) -> set[str]:
    """The public compiled functions of a module."""
    return {
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and {ast.unparse(decorator) for decorator in node.decorator_list} & {"kernel", "inlined"}
    }


def test_every_kernel_is_compared() -> None:
    sources = [path.read_text() for path in Path(kernels.__path__[0]).glob("*.py")]
    assert set().union(*map(compiled, sources)) == CASES.keys() | PARTS.keys()
    calls = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    assert PARTS.keys() <= {ast.unparse(call.func) for call in calls}, "a part that nothing calls is not compared"
    assert set(PARTS.values()) <= CASES.keys()


def test_only_public_compiled_functions_are_kernels() -> None:
    source = "@kernel\ndef a(): ...\n@inlined\ndef b(): ...\n@inlined\ndef _c(): ...\n@wraps\ndef d(): ...\n"
    assert compiled(source) == {"a", "b"}
