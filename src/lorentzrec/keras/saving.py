"""Reading `.keras` files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras

from lorentzrec.errors import ArtifactError


def load_model(path: str | Path, **options: Any) -> Any:
    """`keras.models.load_model`, with an `ArtifactError` of one line for a file that cannot be read."""
    if not Path(path).exists():
        raise ArtifactError(f"{path} does not exist: check the path")
    try:
        return keras.models.load_model(path, **options)
    except TypeError as error:
        unknown = re.search(r"Could not locate \w+ '([^']+)'", str(error))
        if unknown is None:
            raise
        raise ArtifactError(
            f"{path} has the class {unknown[1]!r}, which Keras does not know: import the module that registers it, or "
            "give it in custom_objects"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ArtifactError(f"{path} cannot be read ({reason[:200]}): save the model again") from None
