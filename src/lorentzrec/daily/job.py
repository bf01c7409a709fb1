"""The daily job: new deliveries in, a published model out, in stages that can each be done again after a kill.

A stage has a result, which the state keeps. What a stage changes is either replaced in one step (dataset, model folder,
log of activations) or the same when it is done twice (events in the store), so that a run which was killed continues
with the stage in which it was.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.base.atomic import locked_directory
from lorentzrec.daily.config import DailyConfig
from lorentzrec.daily.report import measure_ratio, write_reports
from lorentzrec.daily.state import exit_code, read_state
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.evaluation.reality_check import check_reality
from lorentzrec.ingest.appending import append, compact, list_deliveries
from lorentzrec.ingest.dataset import Dataset, is_dataset, open_dataset
from lorentzrec.ingest.prepare import prepare
from lorentzrec.ingest.storage import file_name, list_files
from lorentzrec.learning.new_events import NewEvents, read_new_events, select_first_new
from lorentzrec.learning.trainer import train
from lorentzrec.learning.updating import update_with
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.serving.stores.activations import MAIN
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.gate import PublishRefused
from lorentzrec.serving.versions.measured_days import MOST_DAYS, MeasuredDay
from lorentzrec.serving.versions.publish import add_histories, prune, publish

MEASURED_CUSTOMERS = 5_000
"""Customers whose lists coverage is measured on."""
COUNTS = ("events", "late", "repeated", "new_users", "new_items")
"""Fields of a delivery that the report adds up."""
FEWEST_CUSTOMERS = 20
"""With fewer customers, quality on the new day is not measured."""


class StageFailed(LorentzrecError):  # noqa: N818 - the name states what happened
    """A stage that could not be done, and that the next run continues with; or one that refused a model."""

    def __init__(self, stage: str, reason: object, *, again: bool = True) -> None:
        super().__init__(f"stage {stage}: {reason}{'; the next run continues here' if again else ''}")
        self.stage = stage
        self.exit_code = exit_code(stage)


def run_day(config: DailyConfig, watch: Callable[[str], None] = lambda stage: None) -> dict[str, Any]:
    """Do a run, or what is left of one that was stopped; returns the entry of its report."""
    config.work.mkdir(parents=True, exist_ok=True)
    with locked_directory((config.work / ".lock").resolve()) as mine:
        if not mine:
            raise InputError(f"another daily job works in {config.work}: wait until it is done")
        return _Run(config, watch).finish()


class _Run:
    """One run, and what its stages share."""

    def __init__(self, config: DailyConfig, watch: Callable[[str], None]) -> None:
        self.config, self.watch = config, watch
        self.path = config.work / "state.json"
        self.state = read_state(self.path)
        if self.state.is_over:
            self.state.run += 1
            self.state.done = {}

    def finish(self) -> dict[str, Any]:
        """Do the stages that are not done, and write the reports, also if a stage fails."""
        work = {
            "append": self.append,
            "evaluate": self.evaluate,
            "histories": self.add_histories,
            "train": self.train,
            "check": self.check,
            "publish": self.publish,
            "promote": self.promote,
            "prune": self.prune,
        }
        for stage, do in work.items():
            if stage in self.state.done:
                continue
            self.watch(stage)
            started = time.process_time()
            try:
                result = do()
            except (LorentzrecError, OSError) as error:
                write_reports(self.config, self.state, StageFailed(stage, error))
                raise StageFailed(stage, error) from error
            self.record(stage, result | {"processor_seconds": round(time.process_time() - started, 2)})
        self.watch("report")
        try:
            entry = write_reports(self.config, self.state, None)
        except (LorentzrecError, OSError) as error:
            raise StageFailed("report", error) from error
        self.state.days.append(entry)
        self.record("report", {})
        for stage in ("check", "publish"):
            if (reason := self.state.done[stage].get("refused")) is not None:
                raise StageFailed(stage, reason, again=False)
        return entry

    def record(self, stage: str, result: dict[str, Any]) -> None:
        self.state.done[stage] = result
        self.state.save(self.path)

    @contextmanager
    def store(self) -> Iterator[Store]:
        with closing(open_store(self.config.store, create=True)) as store:
            yield store

    @cached_property
    def model(self) -> Model | None:
        """The model that was current before this run."""
        return self._load_current()

    @cached_property
    def new_events(self) -> NewEvents:
        """All events, and which of them the model does not know: for the measurement of the day and for the update."""
        assert self.model is not None
        return read_new_events(self.model, self.dataset)

    @property
    def dataset(self) -> Dataset:
        return open_dataset(self.config.dataset)

    @property
    def has_new_events(self) -> bool:
        """Whether there are deliveries that the model does not know."""
        return not self._knows(self.model, self.dataset)

    @staticmethod
    def _knows(model: Model | None, dataset: Dataset) -> bool:
        known = () if model is None or model.histories is None else model.histories.deliveries
        return set(known).issuperset(dataset.deliveries)

    def _load_current(self) -> Model | None:
        return None if self.state.model is None else load(self.config.work / "models" / self.state.model)

    @property
    def folder(self) -> Path:
        """Of the model that this run makes."""
        return self.config.work / "models" / f"{self.state.run:05d}"

    # The stages, in order.

    def append(self) -> dict[str, Any]:
        """Append the deliveries that the dataset does not have."""
        config, rules = self.config, self.config.rules
        if not is_dataset(config.dataset):
            prepare(config.prepare, config.dataset)
        state, manifest = self.state, self.dataset.manifest
        inputs = [*manifest.get("inputs", ()), *(file for one in list_deliveries(manifest) for file in one.inputs)]
        known = [[file["address"], file["size"], file["version"]] for file in inputs] + state.repeated
        files = list_files(config.deliveries)
        state.refused = {file.address: state.refused[file.address] for file in files if file.address in state.refused}
        repeated = 0
        for file in files:
            content = [file.address, file.size, file.version]
            if content in known or state.refused.get(file.address, [])[:2] == content[1:]:
                continue
            name, items, correct = file_name(file.address), config.prepare.items, rules.corrections == "replace"
            try:
                report = append(config.dataset, [file.address], name=name, items=items, replace_earlier=correct)
            except InputError as error:
                if rules.damaged == "stop":
                    raise
                state.refused[file.address] = [*content[1:], str(error)]
                continue
            state.refused.pop(file.address, None)
            if report.unchanged:
                repeated += 1
                state.repeated.append(content)
        new = [one for one in list_deliveries(self.dataset.manifest) if one.digest not in state.reported]
        base, sizes = self.dataset.members[0].manifest["counts"], dict(self.dataset.manifest["counts"])
        if not state.reported:  # the first part of the dataset has what was compacted
            new = [one for one in new if one.folder is not None]
        counted = {what: sum(getattr(one, what) for one in new) for what in COUNTS}
        if not state.reported:
            for what, name in (("events", "events"), ("new_users", "users"), ("new_items", "items")):
                counted[what] += base[name]
        state.reported = [*self.dataset.deliveries]
        refused = {address: why[-1] for address, why in state.refused.items()}
        return counted | {"deliveries": len(new), "repeated_deliveries": repeated, "refused": refused, "dataset": sizes}

    def evaluate(self) -> dict[str, Any]:
        """Measure the model on the new events, before it learns them."""
        if self.model is None or not self.has_new_events:
            return {}
        data, new = self.new_events.data, self.new_events.new
        known_items = self.model.items.rows(data.items.series)[data.item_rows] >= 0
        result: dict[str, Any] = {"new_events": int(new.sum())}
        if new.any():
            result["new_item_share"] = float(np.mean(~known_items[new]))
        test, earlier = select_first_new(self.model, self.new_events), self.new_events.earlier
        customers = int(np.count_nonzero(test.lengths))
        if customers < FEWEST_CUSTOMERS:
            return result | {"customers": customers}
        options: dict[str, Any] = {"threads": self.model.config.threads, "baselines": self.new_events.baselines}
        check = check_reality(self.model, test, earlier, events="new", **options)
        options = {"histories": earlier, "candidates": check.candidates, "intervals": False}
        lists = evaluate(self.model, test, k=10, users=MEASURED_CUSTOMERS, metrics=("coverage",), **options)
        result |= {"customers": customers, "ndcg@10": check.ours.ndcg, "recall@10": check.ours.recall}
        result |= {"coverage@10": lists["coverage@10"], "lost_to": [row.name for row in check.lost_to]}
        return result | {"baselines": {row.name: row.ndcg for row in check.baselines}}

    def add_histories(self) -> dict[str, Any]:
        """Put the events of new deliveries into the store, late ones included."""
        stored, accepted, duplicates = set(self.state.stored), 0, 0
        with self.store() as store:
            for member in self.dataset.members:
                if stored.issuperset(member.deliveries):
                    continue
                added = add_histories(store, member.interactions())
                accepted, duplicates = accepted + added.accepted, duplicates + added.duplicates
        self.state.stored = list(self.dataset.deliveries)
        return {"accepted": accepted, "duplicates": duplicates}

    def train(self) -> dict[str, Any]:
        """Update the model, or train a new one."""
        rules = self.config.rules
        if not self.has_new_events:
            return {"kind": "none"}
        dataset = self.dataset
        reason = self._find_reason(dataset)
        if reason is None:
            found, attributes = self.new_events, self._read_attributes(dataset)
            # The earlier model is given up here, so that it is not in memory while the new one is made.
            made = update_with(
                self._give_up_model(),
                found,
                attributes=attributes,
                rehearse=rules.rehearse,
                prune_after=rules.prune_items_after,
                progress=False,
            )
        else:
            self._give_up_model()
            dataset.verify()
            made = train(dataset.interactions(), self.config.training, attributes=dataset.attributes(), progress=False)
        self.folder.parent.mkdir(exist_ok=True)
        made.save(self.folder)
        kind = "update" if reason is None else "full"
        return {"kind": kind, "reason": reason, "fingerprint": made.fingerprint, "items": len(made.items)}

    def _read_attributes(self, dataset: Dataset) -> ItemAttributes | None:
        """The attributes of all items, if the model was trained with any."""
        if self.model is None or self.model.attributes is None:
            return None
        return dataset.attributes(like=self.model.item_attributes)

    def _give_up_model(self) -> Model:
        """The model; the run keeps neither it nor what was found with it."""
        model = self.model
        for name in ("model", "new_events"):
            self.__dict__.pop(name, None)
        return model  # type: ignore[return-value]

    def _find_reason(self, dataset: Dataset) -> str | None:
        """Why to train from nothing; None for an update."""
        rules, model = self.config.rules, self.model
        if model is None or model.histories is None:
            return "there is no model yet"
        if self.state.updates >= rules.full_every - 1:
            return f"{self.state.updates} updates followed the last full training"
        if set(model.histories.deliveries) - set(dataset.deliveries):
            return "a delivery that the model has learned was replaced"
        ratio = measure_ratio(self.state)
        if ratio is not None and ratio < rules.full_below:
            return f"NDCG@10 on the new events is {ratio:.2f} of its median"
        return None

    def check(self) -> dict[str, Any]:
        """The reality check of the new model."""
        if self.state.done["train"]["kind"] == "none":
            return {}
        made = load(self.folder)
        if made.check is None:
            return {"checked": False}
        lost = [row.name for row in made.check.lost_to]
        if lost and self.config.rules.check == "refuse":
            return {"checked": True, "lost_to": lost, "refused": f"the model is refused: {made.check}"}
        return {"checked": True, "lost_to": lost, "result": str(made.check)}

    def publish(self) -> dict[str, Any]:
        """Make the model the current version of the arm; the gate may refuse it."""
        options = self.config.publish
        if self.state.done["train"]["kind"] == "none" or "refused" in self.state.done["check"]:
            return {}
        model = load(self.folder)
        with self.store() as store:
            state = store.state()
            arm = MAIN if options.arm is None or state.version is None else options.arm
            for name, live in state.arms.items():
                if name in (MAIN, arm) and _read_fingerprint(store, live.version) == model.fingerprint:
                    return self._accept(live.version, name, {})  # a run that was killed had activated it
            try:
                published = publish(
                    model,
                    store,
                    items=self._titles(),
                    disk_map=options.map,
                    keep=options.keep,
                    require=options.require,
                    event_weights=self.dataset.event_weights,
                    arm=arm,
                    share=options.share if arm != MAIN else None,
                    reason=f"daily run {self.state.run}",
                    days=self._measured_days(),
                )
            except PublishRefused as refused:
                return {"refused": str(refused)}
        overlap = next((one.value for one in published.gate if one.requirement.startswith("overlap")), None)
        return self._accept(published.name, arm, {"overlap@10": overlap})

    def _accept(self, version: str, arm: str, measured: dict[str, Any]) -> dict[str, Any]:
        self.state.model = self.folder.name
        self.state.updates = 0 if self.state.done["train"]["kind"] == "full" else self.state.updates + 1
        if arm != MAIN:
            self.state.waiting = {"version": version, "since": time.time()}
        return {"version": version} | measured

    def _measured_days(self) -> list[MeasuredDay]:
        """The last days on which something was measured, with this one, oldest first."""
        entries = [*self.state.days, {"time": time.time()} | self.state.done["evaluate"]]
        days = [
            MeasuredDay(
                time=day["time"],
                ndcg=day.get("ndcg@10"),
                best_baseline=max((day.get("baselines") or {}).values(), default=None),
                coverage=day.get("coverage@10"),
                new_item_share=day.get("new_item_share"),
            )
            for day in entries
        ]
        return [day for day in days if day != MeasuredDay(time=day.time)][-MOST_DAYS:]

    def _titles(self) -> Any:
        items = self.dataset.items.drop("row", "count")
        return items if len(items.columns) > 1 else None

    def promote(self) -> dict[str, Any]:
        """Give the version of the arm to all customers, once it has been there for long enough."""
        options, waiting = self.config.publish, self.state.waiting
        if waiting is None or options.arm is None:
            return {}
        if time.time() - waiting["since"] < options.hours * 3600:
            return {"waiting": waiting["version"]}
        with self.store() as store:
            state = store.state()
            if state.find_version(options.arm) == waiting["version"]:
                if options.probe and subprocess.run(options.probe, check=False).returncode != 0:
                    store.end_arm(options.arm, f"daily run {self.state.run}: the probe failed")
                    self.state.waiting = None
                    self.state.save(self.path)
                    raise InputError(f"the probe {' '.join(options.probe)} failed, and arm {options.arm} was ended")
                if state.version != waiting["version"]:  # else a run that was killed had got this far
                    reason = f"daily run {self.state.run}: promoted"
                    store.activate(waiting["version"], reason, instead_of=state.version)
                store.end_arm(options.arm, "promoted")
                prune(store, options.keep)
        self.state.waiting = None
        return {"promoted": waiting["version"]}

    def prune(self) -> dict[str, Any]:
        """Compact the dataset, and remove old models and old events."""
        rules, result = self.config.prune, dict[str, Any]()
        listed = [one for one in self.dataset.manifest.get("deliveries", ()) if one["folder"] is not None]
        if len(listed) >= rules.compact_after and self._knows(self._load_current(), self.dataset):
            compact(self.config.dataset)
            result["compacted"] = len(listed)
        models = sorted((self.config.work / "models").glob("[0-9]*"))
        old = [folder for folder in models if folder.name != self.state.model][: -self.config.publish.keep]
        for folder in old:
            shutil.rmtree(folder)
        result["models_removed"] = len(old)
        if rules.events_after is not None:
            before = time.time() - rules.events_after * SECONDS_PER_DAY
            with self.store() as store:
                result["events_removed"] = sum(one.events for one in store.prune_events(before, rules.newest))
        return result


def _read_fingerprint(store: Store, version: str) -> str | None:
    try:
        found = json.loads(store.fetch_manifest(version)).get("fingerprint")
    except (LorentzrecError, OSError, ValueError):
        return None
    return None if found is None else str(found)
