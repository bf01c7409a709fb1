"""From typed events to numbered, ordered histories: one definition, in Narwhals, for every engine.

Order of the steps: faults, event weights, rating threshold, time window; ids to codes (their rank by id, so that
integers stand for ids from here on and still sort like them); bots, duplicates, minimum counts or k-core, maximum
history length; rows by falling frequency; split. Every order is total and every sum exact, so engines cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw

from lorentzrec.data.splitting import EventColumns, find_rule, unseen_note
from lorentzrec.data.times import MICROSECONDS
from lorentzrec.errors import InputError
from lorentzrec.ingest.engine import Engine, Frame
from lorentzrec.ingest.reading import FAULT_COLUMNS, INTEGER, fault_counts, fault_error


@dataclass(frozen=True)
class Step:
    """What one step did to the number of rows, and why."""

    name: str
    rows_in: int
    rows_out: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """Which events stay, and how they are split; see `prepare.PrepareConfig` for the meaning of each field."""

    on_error: str = "raise"
    event_weights: Mapping[str, float] = field(default_factory=dict)
    label_events: tuple[str, ...] | None = None
    minimum_rating: float | None = None
    since: int | None = None
    """Microseconds, inclusive."""
    until: int | None = None
    """Microseconds, exclusive."""
    bot_events: int | None = None
    duplicates: str = "keep"
    minimum_user_events: int = 1
    minimum_item_events: int = 1
    k_core: bool = False
    maximum_history: int | None = None
    split: str | None = None
    split_options: Mapping[str, Any] = field(default_factory=dict)
    drop_unseen_items: bool = False


@dataclass(frozen=True)
class Histories:
    """The pipeline's result, not yet written."""

    events: Frame
    """user_row, item_row, item_code (rank of the item by id), and time, weight, label, part where there are such."""
    order: tuple[str, ...]
    users: Frame
    """row, id, count"""
    items: Frame
    rejected: Frame | None
    parts: tuple[str, ...]
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


