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

pytestmark = pytest.mark.keras


def run_python(back_end: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Python on a back end, with one thread for each library: tests share the machine."""
    environment = os.environ | {
        "KERAS_BACKEND": back_end,
        "OMP_NUM_THREADS": "1",
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


DAMAGED_ARCHIVES = """
import sys, zipfile
from pathlib import Path
import keras
from lorentzrec.errors import ArtifactError
from lorentzrec.keras import load_model

folder = Path(sys.argv[1])
keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(folder / "good.keras")
content = (folder / "good.keras").read_bytes()
damaged = [content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :] for at in range(0, len(content), 41)]
with zipfile.ZipFile(folder / "good.keras") as archive:
    files = {name: archive.read(name) for name in archive.namelist()}
config = files["config.json"]
forged = [b"[" * 100_000, b"{}", b"[]", b"null", b'{"class_name": 3, "config": []}', config.replace(b'"units"', b'"x"')]
forged += [config.replace(b"Dense", b"Nothing"), config.replace(b'"layers": [', b'"layers": [1, '), config[:-9]]
for text in forged:
    with zipfile.ZipFile(folder / "bad.keras", "w") as archive:
        for name, data in (files | {"config.json": text}).items():
            archive.writestr(name, data)
    damaged.append((folder / "bad.keras").read_bytes())
lines = []
for one in damaged:
    (folder / "bad.keras").write_bytes(one)
    try:
        load_model(folder / "bad.keras")
    except ArtifactError as error:
        lines.append(str(error))
print(len(lines) >= len(damaged) / 2, [line for line in lines if chr(10) in line])
"""


def test_damaged_archives_are_errors_of_one_line(tmp_path: Path) -> None:
    found = [name for name in BACK_ENDS if find_spec("keras") is not None and find_spec(name) is not None]
    if not found:
        pytest.skip("keras or its back ends are not installed")
    done = run_python(found[0], "-c", DAMAGED_ARCHIVES, tmp_path)
    assert done.stdout.splitlines()[-1:] == ["True []"], done.stdout[-2000:] + done.stderr[-4000:]
