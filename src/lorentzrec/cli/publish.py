"""`lorentzrec publish` and `live`: the current version of a store, and the items that may be recommended from it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from lorentzrec.base.counting import Count
from lorentzrec.cli.arms import parse_arm
from lorentzrec.cli.inputs import dataset_at, item_table_at, read_ids, require_dataset, require_test, split_ids
from lorentzrec.cli.options import Positive, StoreArgument, StoreOption, refuse_options
from lorentzrec.cli.output import note, print_result, stages
from lorentzrec.cli.output import table as make_table
from lorentzrec.errors import InputError, LorentzrecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from lorentzrec.model.model import Model
    from lorentzrec.serving.stores.live_doubts import KnownItems
    from lorentzrec.serving.stores.store import Store
    from lorentzrec.serving.versions.gate import HeldOutEvents, Requirement, Result

VERSION_OPTIONS = ("items", "histories", "since", "keep", "map", "index", "require", "test", "force")
"""Options of a new version, which --rollback does not take."""


def publish(
    context: typer.Context,
    model: Path | None = None,
    *,
    to: StoreOption,
    items: str | None = None,
    histories: bool = False,
    since: str | None = None,
    keep: Positive = 3,
    map: bool = True,
    index: bool = True,
    require: list[str] | None = None,
    test: str | None = None,
    force: bool = False,
    reason: str | None = None,
    arm: str | None = None,
    rollback: bool = False,
    json: bool = False,
) -> None:
    """Make a model the current version of a store, from which `lorentzrec serve` recommends.

    Running services switch to the new version by themselves, and no response mixes two versions. If anything fails, the
    current version stays, and at most events of --histories were added. A version is refused with exit code 2 if it
    has far fewer items than the current one, or mostly other recommendations.

    $ lorentzrec publish model --to file:store --items shop --histories
    $ lorentzrec publish model --to postgresql://shop@db/recommendations --keep 5
    $ lorentzrec publish model --to file:store --test shop --require "ndcg@10>=0.95*current"
    $ lorentzrec publish model --to file:store --require check
    $ lorentzrec publish tomorrow --to file:store --items shop --histories --since last
    $ lorentzrec publish --to file:store --rollback --reason "empty lists since 10:00"
    $ lorentzrec publish --to file:store --rollback 20261118T101500-0a1b2c
    $ lorentzrec publish challenger --to file:store --arm challenger=0.1

    model: The folder of a trained model; with --rollback, the name of a version, by default the one before.
    items DATASET: Titles and categories of the items: a dataset, or a file with columns item, title, category. Its
        other columns, and the attributes of a dataset, are for filters and rules.
    histories: Add customers' histories to the store: all events of the --items dataset, or the training events.
    since TIME: Of --histories, add only the events from this time on: 2024-01-31, unix seconds, or last for those newer
        than what the current version was trained on. Late events are left out.
    keep: Number of versions that were live to keep in the store.
    map: Make the map of all items for the page.
    index: Make an index if there are many items.
    require TEXT: MEASURE>=BOUND, which the new version must meet. Measures are items, overlap@10, and on held-out
        events ndcg@10, hr@10, recall@10 and mrr@10. The bound is a number, or NUMBER*current. "check" refuses a model
        that loses to a baseline in the reality check of its training, or has none; "check>=popularity" is about one
        baseline. Repeatable. Defaults, unless one of the same measure is given: items>=0.9*current and
        overlap@10>=0.27.
    test DATASET: Held-out events for --require ndcg@10: the dataset with a test part that the model was trained on.
    force: Publish although a requirement is not met. The log of activations says so.
    reason TEXT: Why, for the log of activations.
    arm NAME=SHARE: Publish next to the current version, for this share of the customers, from 0 to 1. Without =SHARE,
        the share of the arm stays. With --rollback, the arm that goes back. Default: main, which has all other
        customers.
    rollback: Go back to the version that was live before, or to the version that is named.
    """
    from lorentzrec.serving.stores.activations import MAIN
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.stores.versions import check_reason
    from lorentzrec.serving.versions.publish import rollback as restore

    given: dict[str, Any] = {} if reason is None else {"reason": check_reason(reason)}
    name_of_arm, share = (MAIN, None) if arm is None else parse_arm(arm)
    given["arm"] = name_of_arm
    if rollback:
        if share is not None:
            raise InputError(f"--rollback keeps the share of an arm: give --arm {name_of_arm}")
        refuse_options(context, VERSION_OPTIONS, "--rollback makes no version, so it")
        with closing(open_store(to)) as store:
            name, url = restore(store, None if model is None else str(model), **given), store.url
        text = f"{name} is the current version of {_name_target(url, name_of_arm)} again"
        print_result({"model": name, "store": url, "arm": name_of_arm}, text, json=json)
        return
    if model is None:
        raise InputError("publish needs a MODEL, or --rollback to go back to an earlier version: give one of them")
    given |= {"share": share, "keep": keep, "disk_map": map, "index": index, "require": require or [], "force": force}
    if since is not None and not histories:
        raise InputError("--since is for --histories: give both")
    _publish(model, to, items, test, json, with_histories=histories, since=since, **given)


def _publish(
    folder: Path,
    to: str,
    items: str | None,
    test: str | None,
    json: bool,
    *,
    with_histories: bool,
    since: str | None,
    **options: Any,
) -> None:
    from lorentzrec.model.artifact import load
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.versions.gate import parse_requirements
    from lorentzrec.serving.versions.publish import publish, select_since

    requirements = parse_requirements(options["require"])  # before anything that takes long
    model = load(folder)
    dataset = None if items is None else dataset_at(items)
    table = None if items is None else item_table_at(items, others=True).rename({"item": "id"})
    if table is not None and dataset is None and table.columns == ["id"]:
        raise InputError(
            f"{items} has no information about items: give a file with columns item and title, category, ..."
        )
    events = None
    if with_histories:
        events = model.histories if dataset is None else dataset.interactions()
        if events is None:
            raise InputError(f"{folder} was saved without histories: give --items DATASET, or leave --histories out")
        if events.times is None:
            twice = ", so events already sent to the service are counted twice: give --items DATASET"
            source, effect = (folder, twice) if dataset is None else (items, "")
            note([f"{source} has no timestamps; history positions are used instead{effect}"])
    if test is not None:
        options["held_out"] = _read_held_out(test, folder, model, requirements)
    with closing(open_store(to, create=True)) as store, stages() as report:
        if events is not None and since is not None:
            events = select_since(events, since, store, options["arm"])
        published = publish(
            model,
            store,
            items=table,
            histories=events,
            event_weights=None if dataset is None else dataset.event_weights,
            progress=report,
            **options,
        )
        url = store.url
    manifest, added, counts = published.manifest, published.events, None
    shown: list[RenderableType] = [
        f"{published.name} is the current version of {_name_target(url, options['arm'])}: "
        f"{Count(manifest['points']['items']):item|items}"
    ]
    if added is not None:
        counts = {"accepted": added.accepted, "duplicates": added.duplicates, "erased_customers": len(added.erased)}
        shown.append(f"Histories: {Count(added.accepted):event|events} added, {added.duplicates:,} already there")
        if added.erased:
            customers = f"{Count(len(added.erased)):customer|customers}"
            shown.append(f"Histories: {customers} had been erased; their events before the erasure were skipped")
    entries = {"items": manifest["points"]["items"]}
    entries |= {name: manifest[name] for name in ("described_items", "index", "map")}
    gate = [result.to_dict() for result in published.gate]
    result = {"model": published.name, "store": url, "arm": options["arm"], **entries, "events": counts}
    result |= {"versions": published.versions, "gate": gate}
    checked = [(one.requirement, one.status, one.measured) for one in published.gate if one.status != "not checked"]
    if checked:
        shown.append(make_table({"requirement": "left bold", "result": "left", "measured": "left"}, checked))
    missing = manifest["points"]["items"] - manifest["described_items"] if table is not None else 0
    untitled = [f"{Count(missing):item has|items have} no title in {items}"] if missing else []
    notes = [*manifest["publish_notes"], *untitled, *_note_unchecked(published.gate), *published.notes]
    print_result(result, *shown, json=json, notes=notes)


def _name_target(url: str, arm: str) -> str:
    from lorentzrec.serving.stores.activations import MAIN

    return url if arm == MAIN else f"arm {arm} of {url}"


def _note_unchecked(results: Sequence[Result]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for result in results:
        if result.status == "not checked":
            by_reason.setdefault(result.measured, []).append(result.requirement)
    return [f"{' and '.join(names)}: not checked, since {reason}" for reason, names in by_reason.items()]


def _read_held_out(data: str, folder: Path, model: Model, requirements: Sequence[Requirement]) -> HeldOutEvents:
    """The test part of the dataset that the model was trained on."""
    from lorentzrec.data.splitting import before_test
    from lorentzrec.serving.versions.gate import HeldOutEvents

    if all(requirement.measure in ("items", "overlap", "check") for requirement in requirements):
        raise InputError("--test is for requirements such as --require ndcg@10>=0.95*current: give one of them as well")
    parts = require_test(require_dataset(data, "--test"))
    if next(iter(parts.values())).digest != model.data_digest:
        raise InputError(
            f"{folder} was not trained on the training part of {data}, so it may know the events of the test part: "
            "give the dataset that it was trained on"
        )
    return HeldOutEvents(parts["test"], before_test(parts))


def live(
    store: StoreArgument,
    *,
    set: Path | None = None,
    add: list[str] | None = None,
    remove: list[str] | None = None,
    all: bool = False,
    list: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Show or change the live items of a store: no other item is recommended.

    Every item is live, except those removed with --remove, until --set gives a list of live items. Items that are not
    live still count in histories. Running services follow within about a second. A change that is probably a mistake
    is refused: a list that is empty, of mostly unknown ids, or less than half as long as the last one, and the removal
    of more than 100 items and more than half of those that are live.

    $ lorentzrec live file:store --remove sku-4
    $ lorentzrec live file:store --set in-stock.txt
    $ lorentzrec live file:store --add sku-1,sku-9 --remove sku-4
    $ lorentzrec live file:store --list

    set FILE: Only these are live: one id per line.
    add: Ids that become live, separated by commas. Repeatable.
    remove: Ids that are no longer live, in the same form.
    all: Every item of the version is live again, also those that were removed.
    list: Print the ids as well, and not only how many there are.
    force: Make the change even if it is probably a mistake.
    """
    from lorentzrec.serving.stores.address import open_store

    if sum([set is not None, add is not None or remove is not None, all]) > 1:
        raise InputError("live items are replaced (--set), changed (--add, --remove) or all (--all): give one of them")
    with closing(open_store(store)) as opened:
        if all:
            opened.set_live_items(None)
        elif set is not None or add is not None or remove is not None:
            listed = None if set is None else read_ids(set)
            _change_live(opened, listed, split_ids(add), split_ids(remove), force=force)
        now, url = opened.live_items(), opened.url
    text = f"every item is live in {url}"
    if now.items is not None:
        text = f"{Count(len(now.items)):item is|items are} live in {url}"
    elif now.removed:
        text += f", except {Count(len(now.removed)):item that was|items that were} removed"
    result: dict[str, Any] = {"store": url, "live": None if now.items is None else len(now.items)}
    result["removed"] = len(now.removed)
    if list:
        result |= {"live_ids": now.items, "removed_ids": now.removed}
    print_result(result, text, *(now.items or now.removed if list else ()), json=json)


