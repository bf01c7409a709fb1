"""The documentation site. `make site` builds it into .build/site; warnings are errors."""

from __future__ import annotations

import re
from typing import Any

import lorentzrec

project, author, copyright = "lorentzrec", "The lorentzrec authors", "The lorentzrec authors"
version = release = lorentzrec.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]
html_theme = "furo"
html_title = f"lorentzrec {version}"
exclude_patterns = ["images"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature shows names and defaults, the text describes types
default_role = "code"


def name_files_outside(app: Any, page: str, source: list[str]) -> None:
    """The site has no files from outside docs/: links to them become their names."""
    source[0] = re.sub(r"\[[^\]]*\]\(\.\./([^)]+)\)", r"`\1`", source[0])


def setup(app: Any) -> None:
    app.connect("source-read", name_files_outside)
