"""The versions that CI installs: one for every package, and within the bounds that the project declares."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"lorentzrec", "torch"}
"""The package's own extras, and what pyproject.toml pins because its build depends on the machine."""


def pinned() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_every_dependency_is_pinned_within_its_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    found = {Requirement(text) for group in groups for text in group}
    for requirement in found:
        if requirement.name not in ELSEWHERE:
            version = pinned().get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not in constraints.txt: run make constraints"
            assert requirement.specifier.contains(version), (
                f"{requirement} does not allow {version}: run make constraints"
            )


def test_constraints_suit_every_machine() -> None:
    versions = pinned()
    assert "torch" not in versions
    assert [version for version in versions.values() if not version or "+" in version] == []
