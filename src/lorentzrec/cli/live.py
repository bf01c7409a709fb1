"""`lorentzrec live`: which items may be recommended now."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from lorentzrec.cli.options import Json
from lorentzrec.cli.output import print_json, show
from lorentzrec.errors import InputError

Ids = list[str] | None


def live(
    store: Annotated[str, typer.Argument(metavar="STORE", help="file:DIR, postgresql://... or cosmos://...")],
    set: Annotated[Path | None, typer.Option(metavar="FILE", help="Only these are live: one id a line.")] = None,
    add: Annotated[Ids, typer.Option(help="Ids that become live, with commas between; may be given again.")] = None,
    remove: Annotated[Ids, typer.Option(help="Ids that are live no more, in the same way.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every item of the version is live again.")] = False,
    json: Json = False,
) -> None:
    """Show or change the live items of a store: nothing else is recommended.

    Items that are not live still count in histories. Running services follow within about a second.
    """
    from lorentzrec.cli.recommend import lines_of_file
    from lorentzrec.serving.stores.address import open_store

    if sum([set is not None, add is not None or remove is not None, all]) > 1:
        raise InputError("live items are replaced (--set), changed (--add, --remove) or all (--all): give one of them")
    with closing(open_store(store)) as opened:
        if set is not None:
            opened.set_live_items(lines_of_file(set))
        elif all:
            opened.set_live_items(None)
        elif add is not None or remove is not None:
            opened.change_live_items(_ids(add), _ids(remove))
        items, url = opened.live_items(), opened.url
    if json:
        print_json({"store": url, "items": items})
    elif items is None:
        show(f"every item is live in {url}")
    else:
        show(f"{len(items):,} items are live in {url}", *items)


def _ids(texts: Ids) -> list[str]:
    return [part.strip() for text in texts or [] for part in text.split(",") if part.strip()]
