"""Compiles the ranking into the wheel; a checkout compiles it at first use. See `src/lorentzrec/base/c_compiler.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags


class CompiledRanking(BuildHookInterface):  # type: ignore[type-arg]
    """The wheel has a library for this kind of machine, and works with every release of Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        source = Path(self.root) / "src" / "lorentzrec" / "points" / "ranking.c"
        sys.path.insert(0, str(source.parents[2]))
        from lorentzrec.base.c_compiler import compile_library, packaged_path

        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name) / packaged_path(source).name
        compile_library(source, library)
        build_data["force_include"][str(library)] = f"lorentzrec/points/{library.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{next(platform_tags())}"
