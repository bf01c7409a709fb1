"""How colours look to people who see them differently, and how well two of them can be distinguished."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIGHTS = {
    "normal": np.eye(3),
    "no red": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]]),
    "no green": np.array([[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
    "no blue": np.array([[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]]),
}
"""What becomes of linear red, green and blue in a colour-blind eye (Machado, Oliveira and Fernandes, 2009)."""


def linear(colour: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def seen(colour: str, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE Lab of a colour as an eye sees it; distances there are about those that people notice."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(matrix @ linear(colour), 0, 1) / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    darker, lighter = sorted((float(weights @ linear(one)), float(weights @ linear(other))))
    return (lighter + 0.05) / (darker + 0.05)
