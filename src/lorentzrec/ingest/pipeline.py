"""From typed events to numbered, sorted histories: one definition, in Narwhals, for every engine.

Order of the steps: faults, quantities of 0, event weights, rating threshold, time window; ids to codes (their rank by
id: integers that sort like the ids); cancellations, bots, duplicates, minimum counts or k-core, maximum history length;
rows by falling frequency; split. Every order is total and every sum exact, so that all engines give the same result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from operator import and_
from typing import TYPE_CHECKING

import narwhals as nw

from lorentzrec.base.counting import Count
from lorentzrec.data.event_order import order_key, random_key, tie_key
from lorentzrec.data.splitting import (
    LATER_ORDERS,
    EventColumns,
    OrderColumns,
    find_rule,
    find_training_end,
    random_note,
    unseen_note,
)
from lorentzrec.data.times import MICROSECONDS, parse_moment
from lorentzrec.errors import InputError
from lorentzrec.ingest.engine import Engine, Frame
from lorentzrec.ingest.layouts import FileLayout, explain_reader
from lorentzrec.ingest.order_notes import describe_orders
from lorentzrec.ingest.quantities import (
    QUANTITY,
    count_quantities,
    describe_cancellations,
    describe_quantities,
    match_cancellations,
)
from lorentzrec.ingest.reading import BLANKS, FAULT_COLUMNS, FLOAT, INTEGER, NOTHING, count_faults, fault_error

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.ingest.config import PrepareConfig


ORDER_COLUMNS = ("order_position", "order_count", "order_time", "order_time_before")
"""The fields of `OrderColumns`, as columns."""


@dataclass(frozen=True)
class CleaningStep:
    """What one step did to the number of rows, and why."""

    name: str
    rows_in: int
    rows_out: int
    why: str


@dataclass(frozen=True)
class PreparedEvents:
    """The pipeline's result, not yet written."""

    events: Frame
    """user_row, item_row, what decides their order, and time, weight, label, order, part if the data have them."""
    order: tuple[str, ...]
    """The columns that events are to be sorted by."""
    users: pl.DataFrame
    """row, id, count; in row order"""
    items: pl.DataFrame
    parts: tuple[str, ...]


