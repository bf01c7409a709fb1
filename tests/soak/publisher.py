"""`python -m tests.soak.publisher STORE publish|rollback`: a process that changes the current version, and may die at
the commit, as `kill_points` says. It prints the name of the version before it activates it."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from lorentzrec.errors import InputError
from lorentzrec.serving.stores import address
from lorentzrec.serving.versions.publish import rollback
from lorentzrec.serving.versions.version import write_version
from tests.serving.small_shop import shop_model, shop_table
from tests.soak.kill_points import SHARE, add_kill_points

NOTHING_LEFT = 3
"""The exit code of a rollback that has no version to return to."""


def main() -> int:
    url, action = sys.argv[1:]
    opening = add_kill_points(address.open_store, float(os.environ[SHARE]))
    with closing(opening(url)) as store, tempfile.TemporaryDirectory() as folder:
        if action == "rollback":
            try:
                rollback(store)
            except InputError as error:
                print(error)
                return NOTHING_LEFT
            return 0
        version = Path(folder) / "version"
        name = str(write_version(version, shop_model(), items=shop_table())["name"])
        with store.publishing():
            store.upload(version)
            print(name, flush=True)
            store.activate(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
