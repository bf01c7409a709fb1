"""Each back end of Keras in a process of its own: Keras chooses it once, when it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BACK_ENDS = ["tensorflow", "jax", "torch"]
CHECKS = [Path(__file__).with_name(name) for name in ("back_end_checks.py", "export_checks.py")]
TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.keras


def run_python(back_end: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Python on a back end, with one thread for each library: tests share the machine."""
    environment = os.environ | {
        "KERAS_BACKEND": back_end,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_the_checks_of_a_back_end_pass(back_end: str) -> None:
    if find_spec("keras") is None or find_spec(back_end) is None:
        pytest.skip(f"keras or {back_end} is not installed: pip install keras {back_end}")
    done = run_python(back_end, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", *CHECKS)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_an_unknown_back_end_is_an_error_of_one_line() -> None:
    done = run_python("nothing", "-m", "lorentzrec", "train", "nowhere", "--out", "model", "--engine", "keras")
    assert done.returncode == 2
    assert "set KERAS_BACKEND to tensorflow, jax or torch" in done.stderr


def test_a_missing_back_end_is_an_error_of_one_line() -> None:
    hidden = "import sys; sys.modules['jax'] = None; import lorentzrec.keras"
    done = run_python("jax", "-c", hidden)
    assert done.stderr.strip().splitlines()[-1].startswith("lorentzrec.errors.ConfigError: lorentzrec.keras needs jax")


def test_an_old_keras_is_an_error_of_one_line() -> None:
    old = "import sys, types; sys.modules['keras'] = keras = types.ModuleType('keras'); keras.__version__ = '3.5.0'"
    done = run_python("jax", "-c", f"{old}; import lorentzrec.keras")
    expected = "lorentzrec.errors.ConfigError: lorentzrec.keras needs Keras 3.12 or later, not 3.5.0: pip install"
    assert done.stderr.strip().splitlines()[-1].startswith(expected)
