"""Processes that a test interrupts."""

from __future__ import annotations

import os


def environment(**variables: str) -> dict[str, str]:
    """Ours with these variables, and without coverage: an interrupt in its tracer leaves its lock closed, and the
    process hangs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    return kept | variables
