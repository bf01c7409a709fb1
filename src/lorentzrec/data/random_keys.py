"""Random numbers from integer arithmetic, the same on every engine and for arrays as for expressions."""

from __future__ import annotations

from typing import Any

KEY_RANGE = 2**31 - 1
"""`random_key` gives whole numbers below this, a prime."""


def random_key(seed: int, *columns: Any) -> Any:
    """A whole number in [0, KEY_RANGE) per entry, the same for the same (seed, columns) on every engine.

    Each column is added to the key, which is then scaled and squared modulo a prime, twice. No product leaves 63 bits,
    so engines that wrap around and engines that refuse to overflow agree.
    """
    key: Any = (seed * 1_000_003 + 12_345) % KEY_RANGE
    for column in columns:
        key = (column + key) % KEY_RANGE
        for factor, constant in ((1_640_531_527, 748_932_582), (1_566_083_941, 362_436_069)):
            key = (key * factor + constant) % KEY_RANGE
            key = key * key % KEY_RANGE
    return key * 1_812_433_253 % KEY_RANGE


def order_key(seed: int, order_code: Any) -> Any:
    """The random number of an order, basket or invoice by its rank; `seed`: that of ties, from 0."""
    return random_key(-1 - seed, order_code)


def tie_key(user_key: Any, item_key: Any, time: Any, item_code: Any) -> Any:
    """A whole number per event, by which a customer's events of one time are in random order.

    `user_key`, `item_key`: the `random_key` of customer and item. `time`: microseconds. `item_code`: the rank of the
    item, which makes the order total. Whole orders of one time are shuffled in the same way, with key and rank of the
    order instead of the item. The key is a product modulo a prime, since it is computed for every event.
    """
    return (user_key + time) % KEY_RANGE * (item_key + 1) % KEY_RANGE * 2**31 + item_code
