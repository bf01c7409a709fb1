"""Tables for notebooks: what `_repr_html_` of models, reports and recommendations returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[object] = ()
) -> str:
    """A table with a title above it and notes below; all texts are escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    below = "".join(f"<div><small>{escape(str(note))}</small></div>" for note in notes)
    return f"<div><b>{escape(title)}</b></div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
