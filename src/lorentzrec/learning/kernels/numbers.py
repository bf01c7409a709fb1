"""Random numbers that depend on nothing but a key, and exponentials and logarithms in a form that vectorises."""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import inlined, kernel

f32, i32, u32, u64 = np.float32, np.int32, np.uint32, np.uint64
_ONE, _TWO, _LARGEST = f32(1), f32(2), np.finfo(f32).max
GOLDEN = u64(0x9E3779B97F4A7C15)

NEGATIVES, FOLDS, ORDER, TRIPLETS, DROPOUT = u64(1), u64(2), u64(3), u64(4), u64(5)
"""What random numbers are for: each purpose has keys of its own."""


@inlined
def mix(state):
    """SplitMix64's finaliser: a bijection of 64 bits whose outputs look independent."""
    state = (state ^ (state >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> u64(27))) * u64(0x94D049BB133111EB)
    return state ^ (state >> u64(31))


@inlined
def key_for(key, purpose, number):
    """The key of one block, customer, ... for one purpose, from the key of the epoch."""
    return mix(mix(key + purpose) + u64(number) * GOLDEN)


@inlined
def find_bit(word, item):
    """The bit of an item, 0 or 1, in its word of a bit set: word item // 32."""
    return (word >> u32(item & 31)) & u32(1)


@inlined
def below(state, bound):
    """A whole number in [0, bound) from the upper half of a mixed state."""
    return np.int64(((mix(state) >> u64(32)) * u64(bound)) >> u64(32))


@kernel
def permuted(index, count, key):
    """Place `index` of a permutation of 0..count-1 that `key` chooses: Feistel rounds, walked until inside."""
    half = u64(1)
    while (u64(1) << (half + half)) < u64(count):
        half += u64(1)
    mask = (u64(1) << half) - u64(1)
    value = u64(index)
    while True:
        left, right = value >> half, value & mask
        for turn in range(4):
            left, right = right, left ^ (mix(right + key + u64(turn) * GOLDEN) & mask)
        value = (left << half) | right
        if value < u64(count):
            return np.int64(value)


@inlined
def is_finite(x):
    """Whether x is a number. Numba's own test is x - x == 0, which reassociation makes true of every sum."""
    return abs(x) <= _LARGEST


@inlined
def fast_exp(x):
    """e^x to 3e-7, in a form that vectorises: 2^n times a polynomial around 0. Saturates beyond +-87."""
    x = min(max(x, f32(-87)), f32(87))
    n = np.floor(x * f32(1.4426950408889634) + f32(0.5))
    r = x - n * f32(0.693359375) + n * f32(2.12194440e-4)
    series = r * (f32(1 / 6) + r * (f32(1 / 24) + r * (f32(1 / 120) + r * f32(1 / 720))))
    return (_ONE + r * (_ONE + r * (f32(0.5) + series))) * i32((i32(n) + i32(127)) << i32(23)).view(f32)


@inlined
def fast_log(x):
    """ln x for positive x to 2e-6, in a form that vectorises: exponent bits, and atanh's series around 1."""
    shifted = i32(f32(x).view(i32) - i32(0x3F3504F3))
    exponent = f32(i32(shifted >> i32(23)))
    fraction = i32(i32(shifted & i32(0x007FFFFF)) + i32(0x3F3504F3)).view(f32)
    s = (fraction - _ONE) / (fraction + _ONE)
    z = s * s
    series = z * (f32(1 / 3) + z * (f32(1 / 5) + z * (f32(1 / 7) + z * f32(1 / 9))))
    return exponent * f32(0.6931471805599453) + _TWO * s * (_ONE + series)


@inlined
def cosh_and_sinhc(squared):
    """cosh(t) and sinh(t)/t from t^2 <= 1, the longest step: the series to t^8 is exact to float32."""
    cosh = _ONE + squared * (f32(1 / 2) + squared * (f32(1 / 24) + squared * (f32(1 / 720) + squared * f32(1 / 40320))))
    sinhc = _ONE + squared * (
        f32(1 / 6) + squared * (f32(1 / 120) + squared * (f32(1 / 5040) + squared * f32(1 / 362880)))
    )
    return cosh, sinhc
