"""Numbers in texts: with nouns, "1 item is" and "2,000 items are", and shares, "0.025%"."""

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


class Share(float):
    """A share that is formatted with three digits, however small: `f"{Share(0.00025):%}"` is 0.025%.

    Other format specifications are those of float.
    """

    def __format__(self, spec: str) -> str:
        return f"{100 * self:.3g}%" if spec == "%" else super().__format__(spec)


def with_counts(text: str, values: Mapping[str, object]) -> str:
    """The text with its fields filled in; integers are formatted as a `Count`, floats as a `Share`."""
    shown = {
        name: Count(one) if type(one) is int else Share(one) if type(one) is float else one
        for name, one in values.items()
    }
    return text.format(**shown)
