"""The cache of compiled kernels, used by several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from lorentzrec.learning.kernels.compiling import kernel

@kernel
def twice(number):
    return 2 * number

number = eval(sys.argv[1])
print(twice(number), sum(twice.stats.cache_hits.values()))
"""


def run(script: Path, number: str, cache: Path) -> str:
    command, environment = [sys.executable, str(script), number], os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def test_processes_share_compiled_code_and_never_write_to_the_same_file(tmp_path: Path) -> None:
    script, cache = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(SCRIPT)
    assert [run(script, number, cache) for number in ("3", "1.5", "3")] == ["6 0", "3.0 0", "6 1"]
    first, second = (path.name.split(".")[-2] for path in cache.rglob("*.nbc"))
    assert first.rpartition("-")[0] != second.rpartition("-")[0], "the part of the process"