class Pipeline:
    """One run. Each step takes the events, returns them changed, and records what it did."""

    def __init__(
        self, config: PrepareConfig, engine: Engine, layouts: Sequence[FileLayout], watch: Callable[[str], None]
    ) -> None:
        """`watch` is called with the name of each stage when it begins."""
        self.config, self.engine, self.layouts, self.watch = config, engine, layouts, watch
        self.id_kinds = {role: {one.kinds[role] for one in layouts} for role in ("user", "item")}
        self.positions = config.source.ordered
        """Whether times are positions in the files."""
        self.steps: list[CleaningStep] = []
        self.notes = list(dict.fromkeys(note for one in layouts for note in one.notes))
        self.rejected: Frame | None = None
        """Faulty rows that were skipped, if there are any."""
        self.timed = self.weighted = self.whole_seconds = False
        """Whether there are times, weights, and only whole seconds; set from the events."""
        self.cancellations = 0
        """Events with negative quantities."""
        self.last_time: float | None = None
        """The time of the newest event, by which the split decides; None: that of the events that are split."""
        self.within: tuple[str, ...] = ()
        """The columns that decide the order of a customer's events, in turn."""

    def run(self) -> PreparedEvents:
        """All steps in order."""
        self.watch("reading")
        whole = {"integer", "float"}
        id_types = {role: "Int64" if kinds <= whole else "String" for role, kinds in self.id_kinds.items()}
        events = self.engine.read(self.layouts, id_types)
        config, columns = self.config, self._names(events)
        self.timed, self.weighted = "time" in columns, "weight" in columns or bool(config.event_weights)
        self.within = self._order_within(columns)
        self.watch("checking")
        sound = self._filter_rows(events)
        self.watch("numbering ids")
        coded, tables = self._code_ids(sound)
        self.watch("cleaning")
        if self.cancellations:
            coded = self._take_back(coded)
        train, test = coded.drop("part"), None
        if config.split == "given":
            train, test = coded.filter(nw.col("part") == 0), coded.filter(nw.col("part") == 1)
            train = self._record("test files", train, "test events wait until the training events are clean")
        for clean in (self._drop_bots, self._drop_duplicates, self._drop_rare, self._keep_newest):
            train = clean(train)
        if self._rows_now == 0:
            raise InputError(f"no event is left after {self.steps[-1].name}: loosen the filters, or check the options")
        if config.label_events and not self.engine.collect(train.select(nw.col("label").max())).item():
            raise InputError(
                f"no event of the kind {', '.join(config.label_events)} is left to predict: "
                "check `label_events` and the filters"
            )
        parts: tuple[str, ...] = ()
        if test is not None:
            train, parts = self._add_test_events(train, test), ("train", "test")
        self.watch("ordering")
        numbered, vocabularies = self._number_rows(train, tables)
        self.notes += describe_orders(numbered, self.engine.collect, moments=self.timed and not self.positions)
        if self.positions:
            numbered = self._renumber_positions(numbered)
        if config.split not in (None, "given"):
            numbered, parts = self._split(numbered)
        if parts and config.drop_unseen_items:
            numbered = self._drop_unseen(numbered, parts)
        self._refuse_empty_parts(numbered, parts)
        names = self._names(numbered)
        sorted_by = tuple(name for name in ("user_row", *self.within, "part") if name in names)
        return PreparedEvents(numbered, sorted_by, vocabularies["user"], vocabularies["item"], parts)

    def _order_within(self, columns: Sequence[str]) -> tuple[str, ...]:
        """What orders the events of a customer. Equal times stay as in the file if that is declared. Otherwise their
        orders are shuffled, and the events within each of them."""
        if self.positions:
            return ("time", "item_code", "weight", "label")
        ties = (
            ("sequence",) if "sequence" in columns else ("order_tie", "tie") if self.timed else ("order", "item_code")
        )
        return ("time", *ties, "weight", "label")

    @property
    def faults(self) -> str:
        """How many rejected rows have which faults."""
        first = self.steps[0]
        return f"{Count(first.rows_in - first.rows_out):faulty row|faulty rows} skipped: {first.why}"

    def _names(self, frame: Frame) -> list[str]:
        return frame.collect_schema().names()

    def _count(self, frame: Frame) -> int:
        return int(self.engine.collect(frame.select(nw.len().alias("rows"))).item())

    def _record(self, name: str, frame: Frame, why: str, *, rows_in: int | None = None) -> Frame:
        """Compute the frame and record its number of rows; `rows_in`: that before the step, if not the last one."""
        stored = self.engine.persist(frame)
        rows_in = self._rows_now if rows_in is None else rows_in
        self.steps.append(CleaningStep(name, rows_in, self._count(stored), why))
        return stored

    @property
    def _rows_now(self) -> int:
        return self.steps[-1].rows_out

    def _filter_rows(self, events: Frame) -> Frame:
        config, time, roles = self.config, nw.col("time"), self.layouts[0].roles
        rules: list[tuple[str, str, nw.Expr]] = [
            ("read", "faulty rows", nw.col("fault").is_null()),
            ("ids", "rows without a user or an item", ~(nw.col("user").is_null() | nw.col("item").is_null())),
        ]
        if "quantity" in roles and "event" not in roles:  # a view may have a quantity of 0
            rules.append(("quantities", "quantities of 0", QUANTITY != 0))
        if config.event_weights:
            kinds = list(config.event_weights)
            rules.append(("event weights", f"events other than {', '.join(kinds)}", nw.col("event").is_in(kinds)))
        if config.minimum_rating is not None:
            enough = nw.col("rating") >= config.minimum_rating
            rules.append(("rating threshold", f"ratings below {config.minimum_rating:g}", enough))
        if config.since is not None:
            rules.append(("since", "earlier events", time >= parse_moment(config.since, "since")))
        if config.until is not None:
            rules.append(("until", "later events", time < parse_moment(config.until, "until")))
        masks = [mask for _, _, mask in rules]
        passing = [mask.fill_null(False) for mask in accumulate(masks, and_)]
        counts = {f"after_{number}": mask.cast(nw.Int64).sum() for number, mask in enumerate(passing)}
        if self.timed and not self.positions:
            fractions = (time % MICROSECONDS != 0).fill_null(False)
            counts["fractions"] = (fractions & passing[-1]).cast(nw.Int64).sum()
        if "quantity" in roles:
            counts |= count_quantities(passing[1])
            counts["cancellations"] = ((QUANTITY < 0) & passing[-1]).cast(nw.Int64).sum()
        found = self.engine.collect(events.select(nw.len().alias("rows"), **counts)).row(0, named=True)
        rows_in = int(found["rows"])
        for number, (name, why, _) in enumerate(rules):
            rows_out = int(found[f"after_{number}"] or 0)
            if number == 0 and rows_out == rows_in:
                why = ""
            elif number == 0:
                self.rejected = events.filter(~nw.col("fault").is_null()).select(*FAULT_COLUMNS)
                why = self._describe_faults(self.rejected, rows_in - rows_out)
            if name not in ("ids", "quantities") or rows_out < rows_in:
                self.steps.append(CleaningStep(name, rows_in, rows_out, why))
            rows_in = rows_out
        if (found["after_1"] or 0) < (found["after_0"] or 0):
            absent = {role: nw.col(role).is_null().cast(nw.Int64).sum() for role in ("user", "item")}
            lacking = self.engine.collect(events.filter(masks[0]).select(**absent)).row(0, named=True)
            self._note_missing(lacking, int(found["rows"]))
        if found["rows"] == 0:
            raise InputError(f"{', '.join(config.events)} holds no events: give at least one")
        if "quantity" in roles:
            sound = int(found["after_1"] or 0)
            self.notes += describe_quantities(found, sound, self.layouts[0], kinds="event" in roles)
            self.cancellations = int(found["cancellations"] or 0)
        for step in self.steps:
            if step.rows_out == 0:
                raise InputError(f"no event is left after {step.name} ({step.why}): check the files and the options")
        self.whole_seconds = not found.get("fractions")
        # Without faults, later passes over the files need not filter them out.
        dropped = [found["rows"] > (found["after_0"] or 0), (found["after_0"] or 0) > (found["after_1"] or 0)]
        needed = [mask for number, mask in enumerate(masks) if number > 1 or dropped[number]]
        return events.filter(*needed) if needed else events

    def _note_missing(self, missing: Mapping[str, int], rows: int) -> None:
        """A note on rows without a user or an item; an error if that is most of them."""
        first = self.layouts[0]
        for role, absent in missing.items():
            if 2 * absent > rows:
                raise InputError(
                    f"{first.address} has no {role} in {absent:,} of {Count(rows):row|rows}: check the column "
                    f"{first.roles[role]!r}, or name another one with `{role}_column`"
                )
            if absent:
                without = f"{Count(absent):row|rows} without {'an' if role == 'item' else 'a'} {role}"
                self.notes.append(f"{without} {'is' if absent == 1 else 'are'} left out")

    def _describe_faults(self, rejected: Frame, count: int) -> str:
        """The faults with their counts; an error unless faulty rows are to be skipped."""
        kinds = rejected.group_by("fault", "option").agg(nw.len().cast(nw.Int64).alias("rows"))
        ranked = kinds.sort("rows", "fault", "option", descending=[True, False, False]).head(1000)
        counted = self.engine.collect(ranked.select("fault", "option", "rows")).rows()
        if self.config.on_error == "raise":
            first = rejected.sort("file", "line").head(1)
            options = [option for _, option, _ in counted]
            options += [option for layout in self.layouts for option in layout.hints]
            row = self.engine.collect(first).row(0, named=True)
            notes = [layout.reader_note for layout in self.layouts if layout.address == row["file"]]
            raise explain_reader(fault_error(row, count=count, others=options), next(filter(None, notes), ""))
        return count_faults((fault, rows) for fault, _, rows in counted)

    def _code_ids(self, events: Frame) -> tuple[Frame, dict[str, Frame]]:
        """Ids to their ranks, with the tables (code, id) of both roles."""
        coded, tables = events, {}
        for role, kinds in self.id_kinds.items():
            code = f"{role}_code"
            table = events.select(nw.col(role)).unique().select(nw.col(role), nw.col(role).alias("id"))
            merged = False
            if events.collect_schema()[role] == nw.String:
                table, merged = self._read_ids(self.engine.persist(table), role, kinds)
            ids = table.select("id").unique() if merged else table
            ranked = ids.with_row_index(code, order_by="id").with_columns(nw.col(code).cast(nw.Int64))
            if "tie" in self.within:
                seed = 2 * self.config.source.tie_seed + (role == "item")
                ranked = ranked.with_columns(random_key(seed, nw.col(code)).alias(f"{role}_key"))
            ranked = self.engine.persist(ranked)
            coded = coded.join(table.join(ranked, on="id") if merged else ranked, on=role, suffix=f"_of_{role}")
            tables[role] = ranked.select(nw.col(code).cast(nw.Int32), "id")
        columns = {"user_code": nw.col("user_code").cast(nw.Int32), "item_code": nw.col("item_code").cast(nw.Int32)}
        if self.timed:
            time = nw.col("time")
            seconds = (time // MICROSECONDS).cast(nw.Int64) if self.whole_seconds else time / float(MICROSECONDS)
            columns["time"] = time if self.positions else seconds
        if "tie" in self.within:
            columns["tie"] = tie_key(nw.col("user_key"), nw.col("item_key"), nw.col("time"), nw.col("item_code"))
            if "order" in self._names(events):
                coded = self._code_orders(coded)
                order = (nw.col("order_key"), nw.col("time"), nw.col("order_code"))
                columns["order_tie"] = tie_key(nw.col("user_key"), *order)
        if "sequence" in self.within:
            columns["sequence"] = nw.col("sequence")
        if "order" in self._names(events):
            columns["order"] = nw.col("order").fill_null("")
        if self.weighted:
            columns["weight"] = self._weight(self._names(events))
        if self.cancellations:
            columns["cancels"] = (QUANTITY < 0).cast(nw.Int64)
        if self.config.label_events:
            columns["label"] = nw.col("event").is_in(list(self.config.label_events)).cast(nw.Int32)
        return self.engine.persist(coded.select(**columns, part=nw.col("part"))), tables

    def _take_back(self, events: Frame) -> Frame:
        """The events without cancellations and without those that they take back.

        A cancellation after the end of training takes back no training event, which was bought when training ended.
        """
        config, cancels = self.config, nw.col("cancels") == 1
        pair = ["user_code", "item_code"]
        pairs = self.engine.persist(events.filter(cancels).select(*pair).unique())
        affected, others = (events.join(pairs, on=pair, how=how) for how in ("semi", "anti"))
        matched = self.engine.map_customers(
            affected, "user_code", lambda frame: match_cancellations(frame, self.within, timed=self.timed)
        )
        taken_back = ~cancels & ~nw.col("cancellation_part").is_null()
        too_late = (nw.col("part") == 0) & (nw.col("cancellation_part") == 1)
        if self.timed:
            self.last_time = self.engine.collect(events.filter(~cancels).select(nw.col("time").max())).item()
        if self.last_time is not None:
            end = find_training_end(config.split, config.split_options, self.last_time)
            if end is not None:
                too_late = (nw.col("time") <= end) & (nw.col("cancellation_time") > end)
        sums = {"all": taken_back, "too_late": taken_back & too_late}
        found = self.engine.collect(
            matched.select(**{name: sign.fill_null(False).cast(nw.Int64).sum() for name, sign in sums.items()})
        ).row(0, named=True)
        late = int(found["too_late"] or 0)
        counts = (int(found["all"] or 0) - late, self.cancellations - int(found["all"] or 0), late)
        self.notes.append(describe_cancellations(*counts, timed=self.timed))
        kept = matched.filter(~cancels & ~(taken_back & ~too_late).fill_null(False))
        names = [name for name in self._names(events) if name != "cancels"]
        why = "cancellations, and the events that they took back"
        return self._record("cancellations", nw.concat([others.select(*names), kept.select(*names)]), why)

    def _code_orders(self, events: Frame) -> Frame:
        """The events with the rank and the random key of their orders; those without an order have one together."""
        events = events.with_columns(nw.col("order").fill_null(""))
        ranked = events.select("order").unique().with_row_index("order_code", order_by="order")
        ranked = ranked.with_columns(nw.col("order_code").cast(nw.Int64))
        keyed = ranked.with_columns(order_key=order_key(self.config.source.tie_seed, nw.col("order_code")))
        return events.join(self.engine.persist(keyed), on="order")

    def _read_ids(self, table: Frame, role: str, kinds: Collection[str]) -> tuple[Frame, bool]:
        """The table of distinct ids with integers where all of them spell some, and whether two may be the same now.

        Ids that look like mistakes are noted.
        """
        ids = nw.col("id")
        signs = {
            "others": ~ids.str.contains(INTEGER),
            "broken": ~(ids.str.contains(INTEGER) | ids.str.contains(FLOAT)),
            "pointed": ids.str.contains(FLOAT),
            "nothing": ids.str.contains(NOTHING),
            "blank": ids.str.contains(BLANKS),
        }
        found = self.engine.collect(table.select(**{name: sign.cast(nw.Int64).sum() for name, sign in signs.items()}))
        counts = {name: int(value or 0) for name, value in found.row(0, named=True).items()}

        def first(sign: str) -> str:
            return repr(self.engine.collect(table.filter(signs[sign]).select(ids.min())).item())

        if "text" not in kinds and counts["others"] == 0:
            return table.with_columns(ids.cast(nw.Int64)), False
        if "text" not in kinds and counts["broken"] == 0:
            self.notes.append(
                f"the {role}s are whole numbers stored as floats, such as {first('pointed')}: read as integers"
            )
            return table.with_columns(ids.str.replace_all(r"\.0+$", "").cast(nw.Int64)), True
        meanings = {
            "pointed": "may be whole numbers that became floats",
            "nothing": f"may mean that there is no {role}",
            "blank": f"may begin or end with blanks by mistake, which make another {role}",
        }
        for sign, meaning in meanings.items():
            if counts[sign]:
                some = f"{Count(counts[sign]):{role} id|{role} ids} such as {first(sign)}"
                self.notes.append(f"{some} {meaning}")
        return table, False

    def _weight(self, names: Sequence[str]) -> nw.Expr:
        weight = nw.col("weight") if "weight" in names else nw.lit(1.0)
        factor: nw.Expr | None = None
        for event, value in self.config.event_weights.items():
            case = nw.when(nw.col("event") == event).then(nw.lit(float(value)))
            factor = case if factor is None else case.otherwise(factor)
        if factor is not None:
            weight = weight * factor
        return weight.cast(nw.Float32).cast(nw.Float64)

    def _drop_bots(self, events: Frame) -> Frame:
        limit = self.config.bot_events
        if limit is None:
            return events
        people = events.group_by("user_code").agg(nw.len().alias("events")).filter(nw.col("events") <= limit)
        kept = events.join(people.select("user_code"), on="user_code", how="semi")
        return self._record("bots", kept, f"customers with more than {limit:,} events")

    def _drop_duplicates(self, events: Frame) -> Frame:
        keep, names = self.config.duplicates, self._names(events)
        if keep == "keep":
            return events
        pair: list[str] = [name for name in ("user_code", "item_code", "part") if name in names]
        if keep == "exact":
            same = [name for name in names if name != "sequence"]
            kept = events.group_by(*same).agg(nw.col("sequence").min()) if "sequence" in names else events.unique()
            return self._record("duplicates", kept, "rows that repeat another one")
        instants = [nw.col(name) for name in ("time", "sequence", "order_tie", "order", "tie") if name in names]
        chosen = [instant.min() if keep == "first" else instant.max() for instant in instants]
        weight, label = ([nw.col(name).max()] if name in names else [] for name in ("weight", "label"))
        at_time = events
        if self.timed and len(names) > len(pair) + 1:
            at_time = events.join(events.group_by(*pair).agg(chosen[0]), on=[*pair, "time"], how="semi")
        counted = at_time  # of the events with the chosen time the largest weight, and any label
        if keep == "sum":
            # Weights have 24 bits and sums 53: additions are exact in any order unless weights differ by millions.
            total = nw.col("weight").sum() if self.weighted else nw.len().alias("weight")
            weight, self.weighted, counted = [total.cast(nw.Float32).cast(nw.Float64)], True, events
        one = at_time  # the order is that of the event which stays
        decider = next((name for name in ("sequence", "order_tie") if name in names), None)
        if decider and "order" in names:
            one = at_time.join(at_time.group_by(*pair).agg(chosen[1]), on=[*pair, decider], how="semi")
        if one is counted or not (weight or label):
            kept = one.group_by(*pair).agg(*chosen, *weight, *label)
        else:
            kept = one.group_by(*pair).agg(*chosen).join(counted.group_by(*pair).agg(*weight, *label), on=pair)
        why = {"first": "the first event", "last": "the last event", "sum": "one event with the summed weight"}[keep]
        return self._record("duplicates", kept, f"of each (user, item) pair {why} stays")

    def _drop_rare(self, events: Frame) -> Frame:
        bounds = {"user": self.config.minimum_user_events, "item": self.config.minimum_item_events}
        bounds = {role: bound for role, bound in bounds.items() if bound > 1}
        if not bounds:
            return events
        why = " and ".join(f"fewer than {bound} events per {role}" for role, bound in bounds.items())
        for turn in count(1):
            before, kept = self._rows_now, events
            for role, bound in bounds.items():
                counts = events.group_by(f"{role}_code").agg(nw.len().alias("events"))
                enough = counts.filter(nw.col("events") >= bound).select(f"{role}_code")
                kept = kept.join(enough, on=f"{role}_code", how="semi")
            events = self._record(f"k-core, pass {turn}" if self.config.k_core else "minimum counts", kept, why)
            if not self.config.k_core or self._rows_now in (before, 0):
                break
        return events

    def _keep_newest(self, events: Frame) -> Frame:
        longest = self.config.maximum_history
        if longest is None:
            return events
        order = [name for name in self.within if name in self._names(events)]

        def step(frame: Frame) -> Frame:
            from_the_end = nw.col("item_code").cum_count(reverse=True).over("user_code", order_by=order)
            return (
                frame.with_columns(from_the_end=from_the_end)
                .filter(nw.col("from_the_end") <= longest)
                .drop("from_the_end")
            )

        kept = self.engine.map_customers(events, "user_code", step)
        return self._record("maximum history", kept, f"only the newest {longest:,} events per customer")

    def _add_test_events(self, train: Frame, test: Frame) -> Frame:
        if "weight" in self._names(train) and "weight" not in self._names(test):
            test = test.with_columns(weight=nw.lit(1.0))
        known = test.join(train.select("user_code").unique(), on="user_code", how="semi")
        together = nw.concat([train, known.select(*self._names(train))])
        why = "test events of customers without training events"
        return self._record("test events", together, why, rows_in=self._rows_now + self._count(test))

    def _number_rows(self, events: Frame, tables: dict[str, Frame]) -> tuple[Frame, dict[str, pl.DataFrame]]:
        """Codes to rows, the most frequent first, ties by id; with the vocabularies (row, id, count)."""
        vocabularies = {}
        for role, ids in tables.items():
            code = f"{role}_code"
            counts = (
                events.group_by(code).agg(nw.len().cast(nw.Int64).alias("count")).with_columns(rarity=-nw.col("count"))
            )
            numbered = counts.with_row_index("row", order_by=["rarity", code]).drop("rarity")
            numbered = self.engine.persist(numbered.with_columns(nw.col("row").cast(nw.Int32)))
            vocabulary = numbered.join(ids, on=code).select("row", "id", "count")
            vocabularies[role] = self.engine.collect(vocabulary).sort("row")
            rows = numbered.select(nw.col("row").alias(f"{role}_row"), code)
            events = events.join(rows, on=code)
        done = ["user_code"] if "item_code" in self.within else ["user_code", "item_code"]
        return self.engine.persist(events.drop(*done)), vocabularies

    def _renumber_positions(self, events: Frame) -> Frame:
        """Positions in the files to positions in each customer's history."""

        def step(frame: Frame) -> Frame:
            position = nw.col("item_row").cum_count().over("user_row", order_by="time").cast(nw.Int64) - 1
            return frame.with_columns(time=position)

        self.notes.append("times are positions in the files, not moments")
        return self.engine.persist(self.engine.map_customers(events, "user_row", step))

    def _split(self, events: Frame) -> tuple[Frame, tuple[str, ...]]:
        how, options = str(self.config.split), dict(self.config.split_options)
        rule = find_rule(how, options, ordered=self.timed)
        last_time = self.last_time
        if self.timed and last_time is None:
            last_time = self.engine.collect(events.select(nw.col("time").max())).item()
        labelled = bool(self.config.label_events)
        order = [name for name in self.within if name in self._names(events)]

        def step(frame: Frame) -> Frame:
            placed = _add_target_positions(frame, order, self.timed) if labelled else _add_positions(frame, order)
            if rule.needs_orders:
                placed = _add_orders(placed, order, sequence="sequence" in order)
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
                    order=OrderColumns(*map(nw.col, ORDER_COLUMNS)) if rule.needs_orders else None,
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

        before = self._rows_now
        kept = self._record("split", self.engine.map_customers(events, "user_row", step), how)
        if rule.last_event_rule and not self.timed:
            self.notes.append(random_note(how))
        if self._rows_now < before:
            whose = LATER_ORDERS if how == "next_order" else "customers first seen after training ends"
            self.notes.append(f"{Count(before - self._rows_now):event|events} left out, of {whose}")
        return kept, ("train", *rule.parts)

    def _refuse_empty_parts(self, events: Frame, parts: Sequence[str]) -> None:
        filled = self.engine.collect(events.select("part").unique())["part"].to_list() if parts else []
        for number, name in enumerate(parts):
            if number not in filled:
                why = f"the split {self.config.split} leaves the {name} part without events"
                raise InputError(f"{why}: use another split, or more data")

    def _drop_unseen(self, events: Frame, parts: Sequence[str]) -> Frame:
        train, later = events.filter(nw.col("part") == 0), events.filter(nw.col("part") > 0)
        kept = later.join(train.select("item_row").unique(), on="item_row", how="semi")
        before = self._rows_now
        kept = self._record("unseen items", nw.concat([train, kept]), "later events of items without training event")
        self.notes.append(unseen_note(" and ".join(parts[1:]), before - self._rows_now))
        return kept


def _add_positions(frame: Frame, order: Sequence[str]) -> Frame:
    """The position of each event in its customer's history, and the length of that history."""
    return frame.with_columns(
        position=nw.col("item_row").cum_count().over("user_row", order_by=order).cast(nw.Int64) - 1,
        length=nw.len().over("user_row").cast(nw.Int64),
    )


def _add_orders(frame: Frame, order: Sequence[str], *, sequence: bool) -> Frame:
    """The columns `ORDER_COLUMNS`: `Interactions.order_positions` and what `OrderColumns` has, as expressions."""
    own = "order" in frame.collect_schema().names()
    frame = frame.with_columns(event=nw.col("item_row").cum_count().over("user_row", order_by=order).cast(nw.Int64))
    # Events without an order belong together if their times are equal, unless equal times are a sequence.
    alone = nw.col("event") if sequence else nw.col("time")
    known = nw.col("order") != "" if own else nw.lit(False)
    frame = frame.with_columns(
        order_group=nw.when(known).then(nw.lit(-1)).otherwise(alone.cast(nw.Float64)),
        event_before=nw.col("time").shift(1).over("user_row", order_by=order).cast(nw.Float64),
    )
    groups = ["user_row", "order_group", *(["order"] if own else [])]
    frame = frame.with_columns(
        order_begins=nw.col("event").min().over(*groups),
        order_time=nw.col("time").min().over(*groups).cast(nw.Float64),
    )
    opens = nw.col("event") == nw.col("order_begins")
    first = frame.with_columns(
        order_number=opens.cast(nw.Int64).cum_sum().over("user_row", order_by=order) - 1,
        before=nw.when(opens).then(nw.col("event_before").fill_null(-math.inf)),
    )
    return first.with_columns(
        order_position=nw.col("order_number").min().over(*groups),
        order_count=nw.col("order_number").max().over("user_row") + 1,
        order_time_before=nw.col("before").max().over(*groups),
    )


def _add_target_positions(frame: Frame, order: Sequence[str], timed: bool) -> Frame:
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
