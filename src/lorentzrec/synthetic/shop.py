"""A synthetic shop: customers, items and events from a latent space, for demos, tests and benchmarks.

The latent space is a hyperbolic plane, or a flat control (`latent.py`), so that a comparison of geometries need not use
data that favour one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lorentzrec.base.atomic import atomic_directory
from lorentzrec.base.manifest import write_manifest
from lorentzrec.data.arrays import Booleans, Floats, Integers
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import ConfigError
from lorentzrec.synthetic.config import SYNTHETIC
from lorentzrec.synthetic.config import Space as Space
from lorentzrec.synthetic.config import SyntheticConfig as SyntheticConfig
from lorentzrec.synthetic.hierarchy import item_names
from lorentzrec.synthetic.latent import REJECTED, FlatSquare, HyperbolicPlane, Layers, World
from lorentzrec.synthetic.outfits import CATEGORIES, complete_orders, pair_categories
from lorentzrec.synthetic.repeats import repeat_items

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.interactions import Interactions

PATIENCE, MANY_TRIES = 8, 64
"""When a customer who finds only items they have, or none at all, looks further away: twice as far after `PATIENCE`
repeated items and after each further one, and after every `MANY_TRIES` empty draws."""

CALIBRATIONS, LARGEST_LIFT = 4, 8.0
"""How often the degrees are compared with the expected ones, and how far they may be raised."""

USUAL_EXPONENT = 2.8

YEAR = 365
"""Days of a year of seasons."""

ROUNDING = 1e-9
"""An item that every customer buys may need 23.000000000000004 of 23 customers."""


@dataclass(frozen=True)
class SyntheticReport:
    """What was written, and where."""

    config: SyntheticConfig
    notes: tuple[str, ...]
    """What was chosen because the options do not fit together."""
    events: Path
    """A folder of Parquet files with columns user, item, time (unix seconds) and, if there are orders, order; grouped
    by user, oldest first."""
    items: Path
    """A Parquet file with columns item, title, department, category, style, price and the latent coordinates."""
    item_degrees: Integers = field(repr=False)
    """Events of each row of `items`, 0 for items without events."""


class SyntheticShop:
    """A shop that is computed on demand: its item table, and its events all at once or block by block."""

    def __init__(self, config: SyntheticConfig) -> None:
        self.notes: tuple[str, ...] = ()
        generator = np.random.default_rng([config.seed, 0])
        exponent = USUAL_EXPONENT if config.exponent is None else config.exponent
        layers = _make_layers(config, exponent, generator)
        if not _fits(layers, config):
            fitting = _find_exponent(config, exponent)
            problem = (
                f"with exponent {exponent} the most popular item needs {layers.degrees.max():,.0f} customers; "
                f"there are {config.customers:,}: "
            )
            if config.exponent is not None or fitting is None:
                advice = f"give exponent={fitting:g} or more, or " if fitting else ""
                raise ConfigError(f"{problem}{advice}give fewer interactions or more customers")
            self.notes = (f"{problem}exponent={fitting:g} is used",)
            exponent = fitting
            generator = np.random.default_rng([config.seed, 0])
            layers = _make_layers(config, exponent, generator)
        self.config = replace(config, exponent=exponent)
        self.world: World = (
            HyperbolicPlane(layers, config.interactions, config.temperature, generator)
            if config.space == "hyperbolic"
            else FlatSquare(layers, config.temperature, generator)
        )
        # In random order, so that ids do not reveal popularity.
        self.numbers: Integers = generator.permutation(config.items)
        self.block_count = -(-config.customers // config.block_customers)
        self._calibrate()

    @cached_property
    def items(self) -> pl.DataFrame:
        """item, title, department, category, style, price, and the latent coordinates, in order of ids."""
        import polars as pl

        drawn = self._items_as_drawn
        if self.config.lifetime is not None:
            generations = self._generations(np.arange(len(drawn)), np.full(len(drawn), self.config.days - 1)) + 1
            rows = np.repeat(np.arange(len(drawn)), generations)
            number = np.arange(len(rows)) - (np.cumsum(generations) - generations)[rows]
            drawn = drawn[rows].with_columns(_with_generation(drawn["item"][rows], number).alias("item"))
        return drawn.sort(pl.col("item"))

    @cached_property
    def events(self) -> pl.DataFrame:
        """user, item, time and, if there are orders, order: all of them, in memory."""
        import polars as pl

        return pl.concat([self.block(number) for number in range(self.block_count)])

    def interactions(self) -> Interactions:
        """The events, ready for training."""
        from lorentzrec.data.interactions import Interactions

        events = self.events
        orders = events["order"] if "order" in events.columns else None
        return Interactions.from_pairs(events["user"], events["item"], times=events["time"], orders=orders)

    @cached_property
    def _items_as_drawn(self) -> pl.DataFrame:
        """The item table in the order of `world`."""
        import polars as pl

        return item_names(self.numbers, self.world.sectors).with_columns(
            pl.Series(name, values) for name, values in self.world.coordinates().items()
        )

    def block(self, number: int) -> pl.DataFrame:
        """The events of one block of customers, each customer's in order of time."""
        import polars as pl

        first = number * self.config.block_customers
        customer, items, times, opens_session = self._draw(number)
        if self.config.repeats:
            generator = np.random.default_rng([self.config.seed, 1 + number, 1])
            opens_order = opens_session if self.config.order_size else np.ones(len(customer), bool)
            items = repeat_items(generator, customer, items, opens_order, self.repeat_probabilities)
        if self.config.outfits:
            generator = np.random.default_rng([self.config.seed, 1 + number, 2])
            partners, sectors = self._partners, self.world.sectors
            items = complete_orders(generator, customer, items, opens_session, sectors, partners, self.config.outfits)
        names = np.arange(first, first + customer[-1] + 1)
        width = len(str(self.config.customers))
        ids = self._items_as_drawn["item"].gather(items)
        if self.config.lifetime is not None:
            ids = _with_generation(ids, self._generations(items, (times - self.config.start) // SECONDS_PER_DAY))
        orders: dict[str, pl.Series] = {}
        if self.config.order_size:
            # The number of an order is that of its first event among all events of the shop.
            opening = np.flatnonzero(opens_session)[np.cumsum(opens_session) - 1]
            times = times[opening]
            before = self.config.interactions * first // self.config.customers
            digits = pl.Series(before + opening).cast(pl.String).str.zfill(len(str(self.config.interactions)))
            orders["order"] = "o" + digits
        return pl.DataFrame(
            {
                "user": ("c" + pl.Series(names).cast(pl.String).str.zfill(width)).gather(customer),
                "item": ids,
                "time": times,
                **orders,
            }
        )

    def _generations(self, items: Integers, days: Integers) -> Integers:
        """How many items were sold in the place of each of these before the given day; places change on days of their
        own."""
        lifetime = self.config.lifetime or self.config.days
        phases = np.random.default_rng([self.config.seed, 0, 1]).integers(0, lifetime, self.config.items)
        generations: Integers = (days + phases[items]) // lifetime
        return generations

    @cached_property
    def _partners(self) -> Integers:
        return pair_categories(np.random.default_rng([self.config.seed, 0, 3]))

    @property
    def complements(self) -> dict[str, str]:
        """The category that goes with each category, if customers buy outfits."""
        return {CATEGORIES[one]: CATEGORIES[other] for one, other in enumerate(self._partners.tolist())}

    @cached_property
    def repeat_probabilities(self) -> Floats:
        """How likely each item is bought again, in the order of `world`: some often, some hardly ever."""
        mean = self.config.repeats
        if mean in (0, 1):
            return np.full(self.config.items, mean)
        return np.random.default_rng([self.config.seed, 0, 2]).beta(2 * mean, 2 * (1 - mean), self.config.items)

    def _draw(self, number: int) -> tuple[Integers, Integers, Integers, Booleans]:
        """Customer (counted from the first of the block), item and time of each event of a block, and whether it opens
        a session."""
        config = self.config
        first = number * config.block_customers
        last = min(first + config.block_customers, config.customers)
        # Shares of the total that add up exactly: the difference of two rounded sums.
        event_count = config.interactions * last // config.customers - config.interactions * first // config.customers
        generator = np.random.default_rng([config.seed, 1 + number])
        lengths = _history_lengths(generator, last - first, event_count, config)
        customer = np.repeat(np.arange(last - first), lengths)
        opens_history = np.concatenate([[True], customer[1:] != customer[:-1]])
        session_length = config.order_size or config.session_length
        opens_session = opens_history | (generator.random(event_count) < 1 / session_length)
        positions, days = self._places(generator, opens_history, opens_session), None
        if config.seasons:  # drawn before the items, which depend on them
            times = _times(generator, customer, opens_history, opens_session, config)
            days = (times - config.start) / SECONDS_PER_DAY
        items = self._choose(generator, customer, lengths, positions, days)
        if days is None:
            times = _times(generator, customer, opens_history, opens_session, config)
        return customer, items, times, opens_session

    def _calibrate(self) -> None:
        """Draw the first block a few times, each time raising the degrees of items with fewer links than expected.

        No customer has an item twice, so the most popular ones would otherwise get fewer links than expected.
        """
        layers = self.world.layers
        expected = layers.degrees
        like = np.log2(1 + layers.ranks).astype(np.int64)
        for _ in range(CALIBRATIONS):
            items = self._draw(0)[1]
            found = np.bincount(like[items], minlength=like.max() + 1) / len(items)
            wanted = np.bincount(like, expected) / self.config.interactions
            lifted = layers.degrees * (wanted / np.maximum(found, 1 / len(items)))[like]
            # An item with this degree has all customers it can reach: more would only slow the draws.
            layers.set_degrees(np.minimum(lifted, LARGEST_LIFT * expected))

    def _places(self, generator: np.random.Generator, opens_history: Booleans, opens_session: Booleans) -> Floats:
        """The position of interest at each event: random at first, then moved a little at each new session."""
        shape = (len(opens_history), self.world.dimension)
        steps = generator.normal(0, self.config.drift, shape) * opens_session[:, None]
        # A uniform position added to the last position of the customer before is again uniform.
        steps[opens_history] = generator.random((int(opens_history.sum()), self.world.dimension))
        return np.cumsum(steps, axis=0) % 1.0

    @cached_property
    def best_days(self) -> Floats:
        """When in a year, from its first day, the season of each item is at its height, in the order of `world`."""
        return np.random.default_rng([self.config.seed, 0, 3]).uniform(0, YEAR, self.config.items)

    def _choose(
        self,
        generator: np.random.Generator,
        customer: Integers,
        lengths: Integers,
        positions: Floats,
        days: Floats | None,
    ) -> Integers:
        """An item for each event, none twice for one customer. days: when events are; None if items have no season."""
        items = np.full(len(customer), REJECTED)
        open_events = np.arange(len(customer))
        rounds = 0
        while len(open_events):
            layers = self.world.layers.choose(generator, len(open_events))
            waiting, tries = open_events, 0
            while len(waiting):
                widening = 2.0 ** min(40, max(0, rounds - PATIENCE) + tries // MANY_TRIES)
                activity = lengths[customer[waiting]]
                items[waiting] = self.world.draw(generator, layers, positions[waiting], activity, widening)
                rejected = items[waiting] == REJECTED
                if days is not None:
                    height = np.cos((days[waiting] - self.best_days[items[waiting]]) * (2 * np.pi / YEAR))
                    sold = (1 + self.config.seasons * height) / (1 + self.config.seasons)
                    unsold = ~rejected & (generator.random(len(waiting)) >= sold)
                    layers[unsold] = self.world.layers.choose(generator, int(unsold.sum()))
                    rejected |= unsold
                waiting, layers, tries = waiting[rejected], layers[rejected], tries + 1
            # Of equal pairs all but one are drawn again; only customers with such pairs are checked again.
            among = np.flatnonzero(np.isin(customer, customer[open_events])) if rounds else open_events
            pairs = customer[among] * self.config.items + items[among]
            order = np.argsort(pairs, kind="stable")
            repeated = pairs[order[1:]] == pairs[order[:-1]]
            open_events = among[order[1:][repeated]]
            rounds += 1
        return items


def _make_layers(config: SyntheticConfig, exponent: float, generator: np.random.Generator) -> Layers:
    return Layers(config.items, config.interactions, exponent, generator)


def _fits(layers: Layers, config: SyntheticConfig) -> bool:
    return bool(layers.degrees.max() <= config.customers * (1 + ROUNDING))


def _find_exponent(config: SyntheticConfig, exponent: float) -> float | None:
    """The next exponent with which no item needs more customers than there are."""
    for tenths in range(int(10 * exponent) + 1, 201):
        if _fits(_make_layers(config, tenths / 10, np.random.default_rng([config.seed, 0])), config):
            return tenths / 10
    return None


def synthetic_shop(
    customers: int = 3_000,
    items: int = 1_000,
    interactions: int = 60_000,
    *,
    seed: int = 0,
    space: Space = "hyperbolic",
) -> SyntheticShop:
    """A shop in memory: `.events`, `.items`, `.interactions()`. `SyntheticConfig` has more options."""
    return SyntheticShop(
        SyntheticConfig(customers=customers, items=items, interactions=interactions, seed=seed, space=space)
    )


def synthesize(
    config: SyntheticConfig, out: str | Path, *, progress: Callable[[int, int], None] | None = None
) -> SyntheticReport:
    """Write a shop of any size to the folder `out`, block by block, in memory that does not grow with the events.

    `progress` is called with the number of blocks done and of all blocks. The folder appears when it is complete.
    """
    shop = SyntheticShop(config)
    degrees = np.zeros(len(shop.items), np.int64)
    with atomic_directory(out) as folder:
        (folder / "events").mkdir()
        shop.items.write_parquet(folder / "items.parquet")
        for number in range(shop.block_count):
            events = shop.block(number)
            events.write_parquet(folder / "events" / f"part-{number:05d}.parquet")
            degrees += np.bincount(shop.items["item"].search_sorted(events["item"]).to_numpy(), minlength=len(degrees))
            if progress:
                progress(number + 1, shop.block_count)
        counts = {"items_met": int((degrees > 0).sum())}
        manifest = {"format": SYNTHETIC, "format_version": 1, "options": asdict(shop.config), **counts}
        write_manifest(folder, manifest)
    return SyntheticReport(shop.config, shop.notes, Path(out) / "events", Path(out) / "items.parquet", degrees)


def _with_generation(ids: pl.Series, numbers: Integers) -> pl.Series:
    """p0412 for the first item in its place, then p0412-1, p0412-2 and so on."""
    import polars as pl

    frame = pl.DataFrame({"id": ids, "number": numbers})
    later = pl.col("id") + "-" + pl.col("number").cast(pl.String)
    return frame.select(pl.when(pl.col("number") > 0).then(later).otherwise("id").alias("item"))["item"]


def _history_lengths(generator: np.random.Generator, count: int, total: int, config: SyntheticConfig) -> Integers:
    """Pareto-distributed integers between 1 and the longest history, with the sum `total`."""
    pareto = (1 - generator.random(count)) ** (-1 / (config.customer_exponent - 1))
    lengths: Integers = np.clip((pareto * (total / pareto.sum())).astype(np.int64), 1, config.longest_history)
    while missing := total - int(lengths.sum()):
        room = np.flatnonzero(lengths < config.longest_history if missing > 0 else lengths > 1)
        lengths[generator.choice(room, min(abs(missing), len(room)), replace=False)] += np.sign(missing)
    return lengths


def _times(
    generator: np.random.Generator,
    customer: Integers,
    opens_history: Booleans,
    opens_session: Booleans,
    config: SyntheticConfig,
) -> Integers:
    """Unix seconds: minutes between the events of a session, days between sessions, within the customer's span."""
    gaps = generator.exponential(1.0, len(customer)) * np.where(opens_session, 1.0, 1e-3)
    gaps[opens_history] = 0
    starts = np.flatnonzero(opens_history)
    elapsed = np.cumsum(gaps)
    elapsed -= elapsed[starts][customer]
    duration = np.maximum(elapsed[np.append(starts[1:], len(customer)) - 1], 1e-9)
    span = generator.uniform(0.3, 1.0, len(starts))
    begin = generator.random(len(starts)) * (1 - span)
    share = begin[customer] + elapsed * (span / duration)[customer]
    seconds: Integers = (share * (config.days * SECONDS_PER_DAY)).astype(np.int64)
    return config.start + seconds
