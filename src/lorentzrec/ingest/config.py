"""What decides the content of a dataset. The command line has these fields as options, so importing this is fast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from lorentzrec.base.field_checks import PositiveInt, check_fields
from lorentzrec.data.times import parse_moment
from lorentzrec.errors import ConfigError
from lorentzrec.ingest.sources import Source


@dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """Everything that decides the content of a dataset."""

    events: tuple[str, ...]
    """Files, folders or patterns; local, az:// or s3://.

    Change it for each dataset; several files are read as one.
    """
    source: Source = field(default_factory=Source)
    """How to read the event files.

    Change it if a note or an error says that files were not recognised.
    """
    reader: str | None = None
    """A known data set, which decides the layout of the files: movielens-1m, amazon-reviews, recbole, adjacency, ...

    Change it for a data set from this list: it saves all other options.
    """
    on_error: Literal["raise", "skip"] = "raise"
    """`raise`: a malformed row is an error. `skip`: such rows are saved as rejected.parquet, and counted.

    Change it to `skip` if some rows are broken and may be left out.
    """
    event_weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each kind of event; other kinds are left out. Needs `event_column`.

    Change it if a purchase is to count more than a view.
    """
    label_events: tuple[str, ...] | None = None
    """Kinds of events to predict, such as purchases; default: all. Repeatable. Needs `event_column`.

    Training predicts only these, from histories of all kinds, and splits hold these out.

    Change it to predict purchases from everything that customers did, as in the paper.
    """
    minimum_rating: float | None = None
    """Keep only events with this rating or a higher one. Needs a rating column.

    Change it for ratings: low ones are no recommendation.
    """
    since: str | float | None = None
    """Keep only events from this time on: 2024-01-31, or unix seconds.

    Change it to forget what is too old to matter.
    """
    until: str | float | None = None
    """Keep only events before this time.

    Change it to leave out the newest events, for example to repeat an earlier experiment.
    """
    bot_events: PositiveInt | None = None
    """Drop customers with more events than this, who are taken for bots.

    Change it if a few customers have most of the events.
    """
    duplicates: Literal["keep", "exact", "first", "last", "sum"] = "keep"
    """Events of one customer with one item: keep all, drop exact copies (the same user, item, time, weight, order and
    target; other columns do not count), or keep the first, the last, or one with the sum of their weights.

    Change it to `first` or `sum` if repeated purchases carry no information.
    """
    minimum_user_events: PositiveInt = 1
    """Drop customers with fewer events than this.

    Change it to 2 or more: a customer with a single event teaches nothing about order.
    """
    minimum_item_events: PositiveInt = 1
    """Drop items with fewer events than this.

    Change it to about 5 if rare items are noise; they cannot be recommended then.
    """
    k_core: bool = False
    """Apply both minimum counts until nothing changes.

    Change it to compare with published results on a 5-core.
    """
    maximum_history: PositiveInt | None = None
    """Keep only this many of the newest events of each customer.

    Change it if a few long histories dominate memory or time.
    """
    split: str | None = None
    """How to split into parts, such as leave_last_out: a name from `data.splitting`. Default: no split.

    Change it to `leave_last_out` or `leave_last_two` to measure quality, to `last_days` for a test as in production.
    """
    split_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the split by name.

    Change it as the split needs it, such as `days` of last_days.
    """
    drop_unseen_items: bool = False
    """Drop test events of items without a training event, as the paper does.

    Change it to compare with results that do so; it makes the test easier.
    """
    test_events: tuple[str, ...] = ()
    """Files of the test part, for the split given. Repeatable.

    Change it for published splits, which come as two files.
    """
    items: str | None = None
    """A file with titles, categories, prices and images of the items.

    Change it to have titles in output and on the page, and attributes.
    """
    item_source: Source | None = None
    """How to read the item file.

    Change it if the item file is not recognised.
    """
    item_columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of the item file with other names: title, category, price or image, and the column.

    Change it if the item file has other names, such as title=name.
    """
    attributes: tuple[str, ...] | None = None
    """Columns of the item file that are attributes: NAME, or NAME:KIND with the kind path (`Women > Shoes`), values or
    number.

    Change it to recommend items without events.
    """

    def __post_init__(self) -> None:
        from lorentzrec.data.splitting import RULES, find_rule

        if not self.events:
            raise ConfigError("there are no event files: name at least one")
        if isinstance(self.items, Path):
            object.__setattr__(self, "items", str(self.items))
        check_fields(self, as_options=True)
        for event, weight in self.event_weights.items():
            if not (weight > 0 and math.isfinite(weight)):
                raise ConfigError(
                    f"the weight of {event!r} is {weight}: give a positive number, or leave the event out, as "
                    "training does not learn from dislikes"
                )
        for event in self.label_events or ():
            if self.event_weights and event not in self.event_weights:
                raise ConfigError(
                    f"events of the kind {event!r} are to be predicted, but have no weight and would be left out: "
                    f"add {event!r} to `event_weights`"
                )
        for name, moment in (("since", self.since), ("until", self.until)):
            if moment is not None:
                parse_moment(moment, name)
        if self.split == "given" or self.test_events:
            if self.split != "given" or not self.test_events or self.split_options:
                raise ConfigError("the `split` given and `test_events` go together, without options: give both")
        elif self.split is not None:
            find_rule(self.split, self.split_options, ordered=True)
        elif self.drop_unseen_items or self.split_options:
            raise ConfigError(f"split options without a `split`: name one of {', '.join([*RULES, 'given'])}")
        if self.attributes:
            from lorentzrec.data.attributes import refuse_repeated
            from lorentzrec.ingest.item_table import attribute_columns

            if self.items is None:
                raise ConfigError("`attributes` are columns of an item file: give `items`")
            refuse_repeated(attribute_columns(self.attributes))
        if self.k_core and self.minimum_user_events == self.minimum_item_events == 1:
            raise ConfigError(
                "`k_core` without minimum counts does nothing: give `minimum_user_events` or `minimum_item_events`"
            )

    def options(self) -> dict[str, Any]:
        """What is recorded in the manifest: every option that is not at its default."""
        recorded, defaults = asdict(self), asdict(Source())
        for name in ("source", "item_source"):
            if recorded[name] is not None:
                recorded[name] = {key: value for key, value in recorded[name].items() if value != defaults[key]}
        # 0 is a value ("ratings of 0 or more"): only options that were not given are left out.
        given = [name for name, value in recorded.items() if value is not None and value is not False and value != {}]
        return {name: recorded[name] for name in given if name != "events"}
