"""`lorentzrec arms`: the models that a store serves side by side, and their shares of the customers."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from lorentzrec.cli.options import StoreArgument
from lorentzrec.cli.output import print_result, table
from lorentzrec.errors import InputError


def parse_arm(text: str) -> tuple[str, float | None]:
    """The name of an arm, and its share if the text has one."""
    name, given, share = text.partition("=")
    try:
        return name, float(share) if given else None
    except ValueError:
        raise InputError(f"{text!r} is not NAME=SHARE: give a number from 0 to 1, as in flat=0.1") from None


def arms(
    store: StoreArgument,
    change: str | None = None,
    *,
    end: str | None = None,
    promote: str | None = None,
    reason: str | None = None,
    json: bool = False,
) -> None:
    """Show the arms of a store, or change one: its share of the customers, or its end.

    `lorentzrec publish --arm NAME=SHARE` makes an arm. Customers are assigned by a hash of their ids; the arm main has
    those that no other arm has. Running services follow within about a second.

    $ lorentzrec arms file:store
    $ lorentzrec arms file:store flat=0.1 --reason "first day of the test"
    $ lorentzrec arms file:store --end flat
    $ lorentzrec arms file:store --promote flat

    change NAME=SHARE: The new share of an arm, from 0 to 1.
    end NAME: End this arm: its customers return to main.
    promote NAME: Make the version of this arm the current one of main, and end the arm.
    reason TEXT: Why, for the log of activations.
    """
    from lorentzrec.serving.stores.activations import MAIN
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.stores.faults import StoreFault

    if sum(one is not None for one in (change, end, promote)) > 1:
        raise InputError("an arm changes its share (NAME=SHARE), ends (--end) or is promoted: give one of them")
    why: dict[str, Any] = {} if reason is None else {"reason": reason}
    with closing(open_store(store)) as opened:
        if change is not None:
            name, share = parse_arm(change)
            if share is None:
                raise InputError(f"{change!r} is not NAME=SHARE: give the new share as well, as in {change}=0.1")
            opened.set_share(name, share, **why)
        if promote is not None:
            before = opened.state()
            version = before.find_version(promote)
            if version is None or promote == MAIN:
                others = ", ".join(name for name in before.arms if name != MAIN) or "none"
                raise StoreFault.NO_ARM.error(store=opened.url, arm=promote, arms=others)
            # First main: if the second step fails, customers of both arms are served by this version.
            opened.activate(version, reason or f"promoted from arm {promote}", instead_of=before.version)
            opened.end_arm(promote, reason or "promoted")
        if end is not None:
            opened.end_arm(end, **why)
        found, url = opened.state(), opened.url
    result = {name: arm._asdict() for name, arm in found.arms.items()}
    rows = [[name, arm.version, f"{arm.share:g}"] for name, arm in found.arms.items()]
    columns = {"arm": "left", "version": "left whole", "share": "right"}
    print_result({"store": url, "arms": result}, table(columns, rows, title=f"Arms of {url}"), json=json)
