"""The documentation site. `make site` builds it into .build/site; warnings are errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lorentzrec

HERE = Path(__file__).parent
DEVELOPER_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")

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
html_js_files = ["copy.js"]
html_favicon = "static/favicon.svg"
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
        _write_if_changed(folder / notebook.name, text)


def copy_pages_for_developers(app: Any) -> None:
    """The pages at the top of the repository that describe the code, with links as they are in the site."""
    for name in DEVELOPER_PAGES:
        text = (HERE.parent / name).read_text(encoding="utf-8").replace("```mermaid", "```text")
        text = re.sub(rf"\]\(({'|'.join(DEVELOPER_PAGES)}|CHANGELOG\.md)\)", lambda link: link[0].lower(), text)
        text = re.sub(r"\]\((?!docs/|[a-z]+:|#)(?!architecture|contributing|changelog)", r"](../", text)
        _write_if_changed(HERE / name.lower(), text.replace("](docs/", "]("))


def _write_if_changed(path: Path, text: str) -> None:
    """Sphinx reads a file again when its time has changed."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def name_files_outside(app: Any, page: str, source: list[str]) -> None:
    """Links to notebooks lead to their copies. The site has no other files from outside docs/: links to them become
    their names."""
    if page.startswith("notebooks/"):
        return
    up = "../" * page.count("/")
    source[0] = re.sub(rf"\]\({up}\.\./examples/(\w+\.ipynb)\)", rf"]({up}notebooks/\1)", source[0])
    source[0] = re.sub(rf"\[[^\]]*\]\({up}\.\./([^)]+)\)", r"`\1`", source[0])


def escape_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Formulas have |x|, which is a substitution in reStructuredText."""
    if name.startswith("lorentzrec.geometry"):
        lines[:] = [re.sub(r"[|*]", r"\\\g<0>", line) for line in lines]


MADE_BY_FUNCTIONS = ("Interactions", "ItemAttributes", "Model", "PublicData", "Recommendations", "Report")
"""Classes that users do not construct: the reference shows no constructor."""


def hide_constructors(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    return ("", "") if what == "class" and name.rpartition(".")[2] in MADE_BY_FUNCTIONS else None


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", hide_constructors)
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("builder-inited", copy_notebooks)
    app.connect("builder-inited", copy_pages_for_developers)
    app.connect("source-read", name_files_outside)
