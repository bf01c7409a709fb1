"""`lorentzrec demo`: from nothing to a page with recommendations in under two minutes."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
import tempfile
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lorentzrec.cli.evaluate import comparison, evaluated, to_dict
from lorentzrec.cli.options import Json
from lorentzrec.cli.output import note, print_json, say, show, working
from lorentzrec.cli.recommend import answer_table
from lorentzrec.cli.serve import serve
from lorentzrec.errors import InputError, how_to_get

if TYPE_CHECKING:
    from lorentzrec.cli.titles import Titles
    from lorentzrec.data.interactions import Interactions
    from lorentzrec.data.vocabulary import Id
    from lorentzrec.model.model import Model

CUSTOMERS, ITEMS, EVENTS = 3_000, 1_000, 60_000
NEW_BASKET = "Running Top"
"""The category that the customer nobody knows has bought from."""
METRICS = ("hr@10", "ndcg@10", "coverage@10")
HOST, PORT = "127.0.0.1", 8000


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder to keep everything in.", show_default="a new temporary one")
    ] = None,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="End before serving; --json does, too.")] = False,
    json: Json = False,
) -> None:
    """Grow a shop, train on it in both geometries, compare, recommend, and show it all on a page until Ctrl-C.

    Everything it makes stays in one folder, ready for the other commands.
    """
    from lorentzrec.cli.titles import Titles
    from lorentzrec.evaluation.baselines import Popularity
    from lorentzrec.evaluation.significance import compare_users
    from lorentzrec.ingest.dataset import open_dataset
    from lorentzrec.learning.trainer import train
    from lorentzrec.learning.warm_up import compiling_ahead
    from lorentzrec.model.config import TrainingConfig

    folder = Path(tempfile.mkdtemp(prefix="lorentzrec-demo-")) if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    shop = folder / "shop"
    with compiling_ahead(TrainingConfig()) as until_compiled:
        described = f"{EVENTS:,} events of {CUSTOMERS:,} customers with {ITEMS:,} items"
        with working(f"A shop that does not exist: {described} ..."):
            _make_shop(folder / "raw", shop)
            train_part, test_part = open_dataset(shop).parts()
        until_compiled(say)
    models: dict[str, Model] = {}
    for geometry in ("hyperboloid", "euclidean"):
        with working(f"One point for each item, {geometry} ..."):
            models[geometry] = train(train_part, TrainingConfig(geometry=geometry), progress=False)
            models[geometry].save(folder / geometry)
    with working("The last purchase of every customer was held out: which system finds it? ..."):
        reports = evaluated({**models, "popularity": Popularity(train_part)}, test_part, None, [10])
        difference = compare_users(reports["hyperboloid"]["full"], reports["euclidean"]["full"], "ndcg@10")
    with working("Both models, the items and the histories go to a store, with a map of the items ..."):
        store = _publish(models, shop, folder / "store")

    model, titles = models["hyperboloid"], Titles(str(shop))
    known = _regular_customer(train_part)
    basket = _basket(shop)
    answers = {"known customer": model.recommend(user=known, k=5), "new basket": model.recommend(basket, k=5)}
    if json:
        print_json(
            {
                "folder": str(folder),
                "store": store,
                "systems": to_dict(reports),
                "recommendations": {name: [{"id": i, "score": s} for i, s in one] for name, one in answers.items()},
            }
        )
        return
    show("", comparison(reports, METRICS), "")
    chance = "chance hardly explains it" if difference.significant else "chance explains it"
    show(
        f"Hyperboloid against Euclidean twin, ndcg@10 of full ranking: {difference.difference:+.4f} "
        f"[{difference.low:+.4f}, {difference.high:+.4f}], p = {difference.p_value:.2g}: {chance}.\n"
    )
    show(f"Customer {known} bought, among others:", _titles(train_part.history_ids(known)[-3:], titles))
    show(answer_table(answers["known customer"], titles, "and may like"), "")
    show("Somebody who was never seen before has in the basket:", _titles(basket, titles))
    show(answer_table(answers["new basket"], titles, "and may like"), "")
    note([one.fallback for one in answers.values() if one.fallback])
    _draw(train_part, folder / "degrees.png")
    _next_steps(folder, basket)
    if not no_serve:
        _serve(store)


def _make_shop(raw: Path, shop: Path) -> None:
    """Events and item table as files, then a dataset with the last event of each customer held out."""
    from lorentzrec.ingest.prepare import PrepareConfig, prepare
    from lorentzrec.synthetic.shop import SyntheticConfig, synthesize

    report = synthesize(SyntheticConfig(customers=CUSTOMERS, items=ITEMS, interactions=EVENTS), raw)
    prepare(PrepareConfig(events=(str(report.events),), items=str(report.items), out=str(shop), split="leave_last_out"))


def _publish(models: dict[str, Model], shop: Path, folder: Path) -> str:
    """The address of a new store that holds what `lorentzrec serve` needs."""
    from lorentzrec.ingest.dataset import open_dataset
    from lorentzrec.reduction.disk_map import disk_map
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.versions.publish import publish

    model, twin = models["hyperboloid"], models["euclidean"]
    drawn = disk_map(model.item_points, geometry=model.config.geometry, counts=model.item_counts)
    with closing(open_store(f"file:{folder}", create=True)) as store:
        items, histories = open_dataset(shop).items, model.histories
        publish(model, store, items=items, disk_map=drawn, twin=twin, histories=histories)
        return store.url


def _serve(store: str) -> None:
    """Answer until Ctrl-C, if the parts of a service are installed."""
    if any(find_spec(name) is None for name in ("litestar", "granian", "prometheus_client")):
        note([f"to see it on a page: {how_to_get('serve')}, then the last of these commands"])
        return
    port = _free_port(PORT)
    if port != PORT:
        note([f"port {PORT} is taken, so the page is at port {port}"])
    show("\nOpen the page in a browser; Ctrl-C ends it.")
    serve(store, host=HOST, port=port, log_level="warning")


def _free_port(wanted: int) -> int:
    """This port, or any other if somebody listens there."""
    for port in (wanted, 0):
        with socket.socket() as attempt, suppress(OSError):
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind((HOST, port))
            return int(attempt.getsockname()[1])
    raise InputError(f"no port of {HOST} is free: end another service first")


def _regular_customer(events: Interactions) -> Id:
    """Somebody with about a dozen events."""
    return events.users.id(int(abs(events.lengths - 12).argmin()))


def _basket(shop: Path) -> list[Id]:
    """The three best sellers of one category."""
    from lorentzrec.ingest.dataset import open_dataset

    items = open_dataset(shop).items
    return items.filter(items["category"] == NEW_BASKET)["id"].head(3).to_list()


def _titles(items: list[Id], titles: Titles) -> str:
    return "  " + ", ".join(f"{titles[item]}" for item in items)


def _draw(events: Interactions, path: Path) -> None:
    """The degrees of the items, if there is something to draw with."""
    if find_spec("matplotlib") is None:
        return
    from lorentzrec.figures.degrees import plot_degrees
    from lorentzrec.networks.statistics import network_statistics

    plot_degrees([network_statistics(events, name="the demo's shop", trials=0)], path)
    show(f"A few items are popular and most are not: {path} shows the power law.\n")


def _next_steps(folder: Path, basket: list[Id]) -> None:
    called = Path(sys.argv[0])
    # `make demo` runs the script of an environment that is not on the path.
    hidden = called.name == "lorentzrec" and shutil.which("lorentzrec") is None
    program = shlex.quote(str(called.absolute())) if hidden else "lorentzrec"
    show("Try next:", f"  cd {shlex.quote(str(folder))}")
    for command in (
        "evaluate hyperboloid shop --baselines",
        f"recommend hyperboloid --history {','.join(map(str, basket))} --titles shop",
        f"similar hyperboloid {basket[0]} --titles shop",
        "stats shop",
        "train shop --out my-model --set dimension=20",
        "serve file:store",
    ):
        show(f"  {program} {command}")