def _change_live(store: Store, listed: list[str] | None, add: list[str], remove: list[str], *, force: bool) -> None:
    """Set a list of live items, or change single ones, after a comparison with the current version."""
    from lorentzrec.serving.stores.live_doubts import doubt_change, doubt_list

    ids, before, version = add + remove if listed is None else listed, store.live_items(), store.state().version
    catalogue = None
    if version is not None:
        try:
            catalogue = _catalogue(store, version, [*ids, *before.removed])
        except LorentzrecError as error:
            note([f"the ids are not compared with version {version}: {error}"])
    doubt = doubt_change(add, remove, before, catalogue) if listed is None else doubt_list(listed, before, catalogue)
    if doubt is not None and not force:
        raise InputError(f"{doubt}, so nothing is changed: check it, and give --force if it is meant")
    if listed is None:
        store.change_live_items(add, remove)
    else:
        store.set_live_items(listed)
    if catalogue and (unknown := [id for id in ids if not catalogue.count_known([id])]):
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        note([f"{Count(len(unknown)):id is|ids are} not in version {version}, but kept for a later one: {shown}"])


def _catalogue(store: Store, version: str, ids: Sequence[str]) -> KnownItems:
    """The items of a version and the new items of the store, as far as these ids are concerned."""
    from lorentzrec.serving.stores.live_doubts import KnownItems
    from lorentzrec.serving.versions.item_directory import ItemDirectory
    from lorentzrec.serving.versions.version import ITEMS

    new = {item.id for item in store.new_items()}
    with (
        TemporaryDirectory() as folder,
        closing(ItemDirectory(store.fetch_file(version, ITEMS, Path(folder)))) as directory,
    ):
        size, rows = len(directory) + len(new), directory.rows(ids).tolist()
    known = new | {id for id, row in zip(ids, rows, strict=True) if row >= 0}
    return KnownItems(version, size, lambda some: sum(id in known for id in some))
