"""Preparation over Spark Connect, in a separate process: a process cannot have both kinds of session."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lorentzrec.errors import InputError
from lorentzrec.ingest.spark_engine import spark_engine

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed"),
]

SCRIPT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from dataclasses import replace
from pyspark.sql import SparkSession
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.spark_engine import spark_engine

config = PrepareConfig(events=("events.csv",), split="leave_last_out")
SparkSession.builder.remote("local[2]").getOrCreate()  # starts a server in this process
with spark_engine(master="sc://localhost") as engine:
    assert "connect" in type(engine._session).__module__
    there = prepare(config, "there", engine)
here = prepare(config, "here")
assert there.digest == here.digest and there.steps == here.steps
print("equal")
"""


def test_a_connect_session_gives_the_same_dataset(tmp_path: Path) -> None:
    rows = "".join(f"u{n % 7},i{n % 5},{n // 3}\n" for n in range(100))
    (tmp_path / "events.csv").write_text("user,item,time\n" + rows)
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("equal"), done.stderr[-2000:]


def test_an_address_without_a_server_is_reported_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]  # bound but not listening
        with (
            pytest.raises(InputError, match=f"no server at 127.0.0.1:{port}"),
            spark_engine(master=f"sc://127.0.0.1:{port}"),
        ):
            pass