class Pipeline:
    """One run. Each method is a step: it takes the events, gives them back changed, and records what it did."""

    def __init__(
        self,
        engine: Engine,
        cleaning: Cleaning,
        spelled: frozenset[str],
        *,
        label: str = "the input",
        positions: bool = False,
        watch: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """`spelled`: roles whose ids are text that may spell integers. `label`: the files, for errors.

        `positions`: times are places in the files. `watch` is called with the name of each stage when it begins.
        """
        self.label, self.watch = label, watch
        self.engine, self.cleaning, self.spelled, self.positions = engine, cleaning, spelled, positions
        self.steps: list[Step] = []
        self.notes: list[str] = []
        self.timed = self.weighted = self.whole_seconds = False
        """Whether there are times, weights, and only whole seconds; known once the events are seen."""
        self.tie = "item_code"
        """What orders a customer's events with equal times."""

    def run(self, events: Frame) -> Histories:
        """All steps in order."""
        columns = events.collect_schema().names()
        self.timed, self.weighted = "time" in columns, "weight" in columns or bool(self.cleaning.event_weights)
        self.tie = "sequence" if "sequence" in columns else "item_code"
        self.watch("checking")
        rejected = events.filter(~nw.col("fault").is_null()).select(*FAULT_COLUMNS)
        sound = self._rows_that_qualify(events, rejected)
        self.watch("numbering ids")
        coded, users, items = self._codes(sound)
        self.watch("cleaning")
        train, test = coded.drop("part"), None
        if self.cleaning.split == "given":
            train, test = coded.filter(nw.col("part") == 0), coded.filter(nw.col("part") == 1)
            train = self._record(
                "test files", self._rows_now, train, "test events stand aside until training's are clean"
            )
        train = self._without_bots(train)
        train = self._without_duplicates(train)
        train = self._frequent(train)
        train = self._newest(train)
        if self._count(train) == 0:
            raise InputError(
                "no event is left after " + self.steps[-1].name + ": loosen the filters, or check the options"
            )
        if self.cleaning.label_events and not self.engine.collected(train.select(nw.col("label").max())).item():
            raise InputError(
                f"no event of the kind {', '.join(self.cleaning.label_events)} is left to predict: "
                "check `label_events` and the filters"
            )
        parts: tuple[str, ...] = ()
        if test is not None:
            train, parts = self._given(train, test), ("train", "test")
        self.watch("ordering")
        users, items, numbered = self._rows(train, users, items)
        if self.positions:
            numbered = self._placed(numbered)
        if self.cleaning.split not in (None, "given"):
            numbered, parts = self._split(numbered)
        if parts and self.cleaning.drop_unseen_items:
            numbered = self._without_unseen(numbered, parts)
        self._refuse_empty_parts(numbered, parts)
        order = tuple(
            name for name in ("user_row", "time", self.tie, "weight", "label", "part") if name in self._names(numbered)
        )
        skipped = rejected if self.steps[0].rows_in > self.steps[0].rows_out else None
        return Histories(numbered, order, users, items, skipped, parts, tuple(self.steps), tuple(self.notes))

    def _names(self, frame: Frame) -> list[str]:
        return frame.collect_schema().names()

    def _count(self, frame: Frame) -> int:
        return int(self.engine.collected(frame.select(nw.len().alias("rows"))).item())

    def _record(self, name: str, rows_in: int, frame: Frame, why: str) -> Frame:
        """The frame computed, and its number of rows written down."""
        kept = self.engine.kept(frame)
        self.steps.append(Step(name, rows_in, self._count(kept), why))
        return kept

    @property
    def _rows_now(self) -> int:
        return self.steps[-1].rows_out

    def _rows_that_qualify(self, events: Frame, rejected: Frame) -> Frame:
        cleaning = self.cleaning
        rules: list[tuple[str, str, nw.Expr]] = [("read", "faulty rows", nw.col("fault").is_null())]
        if cleaning.event_weights:
            named = ", ".join(cleaning.event_weights)
            rules.append(
                ("event weights", f"events other than {named}", nw.col("event").is_in(list(cleaning.event_weights)))
            )
        if cleaning.minimum_rating is not None:
            why = f"ratings below {cleaning.minimum_rating:g}"
            rules.append(("rating threshold", why, nw.col("rating") >= cleaning.minimum_rating))
        for bound, name, why in (
            (cleaning.since, "since", "earlier events"),
            (cleaning.until, "until", "later events"),
        ):
            if bound is not None:
                inside = nw.col("time") >= bound if name == "since" else nw.col("time") < bound
                rules.append((name, why, inside))
        masks = [mask for _, _, mask in rules]
        together = [masks[0]]
        for mask in masks[1:]:
            together.append(together[-1] & mask)
        counts = {f"after_{number}": mask.fill_null(False).cast(nw.Int64).sum() for number, mask in enumerate(together)}
        if self.timed and not self.positions:
            fractions = (nw.col("time") % MICROSECONDS != 0).fill_null(False)
            counts["fractions"] = (fractions & together[-1].fill_null(False)).cast(nw.Int64).sum()
        found = self.engine.collected(events.select(nw.len().alias("rows"), **counts)).row(0, named=True)
        rows_in = int(found["rows"])
        for number, (name, why, _) in enumerate(rules):
            rows_out = int(found[f"after_{number}"] or 0)
            if number == 0 and rows_out < rows_in:
                why = self._faults(rejected, rows_in - rows_out)
            self.steps.append(Step(name, rows_in, rows_out, why))
            rows_in = rows_out
        if rows_in == 0:
            if found["rows"] == 0:
                raise InputError(f"{self.label} holds no events: give at least one")
            step = next(step for step in self.steps if step.rows_out == 0)
            raise InputError(f"no event is left after {step.name} ({step.why}): check the files and the options")
        self.whole_seconds = not found.get("fractions")
        # Without faults, the later passes over the files need not look for them again.
        needed = masks if self.steps[0].rows_out < self.steps[0].rows_in else masks[1:]
        return events.filter(*needed) if needed else events

    def _faults(self, rejected: Frame, count: int) -> str:
        """What is wrong with the faulty rows; an error unless they are to be skipped."""
        kinds = rejected.group_by("fault").agg(nw.len().cast(nw.Int64).alias("rows"))
        counted = self.engine.collected(kinds.sort("rows", "fault", descending=[True, False]).head(1000)).rows()
        if self.cleaning.on_error == "raise":
            first = rejected.sort("file", "line").head(1)
            names = [name for name, _ in counted]
            raise fault_error(self.engine.collected(first).row(0, named=True), count=count, kinds=names)
        return fault_counts(counted)

    def _codes(self, events: Frame) -> tuple[Frame, Frame, Frame]:
        """Ids to their ranks, with the tables (code, id) that lead back."""
        tables = []
        for role in ("user", "item"):
            table = events.select(nw.col(role)).unique().select(nw.col(role), nw.col(role).alias("id"))
            kind = events.collect_schema()[role]
            if kind == nw.String and role in self.spelled:
                table = self.engine.kept(table)
                others = (~nw.col("id").str.contains(INTEGER)).cast(nw.Int64).sum().alias("others")
                if self.engine.collected(table.select(others)).item() == 0:
                    table = table.with_columns(nw.col("id").cast(nw.Int64))
            table = table.with_row_index(f"{role}_code", order_by="id").with_columns(
                nw.col(f"{role}_code").cast(nw.Int64)
            )
            tables.append(self.engine.kept(table))
        columns = {"user_code": nw.col("user_code").cast(nw.Int32), "item_code": nw.col("item_code").cast(nw.Int32)}
        if self.timed:
            time = nw.col("time")
            seconds = (time // MICROSECONDS).cast(nw.Int64) if self.whole_seconds else time / float(MICROSECONDS)
            columns["time"] = time if self.positions else seconds
        if self.tie == "sequence":
            columns["sequence"] = nw.col("sequence")
        if self.weighted:
            columns["weight"] = self._weight(self._names(events))
        if self.cleaning.label_events:
            columns["label"] = nw.col("event").is_in(list(self.cleaning.label_events)).cast(nw.Int32)
        coded = events.join(tables[0], on="user").join(tables[1], on="item", suffix="_of_item")
        coded = self.engine.kept(coded.select(**columns, part=nw.col("part")))
        users, items = (
            table.select(nw.col(f"{role}_code").cast(nw.Int32), "id")
            for role, table in zip(("user", "item"), tables, strict=True)
        )
        return coded, users, items

    def _weight(self, names: Sequence[str]) -> nw.Expr:
        weight = nw.col("weight") if "weight" in names else nw.lit(1.0)
        factor: nw.Expr | None = None
        for event, value in self.cleaning.event_weights.items():
            case = nw.when(nw.col("event") == event).then(nw.lit(float(value)))
            factor = case if factor is None else case.otherwise(factor)
        if factor is not None:
            weight = weight * factor
        return weight.cast(nw.Float32).cast(nw.Float64)

    def _without_bots(self, events: Frame) -> Frame:
        limit = self.cleaning.bot_events
        if limit is None:
            return events
        people = events.group_by("user_code").agg(nw.len().alias("events")).filter(nw.col("events") <= limit)
        kept = events.join(people.select("user_code"), on="user_code", how="semi")
        return self._record("bots", self._rows_now, kept, f"customers with more than {limit:,} events")

    def _without_duplicates(self, events: Frame) -> Frame:
        keep = self.cleaning.duplicates
        if keep == "keep":
            return events
        pair = ["user_code", "item_code", *(["part"] if "part" in self._names(events) else [])]
        instants = [name for name in ("time", "sequence") if name in self._names(events)]
        chosen_of = {name: nw.col(name).min() if keep == "first" else nw.col(name).max() for name in instants}
        time = [chosen_of[name] for name in instants if name == "time"]
        weight = nw.col("weight")
        label = [nw.col("label").max()] if self.cleaning.label_events else []
        heaviest = [weight.max()] if self.weighted else []
        if keep == "sum":
            # Weights have 24 bits and sums 53: additions are exact in any order unless weights differ by millions.
            total = [weight.sum().cast(nw.Float32).cast(nw.Float64)] if self.weighted else [nw.len().alias("weight")]
            kept = events.group_by(*pair).agg(*chosen_of.values(), *total, *label).with_columns(weight.cast(nw.Float64))
            self.weighted = True
        elif self.timed and (self.weighted or label or self.tie == "sequence"):
            chosen = events.group_by(*pair).agg(*time)
            same_time = events.join(chosen, on=[*pair, "time"], how="semi")
            others = [chosen_of[name] for name in instants if name != "time"]
            kept = same_time.group_by(*pair, "time").agg(*others, *heaviest, *label)
        else:
            kept = events.group_by(*pair).agg(*chosen_of.values(), *heaviest, *label)
        why = {"first": "the first event", "last": "the last event", "sum": "one event with the summed weight"}[keep]
        return self._record("duplicates", self._rows_now, kept, f"of each (user, item) pair {why} stays")

    def _frequent(self, events: Frame) -> Frame:
        bounds = {"user": self.cleaning.minimum_user_events, "item": self.cleaning.minimum_item_events}
        bounds = {role: bound for role, bound in bounds.items() if bound > 1}
        if not bounds:
            return events
        why = " and ".join(f"fewer than {bound} events per {role}" for role, bound in bounds.items())
        for turn in range(1, 10_000):
            before, kept = self._rows_now, events
            for role, bound in bounds.items():
                counts = events.group_by(f"{role}_code").agg(nw.len().alias("events"))
                enough = counts.filter(nw.col("events") >= bound).select(f"{role}_code")
                kept = kept.join(enough, on=f"{role}_code", how="semi")
            events = self._record(
                f"k-core, pass {turn}" if self.cleaning.k_core else "minimum counts", before, kept, why
            )
            if not self.cleaning.k_core or self._rows_now in (before, 0):
                break
        return events

    def _newest(self, events: Frame) -> Frame:
        longest = self.cleaning.maximum_history
        if longest is None:
            return events
        order = [name for name in ("time", self.tie, "weight", "label") if name in self._names(events)]

        def step(frame: Frame) -> Frame:
            from_the_end = nw.col("item_code").cum_count(reverse=True).over("user_code", order_by=order)
            return frame.with_columns(place=from_the_end).filter(nw.col("place") <= longest).drop("place")

        kept = self.engine.by_customer(events, "user_code", step)
        return self._record("maximum history", self._rows_now, kept, f"only the newest {longest:,} events per customer")

    def _given(self, train: Frame, test: Frame) -> Frame:
        if "weight" in self._names(train) and "weight" not in self._names(test):
            test = test.with_columns(weight=nw.lit(1.0))
        known = test.join(train.select("user_code").unique(), on="user_code", how="semi")
        together = nw.concat([train, known.select(*self._names(train))])
        why = "test events of customers without training events"
        return self._record("test events", self._rows_now + self._count(test), together, why)

    def _rows(self, events: Frame, users: Frame, items: Frame) -> tuple[Frame, Frame, Frame]:
        """Codes to rows: the most frequent first, equal ones by id."""
        tables = []
        for role, ids in (("user", users), ("item", items)):
            code = f"{role}_code"
            counts = (
                events.group_by(code).agg(nw.len().cast(nw.Int64).alias("count")).with_columns(rarity=-nw.col("count"))
            )
            numbered = counts.with_row_index("row", order_by=["rarity", code]).drop("rarity")
            numbered = self.engine.kept(numbered.with_columns(nw.col("row").cast(nw.Int32)))
            tables.append(numbered.join(ids, on=code).select("row", "id", "count"))
            rows = numbered.select(nw.col("row").alias(f"{role}_row"), code)
            events = events.join(rows, on=code)
        return tables[0], tables[1], self.engine.kept(events.drop("user_code"))

    def _placed(self, events: Frame) -> Frame:
        """Places in the files to places in each customer's history."""

        def step(frame: Frame) -> Frame:
            place = nw.col("item_code").cum_count().over("user_row", order_by="time").cast(nw.Int64) - 1
            return frame.with_columns(time=place)

        self.notes.append("times are positions in the files, not moments")
        return self.engine.kept(self.engine.by_customer(events, "user_row", step))

    def _split(self, events: Frame) -> tuple[Frame, tuple[str, ...]]:
        how, options = str(self.cleaning.split), dict(self.cleaning.split_options)
        rule = find_rule(how, options, ordered=self.timed)
        last_time = self.engine.collected(events.select(nw.col("time").max())).item() if self.timed else None
        labelled = bool(self.cleaning.label_events)
        order = [name for name in ("time", self.tie, "weight", "label") if name in self._names(events)]

        def step(frame: Frame) -> Frame:
            placed = _placed_targets(frame, order, self.timed) if labelled else _placed_events(frame, order)
            if self.timed:
                placed = placed.with_columns(first_time=nw.col("time").min().over("user_row"))
            masks = rule.masks(
                EventColumns(
                    user_row=nw.col("user_row").cast(nw.Int64),
                    position=nw.col("position"),
                    length=nw.col("length"),
                    ordered=self.timed,
                    time=nw.col("time"),
                    first_time=nw.col("first_time"),
                    last_time=last_time,
                ),
                **options,
            )
            part: nw.Expr = nw.lit(0)
            for number, name in enumerate(rule.parts, 1):
                part = nw.when(masks[name]).then(nw.lit(number)).otherwise(part)
            if "left_out" in masks:
                part = nw.when(masks["left_out"]).then(nw.lit(-1)).otherwise(part)
            split = placed.with_columns(part=part.cast(nw.Int32)).filter(nw.col("part") >= 0)
            return split.select(*self._names(frame), "part")

        before = self._count(events)
        kept = self._record("split", before, self.engine.by_customer(events, "user_row", step), how)
        if rule.last_event_rule and not self.timed:
            self.notes.append(f"without times, {how} takes events of each customer at random")
        if self._rows_now < before:
            self.notes.append(
                f"{before - self._rows_now:,} events left out, of customers first seen after training ends"
            )
        return kept, ("train", *rule.parts)

    def _refuse_empty_parts(self, events: Frame, parts: Sequence[str]) -> None:
        filled = self.engine.collected(events.select("part").unique())["part"].to_list() if parts else []
        for number, name in enumerate(parts):
            if number not in filled:
                why = f"the split {self.cleaning.split} leaves the {name} part without events"
                raise InputError(f"{why}: use another split, or more data")

    def _without_unseen(self, events: Frame, parts: Sequence[str]) -> Frame:
        train, later = events.filter(nw.col("part") == 0), events.filter(nw.col("part") > 0)
        kept = later.join(train.select("item_code").unique(), on="item_code", how="semi")
        before = self._count(events)
        kept = self._record(
            "unseen items", before, nw.concat([train, kept]), "later events of items without training event"
        )
        self.notes.append(unseen_note(" and ".join(parts[1:]), before - self._rows_now))
        return kept


def _placed_events(frame: Frame, order: Sequence[str]) -> Frame:
    """The position of each event in its customer's history, and the length of that history."""
    return frame.with_columns(
        position=nw.col("item_code").cum_count().over("user_row", order_by=order).cast(nw.Int64) - 1,
        length=nw.len().over("user_row").cast(nw.Int64),
    )


def _placed_targets(frame: Frame, order: Sequence[str], timed: bool) -> Frame:
    """The same where only some events are targets: `splitting.positions` as expressions."""
    counted = nw.col("label").cast(nw.Int64).cum_sum().over("user_row", order_by=order)
    frame = frame.with_columns(position=counted - 1, length=nw.col("label").cast(nw.Int64).sum().over("user_row"))
    if timed:
        leading = -nw.col("position").min().over("user_row")
        return frame.with_columns(position=nw.col("position") + leading, length=nw.col("length") + leading)
    target = nw.col("label") == 1
    return frame.with_columns(
        position=nw.when(target).then(nw.col("position")).otherwise(nw.lit(-1)),
        length=nw.when(nw.col("length") > 0).then(nw.col("length")).otherwise(nw.lit(1)),
    )
