"""Random numbers: those of the kernels equal their references bit by bit, are fair, and do not depend on threads."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.data.interactions import Interactions
from lorentzrec.learning.epochs import EpochResult, EpochRunner, cut_blocks, epoch_key
from lorentzrec.learning.kernels import blocks, numbers, triplets
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.tables import BLOCK_ROWS
from tests.learning.small_blocks import KEY, resolved
from tests.reference import sampling

WORDS = st.integers(0, 2**64 - 1)


def bits_of(rows: set[int], item_count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    bits = np.zeros(item_count // 32 + 1, np.uint32)
    for row in rows:
        bits[row >> 5] |= np.uint32(1 << (row & 31))
    return bits


def test_mix_is_splitmix64() -> None:
    """The first outputs of SplitMix64 with the seed 1234567, as its author's reference program prints them."""
    states = [1234567 + step * sampling.GOLDEN & sampling.WORD for step in (1, 2, 3)]
    assert [sampling.mix(state) for state in states] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@given(state=WORDS)
def test_mix_matches_its_reference(state: int) -> None:
    assert numbers.mix(np.uint64(state)) == sampling.mix(state)


@given(key=WORDS, number=st.integers(0, 2**40))
def test_key_for_matches_its_reference(key: int, number: int) -> None:
    """Also: no purpose has the key of another."""
    purposes = sampling.NEGATIVES, sampling.FOLDS, sampling.ORDER, sampling.TRIPLETS
    kernels = numbers.NEGATIVES, numbers.FOLDS, numbers.ORDER, numbers.TRIPLETS
    assert [int(purpose) for purpose in kernels] == list(purposes)
    keys = [sampling.key_for(key, purpose, number) for purpose in purposes]
    assert [numbers.key_for(np.uint64(key), purpose, number) for purpose in kernels] == keys
    assert len(set(keys)) == len(purposes)


@given(state=WORDS, bound=st.integers(1, 2**31))
def test_below_matches_its_reference(state: int, bound: int) -> None:
    drawn = numbers.below(np.uint64(state), bound)
    assert drawn == sampling.below(state, bound)
    assert 0 <= drawn < bound


@given(count=st.integers(1, 70), key=WORDS)
def test_permuted_matches_its_reference_and_a_permutation(count: int, key: int) -> None:
    places = [numbers.permuted(index, count, np.uint64(key)) for index in range(count)]
    assert places == [sampling.permuted(index, count, key) for index in range(count)]
    assert sorted(places) == list(range(count))


def test_permutations_of_other_keys_differ() -> None:
    assert len({tuple(sampling.permuted(index, 20, key) for index in range(20)) for key in range(50)}) == 50


@given(item_count=st.integers(1, 80), wanted=st.integers(1, 100), key=WORDS)
def test_draw_negatives_matches_its_reference(item_count: int, wanted: int, key: int) -> None:
    rows = np.full(min(wanted, item_count), -1, np.int32)
    bits = bits_of(set(), item_count)
    count = blocks.draw_negatives(rows, bits, item_count, np.uint64(key))
    assert rows.tolist() == sampling.draw_negatives(wanted, item_count, key)
    assert count == len(rows) == len(set(rows.tolist()))
    assert bits.tolist() == bits_of(set(rows.tolist()), item_count).tolist()


@given(item_count=st.integers(2, 70), state=WORDS, data=st.data())
def test_unseen_matches_its_reference(item_count: int, state: int, data: st.DataObject) -> None:
    """Also for customers who have interacted with all but one item, where the tries run out."""
    left = data.draw(st.integers(1, item_count))
    seen = set(np.random.default_rng(state % 1000).permutation(item_count)[left:].tolist())
    item, after = triplets.unseen(np.uint64(state), bits_of(seen, item_count), item_count)
    assert (item, int(after)) == sampling.unseen(state, seen, item_count)
    assert item not in seen


def test_draws_are_fair() -> None:
    """Every item in its share of draws; 4 standard deviations allowed."""
    draws = Counter(sampling.draw_negatives(1, 3, key)[0] for key in range(5000))
    for item in range(3):
        assert draws[item] == pytest.approx(5000 / 3, abs=4 * (5000 * 2 / 9) ** 0.5)


@pytest.mark.parametrize(("wanted", "item_count"), [(2, 5), (4, 5)])
def test_every_item_is_chosen_equally_often(wanted: int, item_count: int) -> None:
    """Few of many are drawn again when taken, more than half are selected in one pass: both are fair."""
    draws = Counter(item for key in range(4000) for item in sampling.draw_negatives(wanted, item_count, key))
    share = wanted / item_count
    for item in range(item_count):
        assert draws[item] == pytest.approx(4000 * share, abs=4 * (4000 * share * (1 - share)) ** 0.5)


def test_epoch_keys_depend_on_seed_and_epoch() -> None:
    keys = {(seed, epoch): int(epoch_key(seed, epoch)) for seed in range(20) for epoch in range(20)}
    assert len(set(keys.values())) == len(keys)
    assert int(epoch_key(3, 4)) == keys[3, 4]


@given(lengths=st.lists(st.integers(1, 3 * BLOCK_ROWS), min_size=1, max_size=40))
def test_blocks_hold_everybody_once_and_close_when_full(lengths: list[int]) -> None:
    bounds = cut_blocks(np.array(lengths), BLOCK_ROWS).tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(lengths)
    for first, last in pairwise(bounds):
        assert sum(lengths[first : last - 1]) < BLOCK_ROWS
        assert sum(lengths[first:last]) >= BLOCK_ROWS or last == len(lengths)


def epoch_without_learning(data: Interactions, threads: int, seed: int, epoch: int, **options: object) -> EpochResult:
    config = resolved(threads=threads, seed=seed, negative_count=3, dimension=4, **options)
    run = TrainingRun(data, config)
    runner = EpochRunner(data, config, run.history_table, run.item_table)
    return runner.run(epoch, 0.0, lambda positives, loss: None, threading.Event())


@pytest.mark.parametrize(
    "options",
    [
        {"model": "symmetric", "loss": "bpr"},
        {"model": "symmetric", "loss": "wmrb"},
        {"model": "asymmetric", "loss": "softmax"},
    ],
)
def test_what_is_sampled_does_not_depend_on_threads(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """At a rate of zero the points stay, so loss and counters depend only on what was compared with what."""
    monkeypatch.setattr("lorentzrec.learning.epochs._EVENTS_PER_CALL", 200)
    random = np.random.default_rng(KEY)
    data = Interactions.from_pairs(random.integers(0, 90, 2000), random.integers(0, 40, 2000), np.arange(2000))
    one = epoch_without_learning(data, 1, 7, 1, **options)
    two = epoch_without_learning(data, 2, 7, 1, **options)
    losses = one.loss, two.loss
    assert losses[0] == (pytest.approx(losses[1], rel=1e-6) if options["loss"] == "bpr" else losses[1])
    assert (one.positives, one.saturated) == (two.positives, two.saturated)
    assert one.clipped == two.clipped
    for seed, epoch in ((7, 2), (8, 1)):
        other = epoch_without_learning(data, 1, seed, epoch, **options)
        assert other.loss != pytest.approx(losses[0], rel=1e-6)
