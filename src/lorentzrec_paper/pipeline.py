"""The paper's system from end to end: blobs, Spark, Keras or the local engine, Cosmos DB, the service, its client."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal
from unittest.mock import patch

import numpy as np

from lorentzrec.base.library_faults import how_to_install
from lorentzrec.errors import InputError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.ingest.dataset import Dataset, open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.storage import join, list_files, write_file
from lorentzrec.model.artifact import load
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.publish import add_histories, publish
from lorentzrec.synthetic.shop import SyntheticConfig, synthesize
from lorentzrec_paper.experiment import Column, Context, Experiment, Outcome, Services, Table, Verdict, status_of
from lorentzrec_paper.servers import Service

if TYPE_CHECKING:
    from lorentzrec.model.model import Model

Engine = Literal["keras", "local"]
ENGINES: tuple[Engine, ...] = ("keras", "local")


@dataclass(frozen=True)
class Size:
    shop: SyntheticConfig
    epochs: int
    requests: int


FULL = Size(SyntheticConfig(customers=2_000, items=1_000, interactions=40_000), epochs=10, requests=100)
QUICK = Size(SyntheticConfig(customers=300, items=120, interactions=4_000), epochs=2, requests=20)
EMULATORS = Path(__file__).parents[2] / "tests" / "emulators.py"
"""Only a checkout of the repository has this file."""
VISITOR = "visitor of the pipeline"
"""A customer who is not in the data: the client sends their events."""


@dataclass(frozen=True)
class Stage:
    name: str
    engine: str
    """Empty if both engines share it."""
    seconds: float
    count: int
    unit: str


@dataclass(frozen=True)
class Trained:
    engine: str
    ndcg: float
    hr: float
    requests: int
    same: int
    """Requests whose response has the items that the model itself recommends."""


class Stopwatch:
    """The stages so far; each is announced when it ends."""

    def __init__(self, context: Context) -> None:
        self.stages: list[Stage] = []
        self._context = context
        self._started = time.perf_counter()

    def start(self) -> None:
        self._started = time.perf_counter()

    def end(self, name: str, count: int, unit: str, engine: str = "", seconds: float | None = None) -> None:
        """A stage that began at `start` or at the end of the last one, or that took `seconds`."""
        now = time.perf_counter()
        taken = now - self._started if seconds is None else seconds
        self.stages.append(Stage(name, engine, taken, count, unit))
        self._context.say(f"{name}{f' ({engine})' if engine else ''}: {taken:.1f} s, {count:,} {unit}")
        self._started = now


def run(context: Context) -> Outcome:
    back_end = os.environ.get("KERAS_BACKEND", "tensorflow")
    refuse_missing(back_end, context.services)
    size, watch = QUICK if context.quick else FULL, Stopwatch(context)
    with (
        _blobs(context.services) as blobs,
        _store(context.services) as address,
        closing(open_store(address, create=True)) as store,
        tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch,
    ):
        if store.state().version is not None:
            raise InputError(f"{store.url} has versions, which this would replace: give an empty store (--store)")
        found = upload_events(blobs, size.shop, Path(scratch), watch)
        dataset = prepare_on_spark(blobs, context.services, watch)
        add_histories(store, dataset.interactions())
        watch.end("histories to the store", dataset.manifest["counts"]["events"], "events")
        trained = []
        for engine in ENGINES:
            name = f"Keras on {back_end}" if engine == "keras" else "local"
            model = train_in_process(engine, name, back_end, dataset, Path(scratch, engine), size, watch)
            # Two engines on purpose, so that their lists may differ.
            publish(model, store, items=dataset.items, force=True)
            watch.end("publish to the store", len(model.items), "items", name)
            trained.append(request_all(name, model, address, dataset, size.requests, watch))
    return outcome_of(watch.stages, trained, context.services, size, synthetic=not found)


def refuse_missing(back_end: str, services: Services) -> None:
    """One line about everything that has to be installed first."""
    packages = {"obstore": "azure", "pyspark": "spark", "keras": "keras", "litestar": "serve", "granian": "serve"}
    missing = [f"{name} ({how_to_install(extra)})" for name, extra in packages.items() if find_spec(name) is None]
    if find_spec(back_end) is None:
        missing.append(f"{back_end} (pip install {back_end}, or set KERAS_BACKEND to tensorflow, jax or torch)")
    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    if java is None and not (services.master or "").startswith("sc://"):
        missing.append("Java 17 or newer for Spark (install it, or give --master sc://HOST)")
    if missing:
        raise InputError(f"the pipeline needs what is not installed: {', '.join(missing)}")


def _load_emulators() -> ModuleType:
    spec = spec_from_file_location("lorentzrec_emulators", EMULATORS) if EMULATORS.is_file() else None
    if spec is None or spec.loader is None:
        raise InputError(
            "the emulators of Azure are in a checkout of the repository, and this is an installation: give --blobs and "
            "--store, or run it from a checkout"
        )
    emulators = module_from_spec(spec)
    spec.loader.exec_module(emulators)
    return emulators


@contextmanager
def _blobs(services: Services) -> Iterator[str]:
    """The folder for events and dataset: the given one, or a container in Azurite."""
    if services.blobs is not None:
        yield services.blobs
        return
    with (
        _load_emulators().Azurite() as server,
        patch.dict(os.environ, AZURE_STORAGE_CONNECTION_STRING=server.connection_string),
    ):
        server.create_container("pipeline")
        yield "az://pipeline"


@contextmanager
def _store(services: Services) -> Iterator[str]:
    """The address of the store: the given one, or a database in an emulator of Cosmos DB."""
    if services.store is not None:
        yield services.store
        return
    with _load_emulators().CosmosEmulator() as server, patch.dict(os.environ, COSMOS_KEY=server.KEY):
        yield server.address("pipeline")


def upload_events(blobs: str, shop: SyntheticConfig, scratch: Path, watch: Stopwatch) -> bool:
    """Put the events of a synthetic shop below `blobs`, unless there are events: then this is True."""
    folder = join(blobs, "events")
    try:
        list_files(folder)
        return True
    except InputError:
        pass  # none yet; if there is another reason, the upload fails with it
    files = sorted(synthesize(shop, scratch / "shop").events.iterdir())
    watch.start()
    for file in files:
        with write_file(join(folder, file.name)) as copy:
            shutil.copyfile(file, copy)
    watch.end("events to the container", shop.interactions, "events")
    return False


def prepare_on_spark(blobs: str, services: Services, watch: Stopwatch) -> Dataset:
    """A dataset of the events, with the last of each customer held out."""
    from lorentzrec.ingest.spark_engine import spark_engine

    folder = join(blobs, "dataset")
    config = PrepareConfig(events=(join(blobs, "events"),), split="leave_last_out")
    watch.start()
    with spark_engine(master=services.master) as engine:
        watch.end("start Spark", 1, "session")
        report = prepare(config, folder, engine, force=True)
    watch.end("prepare on Spark", report.counts["events"], "events")
    return open_dataset(folder)


def train_in_process(
    engine: Engine, name: str, back_end: str, dataset: Dataset, out: Path, size: Size, watch: Stopwatch
) -> Model:
    """`lorentzrec train` in a process of its own, as Keras chooses its back end once."""
    options = ["--out", str(out), "--engine", engine, "--set", f"epochs={size.epochs}", "--json"]
    command = [sys.executable, "-m", "lorentzrec", "train", dataset.address, *options]
    environment = os.environ | {"KERAS_BACKEND": back_end}
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        *_, reason = done.stderr.strip().splitlines() or ["it printed nothing"]
        raise InputError(f"training with {name} failed: {reason.removeprefix('error: ')}")
    epochs = [epoch["seconds"] for epoch in json.loads(done.stdout)["epochs"]]
    watch.end("start, read, compile, save", 1, "training run", name, seconds - sum(epochs))
    watch.end("train", len(epochs), "epochs", name, sum(epochs))
    return load(out)


def request_all(name: str, model: Model, store: str, dataset: Dataset, count: int, watch: Stopwatch) -> Trained:
    """Start the service, and compare what its client gets with what the model recommends."""
    from lorentzrec.serving.client import Client

    events = dataset.interactions()
    rows = np.unique(np.linspace(0, len(events.users) - 1, count - 1).astype(int)).tolist()
    histories = {str(events.users.id(row)): events.history_ids(events.users.id(row)) for row in rows}
    sent = model.item_ids[:3]
    watch.start()
    with Service(store) as service, Client(service.url, timeout=60) as client:
        watch.end("start the service", 1, "worker", name)
        client.add_events(
            {"user": VISITOR, "item": item, "id": str(item), "time": float(time)} for time, item in enumerate(sent, 1)
        )
        found = {user: client.recommend(user=user) for user in [*histories, VISITOR]}
        watch.end("recommend", len(found), "requests", name)
    expected = model.recommend_many([*histories.values(), sent])
    same = sum(
        [item.id for item in response.items] == list(map(str, own.ids))
        for response, own in zip(found.values(), expected, strict=True)
    )
    _, test_part = dataset.parts()
    report = evaluate(model, test_part, intervals=False)
    return Trained(name, report["ndcg@10"], report["hr@10"], len(found), same)


def outcome_of(
    stages: Sequence[Stage], trained: Sequence[Trained], services: Services, size: Size, *, synthetic: bool
) -> Outcome:
    times = Table(
        "Time of each stage",
        (*Column.keys("stage", "engine", "amount"), *Column.ours({"seconds": ".1f"})),
        tuple((one.name, one.engine or "both", f"{one.count:,} {one.unit}", one.seconds) for one in stages),
    )
    formats = {"NDCG@10": ".4f", "HR@10": ".4f", "requests": ",", "same as the model's": ","}
    quality = Table(
        "The last event of each customer, all items; and responses of the service",
        (Column("engine", "key"), *Column.ours(formats)),
        tuple((one.engine, one.ndcg, one.hr, one.requests, one.same) for one in trained),
    )
    keras, local = trained
    apart = abs(keras.ndcg - local.ndcg) / max(local.ndcg, 1e-9)
    where = {"events and dataset": (services.blobs, "Azurite"), "store": (services.store, "cosmosdb-server")}
    return Outcome(
        tables=(times, quality),
        verdicts=(
            Verdict(
                "a client of the service gets the recommendations of the model that was trained",
                "",
                "; ".join(f"{one.engine}: {one.same} of {one.requests} responses" for one in trained),
                status_of([one.same == one.requests for one in trained]),
            ),
            Verdict(
                "both engines learn equally well: NDCG@10 within 2 %",
                "",
                f"{keras.ndcg:.4f} and {local.ndcg:.4f}, {apart:.1%} apart",
                "holds" if apart <= 0.02 else "fails",
                "one seed; on small data both take one block per step, and so the same steps",
            ),
        ),
        notes=(
            "events: those of a synthetic shop" if synthetic else "events: those that were there",
            *(f"{what}: {'as given' if given else f'{own} on this machine'}" for what, (given, own) in where.items()),
            "an engine's first run on a machine compiles its kernels, which later runs find in a cache",
        ),
        settings={"epochs": size.epochs, "shop": repr(size.shop) if synthetic else None},
    )


EXPERIMENT = Experiment("pipeline", "The paper's system from end to end, with Keras and with the local engine", run)
