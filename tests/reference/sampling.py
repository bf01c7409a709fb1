"""What is sampled, in Python's own integers: the references of the kernels' random numbers, equal to them bit by bit.

Nothing here keeps a state between calls. A number follows from a 64-bit key by counting up and mixing (SplitMix64), so
what an epoch samples depends on the seed, the epoch and the customer, and never on which thread came first.
"""

from __future__ import annotations

from collections.abc import Container

WORD = (1 << 64) - 1
"""Unsigned 64-bit arithmetic wraps: every result is taken with this mask."""

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: counting in steps of it spreads the states evenly."""

NEGATIVES, FOLDS, ORDER, TRIPLETS, DROPOUT = 1, 2, 3, 4, 5
"""What random numbers are for."""

TRIES = 64
"""Draws that may hit something taken before another way is taken."""


def mix(state: int) -> int:
    """SplitMix64's finaliser: a bijection of 64 bits, each step of which (shift and xor, odd factor) has an inverse."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & WORD
    return state ^ (state >> 31)


def key_for(key: int, purpose: int, number: int) -> int:
    """The key of one block, customer, ... for one purpose, from the key of the epoch: purposes share no keys, except by
    a chance of 2^-64 for each pair."""
    return mix(mix(key + purpose & WORD) + number * GOLDEN & WORD)


def below(state: int, bound: int) -> int:
    """floor(bound * f) with the fraction f in [0, 1) that the upper 32 bits of the mixed state make."""
    return (mix(state) >> 32) * bound >> 32


def permuted(index: int, count: int, key: int) -> int:
    """Where a permutation of 0..count-1, chosen by `key`, sends `index`.

    Four rounds of a Feistel network permute the numbers of 2 h bits; h is the least with 4^h >= count. Where one leaves
    the range it is permuted again until it is back: on a finite set every walk returns, and following walks keeps a
    permutation one.
    """
    half = 1
    while 4**half < count:
        half += 1
    while True:
        left, right = divmod(index, 2**half)
        for turn in range(4):
            left, right = right, left ^ (mix((right + key + turn * GOLDEN) & WORD) % 2**half)
        index = left * 2**half + right
        if index < count:
            return index


def folds(length: int, count: int, key: int) -> list[int]:
    """The fold of each of `length` places: a shuffle dealt out in heaps as equal as can be, none of them empty."""
    count = min(length, count)
    fold = [0] * length
    for heap in range(count):
        for card in range(heap * length // count, (heap + 1) * length // count):
            fold[permuted(card, length, key)] = heap
    return fold


def draw_negatives(wanted: int, item_count: int, key: int) -> list[int]:
    """Distinct items, as many as wanted or as there are.

    More than half of all items are chosen in one pass (Knuth's selection sampling): each with the chance still wanted /
    still to come.
    """
    wanted = min(wanted, item_count)
    state = mix(key)
    drawn: list[int] = []
    if 2 * wanted > item_count:
        for item in range(item_count):
            state = state + GOLDEN & WORD
            if below(state, item_count - item) < wanted - len(drawn):
                drawn.append(item)
        return drawn
    while len(drawn) < wanted:
        state = state + GOLDEN & WORD
        item = below(state, item_count)
        if item not in drawn:
            drawn.append(item)
    return drawn


def unseen(state: int, seen: Container[int], item_count: int) -> tuple[int, int]:
    """An item outside `seen`, and the new state: `TRIES` draws, then the next unseen item from a random one on."""
    for _ in range(TRIES):
        state = state + GOLDEN & WORD
        item = below(state, item_count)
        if item not in seen:
            return item, state
    state = state + GOLDEN & WORD
    item = below(state, item_count)
    while item in seen:
        item = (item + 1) % item_count
    return item, state
