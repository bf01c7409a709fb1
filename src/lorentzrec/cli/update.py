"""`lorentzrec add-items` and `lorentzrec update`: a model that follows its catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lorentzrec.base.counting import Count
from lorentzrec.cli.inputs import attribute_frame, read_ids, training_data
from lorentzrec.cli.options import event_file_options
from lorentzrec.cli.output import note, print_result
from lorentzrec.cli.results import refuse_unwritable
from lorentzrec.cli.train import show_model


@event_file_options
def add_items(
    model: Path,
    events: str | None = None,
    *,
    out: Path,
    attributes: str | None = None,
    json: bool = False,
    **file_options: str | None,
) -> None:
    """Add new items to a model, without training.

    An item is placed by the histories of the customers who interacted with it, by its attributes if the model was
    trained with any, or by both. All events are added to the histories that the model keeps.

    $ lorentzrec add-items model today.csv --out tomorrow
    $ lorentzrec add-items model --attributes new-items.csv --out tomorrow

    events: Events after the training data, with new items and known ones: a dataset, or event files.
    out: Folder for the new model.
    attributes FILE: Attributes of new items, in the columns item and those that the model was trained with.
    """
    from lorentzrec.learning.new_events import with_types_of
    from lorentzrec.model.artifact import load

    refuse_unwritable(out, "lorentzrec model")
    known = load(model)
    given = None if events is None else with_types_of(known, training_data(events, **file_options).read()[0])
    described = None if attributes is None else attribute_frame(attributes, known)
    added = known.add_items(events=given, attributes=described)
    added.save(out)
    notes, new = added.notes[len(known.notes) :], len(added.items) - len(known.items)
    result = {"model": str(out), "items": len(added.items), "new_items": new, "notes": list(notes)}
    text = f"The model is in {out}: {added!r}, with {Count(new):new item|new items}"
    print_result(result, text, json=json, notes=notes)


@event_file_options
def update(
    model: Path,
    data: str,
    *,
    out: Path,
    rehearse: Annotated[float | None, typer.Option(min=0, max=1)] = None,
    prune_after: float | None = None,
    live: Path | None = None,
    settings: list[str] | None = None,
    json: bool = False,
    **file_options: str | None,
) -> None:
    """Update a model with the events since its training.

    The new events are trained on together with a sample of the earlier ones, in 5 epochs at the learning rate that
    training had half-way. New items and customers are added, with the attributes that the dataset has of them, if the
    model was trained with any. The model itself does not change.

    $ lorentzrec update model shop --out tomorrow
    $ lorentzrec update model shop --out tomorrow --prune-after 90

    data DATASET: All events so far, old and new: a dataset, whose training part is used, or event files. Of a dataset
        with deliveries (prepare --append), only those that the model does not know are read.
    out: Folder for the updated model.
    rehearse SHARE: Share of the customers whose earlier events are trained on again. Default: 0.2.
    prune_after DAYS: Remove items without an event in the last days.
    live FILE: Remove all items but those in the file, one id per line.
    """
    from lorentzrec.learning.updating import REHEARSED_SHARE, update_with, updating_config
    from lorentzrec.model.artifact import load

    refuse_unwritable(out, "lorentzrec model")
    known = load(model)
    config = updating_config(known).with_settings(settings or [])
    kept = None if live is None else [known.items.parse(text) for text in read_ids(live)]
    given = training_data(data, **file_options)
    events = given.read_with(known)
    if events.own:
        note(["the events that the model was trained on are its own: only new deliveries are read"])
    updated = update_with(
        known,
        events,
        config,
        attributes=None if known.attributes is None else given.attributes(start=known),
        rehearse=REHEARSED_SHARE if rehearse is None else rehearse,
        prune_after=prune_after,
        live=kept,
    )
    updated.save(out)
    show_model(updated, out, json, interrupted=False)
