"""All benchmarks, one after another, each in its own process: python benchmarks/run.py [--quick] [--data DIR]."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("start", "bpr", "wmrb", "memory", "ranking", "boosts", "rules", "new_items", "attributes", "quality")
"""Preparing and synthesizing data take longer; run bench_prepare.py and bench_synthesize.py separately."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="smaller data: minutes instead of a quarter of an hour")
    parser.add_argument("--data", help="folder of real data, for benchmarks that use it")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: choose from {', '.join(BENCHMARKS)}")
    failed = []
    for name in options.names or BENCHMARKS:
        arguments = ["--quick"] if options.quick else []
        if name in ("new_items", "attributes", "quality") and options.data:
            arguments += ["--data", options.data]
        script = Path(__file__).with_name(f"bench_{name}.py")
        print(f"\n{script.name} {' '.join(arguments)}", flush=True)
        if subprocess.run([sys.executable, str(script), *arguments], check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
