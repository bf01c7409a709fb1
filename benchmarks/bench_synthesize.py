"""Time and memory to generate a shop of the size of the paper's commercial data set, in both spaces.

    python benchmarks/bench_synthesize.py                                      1 M customers, 132,399 items, 28 M events
    python benchmarks/bench_synthesize.py --customers 18400000 --items 1000000 --interactions 92000000

The limit is five minutes for 28 M events on two cores. The exponent fitted to the result is printed next to the
requested one, with its standard error.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

from lorentzrec.synthetic.shop import Space, SyntheticConfig, synthesize
from lorentzrec_paper.power_law import fit_power_law


def measure(config: SyntheticConfig) -> dict[str, Any]:
    """Write the shop to a temporary folder and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        report = synthesize(config, Path(folder) / "shop")
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in (Path(folder) / "shop").rglob("*.parquet"))
    degrees = report.item_degrees
    fit = fit_power_law(degrees[degrees > 0], trials=0)
    return {
        "space": config.space,
        "interactions": config.interactions,
        "seconds": round(seconds, 1),
        "million_per_second": round(config.interactions / seconds / 1e6, 2),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "disk_gb": round(size / 1e9, 2),
        "exponent_requested": config.exponent,
        "exponent_fitted": round(fit.exponent, 4),
        "standard_error": round(fit.standard_error, 4),
        "tail_from": fit.minimum,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--customers", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=132_399)
    parser.add_argument("--interactions", type=int, default=28_000_000)
    parser.add_argument("--exponent", type=float, default=2.5748, help="the paper's, for its commercial data")
    parser.add_argument("--space", choices=get_args(Space), action="append", help="both unless given")
    options = vars(parser.parse_args())
    for space in options.pop("space") or get_args(Space):
        print(json.dumps(measure(SyntheticConfig(space=space, **options))), flush=True)


if __name__ == "__main__":
    main()
