"""The words of a `fallback`: what an answer is instead, and why; the same from a model and from the web service."""

from __future__ import annotations

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.model.ranking import Rows


def history_remarks(rows: Rows, *, midpoint: bool = False, hint: str = "") -> tuple[str, ...]:
    """What to say of a history, given the row of each of its items.

    midpoint: the model has points of customers and is asked with a history. hint: what may help if no id is known.
    """
    if not len(rows):
        return ("popular: the history is empty",)
    if (rows == UNKNOWN).all():
        return (f"popular: none of the {len(rows)} history items is known{hint}",)
    return (*(("midpoint",) if midpoint else ()), *unknown_remark("partial: {} of {} history items", rows))


def allowed_remark(rows: Rows) -> tuple[str, ...]:
    """What to say of an allow-list, given the row of each of its items."""
    return unknown_remark("allowed: {} of {} allowed items", rows)


def unknown_remark(sentence: str, rows: Rows) -> tuple[str, ...]:
    """Nothing if all rows are known, else `sentence` with the number of unknown rows and of all rows in its places."""
    unknown = int((rows == UNKNOWN).sum())
    return (f"{sentence.format(unknown, len(rows))} {'is' if unknown == 1 else 'are'} unknown",) if unknown else ()
