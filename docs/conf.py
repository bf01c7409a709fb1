"""The documentation site. `make site` builds it into .build/site; warnings are errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lorentzrec

HERE = Path(__file__).parent

project, author, copyright = "lorentzrec", "The lorentzrec authors", "The lorentzrec authors"
version = release = lorentzrec.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]
nb_execution_mode = "off"  # the tests run the notebooks; their stored output is shown
html_theme = "furo"
html_title = f"lorentzrec {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
exclude_patterns = ["images"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature shows names and defaults, the text describes types
default_role = "code"


def copy_notebooks(app: Any) -> None:
    """Sphinx reads sources from one folder only, so that of the notebooks is copied into it."""
    folder = HERE / "notebooks"
    folder.mkdir(exist_ok=True)
    for notebook in (HERE.parent / "examples").glob("*.ipynb"):
        text = notebook.read_text(encoding="utf-8").replace("](../docs/", "](../")
        copy = folder / notebook.name
        if not copy.exists() or copy.read_text(encoding="utf-8") != text:
            copy.write_text(text, encoding="utf-8")


def name_files_outside(app: Any, page: str, source: list[str]) -> None:
    """Links to notebooks lead to their copies. The site has no other files from outside docs/: links to them become
    their names."""
    if page.startswith("notebooks/"):
        return
    source[0] = re.sub(r"\]\(\.\./examples/(\w+\.ipynb)\)", r"](notebooks/\1)", source[0])
    source[0] = re.sub(r"\[[^\]]*\]\(\.\./([^)]+)\)", r"`\1`", source[0])


def setup(app: Any) -> None:
    app.connect("builder-inited", copy_notebooks)
    app.connect("source-read", name_files_outside)
