"""The marks of tests that use Spark."""

from __future__ import annotations

import shutil

import pytest

SPARK_MARKS = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed"),
    # Spark's own: pandas newer than it knows, sockets it leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore::FutureWarning:pyspark"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
