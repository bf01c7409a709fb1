"""The examples do what they say, against the real server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving.running_service import KEY, PATIENCE, Service, wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "command", [["sh", "ask_service.sh"], [sys.executable, "ask_service.py"]], ids=["shell", "python"]
)
def test_scripts(keyed_service: Service, command: list[str]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    wait_until(lambda: keyed_service.http.get("/readyz").status_code == 200)
    ended = subprocess.run(
        [*command, keyed_service.url],
        cwd=EXAMPLES,
        env=os.environ | {"API_KEY": KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Piece number" in ended.stdout
