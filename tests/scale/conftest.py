"""Markers of the tests that start a service."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: starts a local Spark session, which takes ten seconds or more")
    config.addinivalue_line("markers", "azure: starts Azurite, the emulator of Azure Blob Storage")
