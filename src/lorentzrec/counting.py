"""Numbers with nouns in texts: "1 item is", "2,000 items are"."""

from __future__ import annotations

from collections.abc import Mapping


class Count(int):
    """A number that is formatted with its noun: `f"{Count(n):customer has|customers have} no history"`.

    Other format specifications are those of int.
    """

    def __format__(self, spec: str) -> str:
        if "|" not in spec:
            return super().__format__(spec)
        return f"{int(self):,} {spec.split('|')[self != 1]}"


def with_counts(text: str, values: Mapping[str, object]) -> str:
    """The text with its fields filled in; integers are formatted as a `Count`."""
    return text.format(**{name: Count(one) if type(one) is int else one for name, one in values.items()})
