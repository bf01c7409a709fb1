"""Reading `.keras` files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras

from lorentzrec.base.library_faults import first_line
from lorentzrec.errors import ArtifactError


def load_model(path: str | Path, **options: Any) -> Any:
    """`keras.models.load_model`, with an `ArtifactError` of one line for a file that cannot be read."""
    if not Path(path).exists():
        raise ArtifactError(f"{path} does not exist: check the path")
    try:
        return keras.models.load_model(path, **options)
    except MemoryError:
        raise
    except Exception as error:  # of zip files, HDF5, JSON and Keras: a damaged file may break any of them
        unknown = re.search(r"Could not locate \w+ '([^']+)'", str(error))
        if unknown is not None:
            raise ArtifactError(
                f"{path} has the class {unknown[1]!r}, which Keras does not know: import the module that registers it, "
                "or give it in custom_objects"
            ) from None
        raise ArtifactError(f"{path} cannot be read ({first_line(error)}): save the model again") from None
