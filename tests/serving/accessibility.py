"""What axe-core finds in a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

AXE = Path(__file__).parents[1] / "axe" / "node_modules" / "axe-core" / "axe.min.js"
needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: run npm ci in tests/axe")


def serious_findings(page: Any) -> list[tuple[str, list[str]]]:
    """The rules that the open page breaks seriously, and where."""
    page.evaluate(AXE.read_text())  # through the debugger, which the content security policy does not restrict
    passed, found = page.evaluate(
        "async () => { const { passes, violations } = await axe.run(); return [passes.length, violations] }"
    )
    assert passed > 10
    return [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
