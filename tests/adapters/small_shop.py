"""Events as a pandas frame: two groups of customers with ten items each, in order of time."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd

SETTINGS: dict[str, Any] = {"dimension": 4, "epochs": 3, "seed": 1}


def events() -> pd.DataFrame:
    draw = random.Random(3)
    rows = [(100 + user, user % 2 * 10 + draw.randrange(10)) for user in range(40) for _ in range(8)]
    draw.shuffle(rows)
    users, items = zip(*rows, strict=True)
    return pd.DataFrame({"user_id": users, "item_id": items, "time": range(len(rows))})
