"""The card of a model: one page in Markdown that says what the model is, what it is worth, and what it cannot do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lorentzrec._version import __version__
from lorentzrec.base.tabular import TableText
from lorentzrec.model.reality_check import describe_check

if TYPE_CHECKING:
    from lorentzrec.model.model import Model

HEADER = """\
---
library_name: lorentzrec
tags: [recommender-systems, {geometry}]
---
"""
"""What catalogues of models read, such as that of Hugging Face."""
LIMITS = (
    "It knows what customers did, not why. It repeats the habits, and the gaps, of its training data.",
    "Items with few events have uncertain points. Items without events need attributes, or are not recommended.",
    "A difference that is not significant on the events of the check can be chance.",
)


def write_card(model: Model, name: str) -> str:
    """The card of `model`. `name` is its title."""
    config = model.config
    parts = [
        HEADER.format(geometry=config.geometry),
        f"# {name}\n",
        f"This model recommends items to anyone with at least one interaction. It has a point of {config.dimension} "
        f"dimensions per item, {_space(model)}. The card was written by lorentzrec {__version__}.\n",
        "## How to use it\n",
        "```python\nfrom lorentzrec import load\n\n"
        f'model = load("FOLDER")\nmodel.recommend(history=[{model.item_ids[0]!r}], k=10)\n```\n',
        "## Training data\n",
        _data(model).to_markdown(),
        "## Quality\n",
        _sentence(describe_check(model)),
    ]
    if model.check is not None:
        parts.append(_quality(model).to_markdown())
    parts += ["## Settings\n", _settings(model).to_markdown()]
    if model.notes:
        parts += ["## Notes of the training\n", _points(model.notes)]
    parts += ["## Limits\n", _points(LIMITS)]
    return "\n".join(parts)


def _space(model: Model) -> str:
    return "on the hyperboloid" if model.config.geometry == "hyperboloid" else "in Euclidean space"


def _data(model: Model) -> TableText:
    rows = [("items", f"{len(model.items):,}")]
    if model.users is not None:
        rows.append(("customers", f"{len(model.users):,}"))
    rows.append(("events", f"{int(model.item_counts.sum()):,}"))
    if model.oldest_time is not None and model.newest_time is not None:
        rows.append(("days", f"{_day(model.oldest_time)} to {_day(model.newest_time)}"))
    rows.append(("digest", model.data_digest))
    return TableText(("data", "value"), rows)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _quality(model: Model) -> TableText:
    assert model.check is not None
    rows = []
    for row in model.check.rows:
        difference, significant = "", ""
        if row.difference is not None:
            difference, significant = f"{row.difference:+.4f}", "yes" if row.significant else "no"
        rows.append((row.name, f"{row.ndcg:.4f}", f"{row.recall:.4f}", difference, significant))
    return TableText(("system", "NDCG@10", "recall@10", "this model minus it", "significant"), rows)


def _settings(model: Model) -> TableText:
    settings = model.config.to_dict().items()
    return TableText(("setting", "value"), [(name, str(value)) for name, value in settings if value is not None])


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}.\n"


def _points(lines: tuple[str, ...]) -> str:
    return "".join(f"- {line[0].upper()}{line[1:]}\n" for line in lines)
