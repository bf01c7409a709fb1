"""`lorentzrec demo`: from nothing to a page with recommendations in under two minutes."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
import tempfile
import time
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.base.library_faults import how_to_install
from lorentzrec.cli.evaluate import report_table, to_dict
from lorentzrec.cli.inputs import read_titles
from lorentzrec.cli.output import note, print_json, say, show, working
from lorentzrec.cli.recommend import recommendation_table
from lorentzrec.cli.serve import serve
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.vocabulary import Id
    from lorentzrec.ingest.dataset import Dataset
    from lorentzrec.model.model import Model
    from lorentzrec.serving.stores.new_items import NewItem

CUSTOMERS, ITEMS, EVENTS = 3_000, 1_000, 60_000
ORDER_SIZE, OUTFITS, SEASONS = 3.0, 0.3, 0.5
"""Mean number of items of an order, how often an item completes the one before it, and how far sales rise and fall."""
DAYS = 365
"""Before today: what is popular in the last days is counted up to now."""
NEW_BASKET = "Running Top"
"""The category of the new customer's purchases."""
NEW_ITEM, NEW_STYLE = "n0001", "Hemp"
"""A product that no model was trained on. Its category is the most popular one."""
RULE, RULE_POSITION = "New this week", 4
"""The rule of the shop, and the position of the new product in personal lists."""
METRICS = ("hr@10", "ndcg@10", "coverage@10")
HOST, PORT = "127.0.0.1", 8000


def demo(*, out: Path | None = None, no_serve: bool = False, json: bool = False) -> None:
    """Generate a shop, train in both geometries, compare, recommend, and serve a page until Ctrl-C.

    Nothing is downloaded. The last line is the address of the page.

    All files are in one folder, ready for the other commands.

    $ lorentzrec demo
    $ lorentzrec demo --out my-demo

    out: Folder for all files. Default: a new temporary one.
    no_serve: Stop before serving; so does --json.
    """
    from lorentzrec.evaluation.baselines import ItemKNN, Popularity
    from lorentzrec.evaluation.protocol import evaluate_systems
    from lorentzrec.evaluation.significance import compare_users
    from lorentzrec.learning.trainer import train
    from lorentzrec.learning.warm_up import compiling_ahead
    from lorentzrec.model.config import TrainingConfig

    folder = Path(tempfile.mkdtemp(prefix="lorentzrec-demo-")) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    with compiling_ahead(TrainingConfig()) as until_compiled:
        with working(
            f"Generating a synthetic shop: {EVENTS:,} events of {CUSTOMERS:,} customers with {ITEMS:,} items ..."
        ):
            dataset = _make_shop(folder / "raw", folder / "shop")
            train_part, test_part = dataset.parts()
        until_compiled(say)
    models: dict[str, Model] = {}
    for geometry in ("hyperboloid", "euclidean"):
        with working(f"Training the {geometry} model ..."):
            models[geometry] = train(train_part, TrainingConfig(geometry=geometry), progress=False)
            models[geometry].save(folder / geometry)
    with working("Evaluating the models and two baselines on the last order of every customer, which was held out ..."):
        baselines = {"popularity": Popularity(train_part), "item-knn": ItemKNN(train_part)}
        reports = evaluate_systems({**models, **baselines}, test_part, [10])
        difference = compare_users(reports["hyperboloid"]["full"], reports["euclidean"]["full"], "ndcg@10")
    with working("Publishing both models, the items, the histories, a map, a rule and a new product to a store ..."):
        store, new_title = _publish(models, dataset.items, folder / "store")

    model, titles = models["hyperboloid"], read_titles(dataset.address)
    known = train_part.users.id(int(abs(train_part.lengths - 12).argmin()))  # a customer with about a dozen events
    items = dataset.items
    basket = items.filter(items["category"] == NEW_BASKET)["id"].head(3).to_list()  # best sellers
    outfit = model.complete(basket, k=4, item_table=items.rename({"id": "item"}))
    found = {"known customer": model.recommend(user=known, k=5), "new basket": model.recommend(basket, k=5)}
    if json:
        print_json(
            {
                "folder": str(folder),
                "store": store,
                "systems": to_dict(reports),
                "recommendations": {
                    name: [{"id": i, "score": s} for i, s in one] for name, one in [*found.items(), ("outfit", outfit)]
                },
            }
        )
        return
    show("", report_table(reports, METRICS), "")
    show(
        f"Hyperboloid minus Euclidean twin, ndcg@10 of full ranking: {difference.difference:+.4f} "
        f"[{difference.low:+.4f}, {difference.high:+.4f}], {difference.verdict}.\n"
    )
    show(f"The last purchases of customer {known}:", _titles(train_part.history_ids(known)[-3:], titles))
    show(recommendation_table(found["known customer"], titles, "Recommendations"), "")
    show("The basket of a new customer:", _titles(basket, titles))
    show(recommendation_table(found["new basket"], titles, "Recommendations"), "")
    show("Completing this basket to an outfit:", _titles(outfit.ids, titles), "")
    show(
        f"{new_title} came in today, after the training: similar items place it, and the page marks it as new.",
        f'The rule of this shop, "{RULE}", shows it at position {RULE_POSITION} of every personal list.\n',
    )
    note([one.fallback for one in (*found.values(), outfit) if one.fallback])
    _show_next_steps(folder, basket)
    if not no_serve:
        _serve(store)


