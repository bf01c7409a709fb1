"""Time per epoch on Spark against the number of workers: the model of docs/lab/scale.md, with measured epochs.

    python benchmarks/capacity.py docs/images/capacity.svg

The measured seconds are those of bench_spark.py and bench_full_size.py; measure them on your machines to plan with.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import numpy as np

from lorentzrec.base.canvas import BLUE, GREEN, PAGE_WIDTH, VERMILION, canvas
from lorentzrec.geometry import FloatArray

DIMENSION, ROUNDS = 50, 8


@dataclass(frozen=True)
class Cluster:
    """What a worker is, and what a round costs besides training."""

    cores: int
    bytes_per_second: float
    """Between a worker and the storage, with packing and merging."""
    seconds_per_round: float
    """Two Spark jobs: scheduling, starting tasks, and the slowest of them."""


@dataclass(frozen=True)
class Shop:
    """What is trained, and where."""

    name: str
    events: float
    items: float
    tables: int
    """Of points: 2 where targets are separate."""
    seconds_per_event: float
    """On one core."""
    cluster: Cluster
    colour: str
    measured: tuple[tuple[int, float], ...] = ()
    """Workers and seconds per epoch."""

    @property
    def bytes(self) -> float:
        """Of the points, with a sum of Adagrad per row."""
        return 4 * self.tables * self.items * (DIMENSION + 2)

    def training(self, workers: FloatArray) -> FloatArray:
        """Seconds per epoch that a worker trains."""
        return self.events * self.seconds_per_event / (workers * self.cluster.cores)

    def rounds(self, workers: FloatArray) -> FloatArray:
        """Seconds per epoch for reading, writing and merging points; one worker has a single round."""
        one = 3 * self.bytes / self.cluster.bytes_per_second + self.cluster.seconds_per_round
        return np.where(workers > 1, ROUNDS * one, one)


ONE_CORE = Cluster(cores=1, bytes_per_second=110e6, seconds_per_round=1)
"""Measured: a round of one worker takes 0.9 s with 2 MB of points, and 2.4 s with 55 MB."""
SHOPS = (
    Shop(
        "28 M events, 132,399 items,\n1 core each", 25.4e6, 132_399, 2, 16e-6, ONE_CORE, BLUE, ((1, 395.7), (2, 243.1))
    ),
    Shop(
        "200 M events, 1 M items,\n2 cores each", 182e6, 1e6, 2, 6.3e-6, replace(ONE_CORE, cores=2), GREEN, ((1, 574),)
    ),
    Shop("10 B events, 10 M items,\n8 cores each", 1e10, 1e7, 2, 6.3e-6, Cluster(8, 110e6, 5), VERMILION),
)
"""The first at the default settings, the others with 256 negatives."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="an image: .svg, .png or .pdf")
    workers = 2.0 ** np.arange(9)
    with canvas(parser.parse_args().out, PAGE_WIDTH, 2.8) as figure:
        axes = figure.subplots()
        for shop in SHOPS:
            training = shop.training(workers)
            minutes = (training + shop.rounds(workers)) / 60
            axes.plot(workers, minutes, color=shop.colour, label=shop.name)
            axes.plot(workers, training / 60, ":", color=shop.colour, linewidth=1)
            for count, seconds in shop.measured:
                axes.plot(count, seconds / 60, "o", color=shop.colour, markersize=5)
            print(" ".join(shop.name.split()) + ":", f"{shop.bytes / 1e9:.2f} GB of points, minutes per epoch:")
            print(", ".join(f"{count:.0f}: {value:.2f}" for count, value in zip(workers, minutes, strict=True)))
        axes.plot([], [], "o", color="black", markersize=5, label="measured")
        axes.plot([], [], ":", color="black", linewidth=1, label="training alone")
        axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="minutes per epoch")
        axes.set_xticks(workers, [f"{count:.0f}" for count in workers])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)


if __name__ == "__main__":
    main()
