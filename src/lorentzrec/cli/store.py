"""`lorentzrec store`: look after a store."""

from __future__ import annotations

from contextlib import closing

from lorentzrec.cli.options import StoreArgument
from lorentzrec.cli.output import print_result, stages
from lorentzrec.counting import Count


def migrate(store: StoreArgument, *, json: bool = False) -> None:
    """Change the tables of a store that an older lorentzrec wrote.

    All other commands refuse such a store. Stop its services first, and back it up with the lorentzrec that wrote it.
    All steps are one transaction: if one fails, the store is as before. There is no time limit.

    $ lorentzrec store migrate file:store
    """
    from lorentzrec.serving.stores.address import open_store

    taken: list[int] = []
    with stages() as report:

        def show_step(number: int, last: int) -> None:
            taken.append(number)
            report(f"step {number} of {last}", 0.0)

        with closing(open_store(store, migrate=show_step)) as opened:
            url = opened.url
    done = f"{Count(len(taken)):step was|steps were} taken" if taken else "nothing was to be done"
    print_result({"store": url, "steps": taken}, f"{url} is up to date: {done}", json=json)


STORE = ("Look after a store.", (migrate,))
"""What the commands of this group do, and the commands."""