def _make_shop(raw: Path, shop: Path) -> Dataset:
    """Events and item table as files, then a dataset with the last order of each customer held out."""
    from lorentzrec.data.times import SECONDS_PER_DAY
    from lorentzrec.ingest.dataset import open_dataset
    from lorentzrec.ingest.prepare import PrepareConfig, prepare
    from lorentzrec.synthetic.shop import SyntheticConfig, synthesize

    today = int(time.time() // SECONDS_PER_DAY * SECONDS_PER_DAY)
    options = SyntheticConfig(
        customers=CUSTOMERS,
        items=ITEMS,
        interactions=EVENTS,
        order_size=ORDER_SIZE,
        outfits=OUTFITS,
        seasons=SEASONS,
        days=DAYS,
        start=today - DAYS * SECONDS_PER_DAY,
    )
    report = synthesize(options, raw)
    config = PrepareConfig(events=(str(report.events),), items=str(report.items), split="leave_last_order_out")
    prepare(config, shop)
    return open_dataset(shop)


def _publish(models: dict[str, Model], items: pl.DataFrame, folder: Path) -> tuple[str, str]:
    """Publish to a new store, with a rule and a new product; returns its address, and the title of the product."""
    from lorentzrec.serving.rules.document import Rule, RuleSet, Selection
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.versions.publish import publish

    model = models["hyperboloid"]
    with closing(open_store(f"file:{folder}", create=True)) as store:
        publish(model, store, items=items, disk_map=True, histories=model.histories)
        publish(models["euclidean"], store, items=items, arm="flat", share=0.0, force=True)
        new = _make_new_item(items)
        store.describe_item(new, limit=1)
        rule = Rule(name=RULE, routes=["recommend"], select=Selection(ids=[new.id]), pin=RULE_POSITION)
        store.set_rules(RuleSet(rules=[rule]).encode(), reason="demo")
        return store.url, str(new.title)


def _make_new_item(items: pl.DataFrame) -> NewItem:
    """A product of the most popular category, similar to popular items, but not to the best sellers, which are near to
    everybody."""
    import polars as pl

    from lorentzrec.serving.stores.new_items import NewItem, Origin

    category = items.group_by("category").agg(pl.col("count").sum()).sort("count", "category")["category"][-1]
    members = items.filter(items["category"] == category).sort("count", descending=True, maintain_order=True)
    like = members[len(members) // 4 :][:3]
    price = like["price"].to_list()[0]
    return NewItem(NEW_ITEM, Origin.PUT, f"{NEW_STYLE} {category}", category, price, like=tuple(like["id"]))


def _serve(store: str) -> None:
    """Serve until Ctrl-C, if the dependencies of the service are installed."""
    if any(find_spec(name) is None for name in ("litestar", "granian", "prometheus_client")):
        note([f"to see it on a page: {how_to_install('serve')}, then run the last of these commands"])
        return
    port = _free_port(PORT)
    if port != PORT:
        note([f"port {PORT} is in use, so the page is on port {port}"])
    show("\nOpen this address in a browser, and stop with Ctrl-C:")
    serve(store, host=HOST, port=port, log_level="warning")


def _free_port(preferred: int) -> int:
    """This port, or any other if it is in use."""
    for port in (preferred, 0):
        with socket.socket() as attempt, suppress(OSError):
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind((HOST, port))
            return int(attempt.getsockname()[1])
    raise InputError(f"no port of {HOST} is free: stop another service first")


def _titles(items: list[Id], titles: dict[str, str | None]) -> str:
    return "  " + ", ".join(f"{titles[str(item)]}" for item in items)


def _show_next_steps(folder: Path, basket: list[Id]) -> None:
    called = Path(sys.argv[0])
    # `make demo` runs the script of an environment that is not on the path.
    hidden = called.name == "lorentzrec" and shutil.which("lorentzrec") is None
    program = shlex.quote(str(called.absolute())) if hidden else "lorentzrec"
    show("Next steps:", f"  cd {shlex.quote(str(folder))}")
    for command in (
        "evaluate hyperboloid shop --baselines",
        f"recommend hyperboloid --history {','.join(map(str, basket))} --titles shop",
        f"similar hyperboloid {basket[0]} --titles shop",
        f"complete hyperboloid --basket {','.join(map(str, basket))} --items shop --titles shop",
        "stats shop",
        "rules show file:store",
        "train shop --out my-model --set dimension=20",
        "serve file:store",
    ):
        show(f"  {program} {command}")
