"""Writes docs/settings.md from the dataclasses: `python docs/settings_page.py`. A test checks that it is up to date."""

from __future__ import annotations

import ast
import inspect
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path

from lorentzrec.field_checks import field_hints, requirement
from lorentzrec.ingest.prepare import PrepareConfig
from lorentzrec.ingest.sources import Source
from lorentzrec.model.config import TrainingConfig
from lorentzrec.serving.http.settings import ServiceSettings

SECTIONS = [
    (
        TrainingConfig,
        "Training",
        "`TrainingConfig(...)` in Python, `--set NAME=VALUE` or a TOML file (`--config`) in the shell. `None` means "
        "that the value is chosen from the data when training starts; `model.config` has what was chosen.",
    ),
    (
        Source,
        "Event files",
        "Keyword arguments of `Interactions.from_file`, and options of `lorentzrec prepare` (`user_column` is "
        "`--user-column`): what the files look like.",
    ),
    (
        PrepareConfig,
        "Preparation",
        "Keyword arguments of `Interactions.from_file`, and options of `lorentzrec prepare`: which events are kept.",
    ),
    (ServiceSettings, "Service", "Options of `lorentzrec serve`, as far as `lorentzrec serve --help` lists them."),
]


def field_texts(cls: type) -> dict[str, str]:
    """What the source says below each field of a dataclass."""
    [tree] = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for node, following in pairwise([*tree.body, ast.Pass()]):
        if isinstance(node, ast.AnnAssign) and isinstance(following, ast.Expr):
            texts[ast.unparse(node.target)] = " ".join(str(ast.literal_eval(following.value)).split())
    return texts


def settings_table(cls: type) -> list[str]:
    """A Markdown table with a row per field."""
    hints, texts = field_hints(cls), field_texts(cls)
    rows = ["| name | default | values | |", "|---|---|---|---|"]
    for field in fields(cls):
        default = "required" if field.default is MISSING else f"`{field.default!r}`"
        values = requirement(hints[field.name]).replace("|", "\\|")
        text = texts.get(field.name, "").replace("|", "\\|")
        rows.append(f"| `{field.name}` | {default} | {values} | {text} |")
    return rows


def settings_page() -> str:
    lines = ["# Settings", "", "Every setting with its default and the values it takes.", ""]
    for cls, title, text in SECTIONS:
        lines += [f"## {title}", "", text, "", *settings_table(cls), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    Path(__file__).with_name("settings.md").write_text(settings_page(), encoding="utf-8")
