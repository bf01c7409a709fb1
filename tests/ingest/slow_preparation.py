"""Preparation by plain loops over plain tuples: the reference that the pipeline is compared with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from lorentzrec.data.event_order import random_key, tie_key
from lorentzrec.data.interactions import Interactions
from lorentzrec.ingest.prepare import PrepareConfig


@dataclass(frozen=True)
class Event:
    user: str
    item: str
    time: int
    weight: float = 1.0
    rating: float = 5.0
    event: str = "buy"
    tie: int = 0
    """Orders the events of a customer that have the same time."""


def csv_of(events: list[Event]) -> str:
    rows = (f'"{one.user}","{one.item}",{one.time},{one.weight},{one.rating},{one.event}\n' for one in events)
    return "user,item,time,weight,rating,event\n" + "".join(rows)


def prepare_slowly(events: list[Event], config: PrepareConfig) -> dict[str, Interactions]:
    """Part name -> events; one part without a name if there is no split."""
    rows = [one for one in events if not config.event_weights or one.event in config.event_weights]
    factor = config.event_weights or Counter()
    labels = config.label_events or ()
    rows = [Event(r.user, r.item, r.time, r.weight * factor.get(r.event, 1.0), r.rating, r.event) for r in rows]
    rows = [one for one in rows if config.minimum_rating is None or one.rating >= config.minimum_rating]
    rows = [one for one in rows if config.since is None or one.time >= float(config.since)]
    rows = [one for one in rows if config.until is None or one.time < float(config.until)]
    rows = with_ties(rows, config.source.tie_seed)
    if config.bot_events is not None:
        activity = Counter(one.user for one in rows)
        rows = [one for one in rows if activity[one.user] <= config.bot_events]
    rows = without_duplicates(rows, config.duplicates, labels)
    while True:
        users, items = Counter(one.user for one in rows), Counter(one.item for one in rows)
        enough = [
            one
            for one in rows
            if users[one.user] >= config.minimum_user_events and items[one.item] >= config.minimum_item_events
        ]
        changed, rows = len(enough) != len(rows), enough
        if not (config.k_core and changed):
            break
    rows.sort(key=lambda one: (one.user, one.time, one.tie, one.weight, one.event in labels))
    if config.maximum_history is not None:
        kept = []
        for user in sorted({one.user for one in rows}):
            kept += [one for one in rows if one.user == user][-config.maximum_history :]
        rows = kept
    if not rows or (labels and not any(one.event in labels for one in rows)):
        return {}
    columns: list[list[Any]] = [[getattr(one, name) for one in rows] for name in ("user", "item", "time", "weight")]
    targets = [one.event in labels for one in rows] if labels else None
    data = Interactions.from_pairs(columns[0], columns[1], columns[2], columns[3], targets, ties="given")
    if config.split is None:
        return {"": data}
    parts = data.split(config.split, drop_unseen_items=config.drop_unseen_items, **config.split_options)
    names = {2: ("train", "test"), 3: ("train", "validation", "test")}[len(parts)]
    return dict(zip(names, parts, strict=True))


def with_ties(rows: list[Event], seed: int) -> list[Event]:
    """By the ranks of the ids among all events that reach this step: what is dropped later changes no order."""
    users, items = (
        {id: rank for rank, id in enumerate(sorted(ids))} for ids in ({r.user for r in rows}, {r.item for r in rows})
    )
    return [
        replace(
            one,
            tie=tie_key(
                random_key(2 * seed, users[one.user]),
                random_key(2 * seed + 1, items[one.item]),
                one.time * 1_000_000,
                items[one.item],
            ),
        )
        for one in rows
    ]


def without_duplicates(rows: list[Event], keep: str, labels: tuple[str, ...]) -> list[Event]:
    if keep == "keep":
        return rows
    pairs: dict[tuple[str, str], list[Event]] = {}
    for one in rows:
        pairs.setdefault((one.user, one.item), []).append(one)
    result = []
    for same in pairs.values():
        pick = min if keep == "first" else max
        time = pick(one.time for one in same)
        weights = [one.weight for one in same if one.time == time]
        weight = sum(one.weight for one in same) if keep == "sum" else max(weights)
        kinds = [one.event for one in same if keep == "sum" or one.time == time]
        kind = next((kind for kind in kinds if kind in labels), kinds[0])
        tie = max(one.tie for one in same if one.time == time)
        result.append(Event(same[0].user, same[0].item, time, weight, event=kind, tie=tie))
    return result
