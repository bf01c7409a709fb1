"""Exports of a Keras model, on the back end that KERAS_BACKEND names; run by `test_back_ends.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import TrainingConfig
from lorentzrec.errors import InputError
from lorentzrec.keras import MidpointModel
from lorentzrec.keras.backend import BACKEND
from tests.keras.back_end_checks import HISTORIES, trained
from tests.test_docs import python_blocks


@pytest.mark.skipif(
    BACKEND != "tensorflow", reason="TensorFlow 2.21 cannot run what JAX 0.10 exports; PyTorch exports none"
)
def test_a_saved_model_ranks_alike(tmp_path: Path) -> None:
    import tensorflow as tf

    model = trained()
    model.export(tmp_path / "saved", verbose=False)
    saved = tf.saved_model.load(str(tmp_path / "saved"))  # its functions fail once it is collected
    found = saved.serve(tf.constant(HISTORIES))
    assert (found["items"].numpy() == model.predict(HISTORIES, verbose=0)["items"]).all()


@pytest.mark.skipif(BACKEND == "jax", reason="Keras exports JAX models to ONNX with jax2onnx, which is not installed")
def test_an_exported_graph_ranks_alike(tmp_path: Path) -> None:
    import onnxruntime

    model, path = trained(), tmp_path / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(str(path))
    [given] = session.get_inputs()
    for histories in (HISTORIES, HISTORIES[:1], HISTORIES[:, :1], np.tile(HISTORIES, 3)):
        items, scores = session.run(None, {given.name: histories})
        expected = model.predict(histories, verbose=0)
        np.testing.assert_array_equal(items, expected["items"])
        np.testing.assert_allclose(scores, expected["scores"], rtol=1e-5, atol=1e-6)


def test_a_model_without_points_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the model has no points yet: call fit first"):
        MidpointModel(TrainingConfig(dimension=6)).export(tmp_path / "model.onnx", format="onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(BACKEND == "jax", reason="Keras exports JAX models to ONNX with jax2onnx, which is not installed")
def test_the_page_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the other back ends, too: all blocks in one namespace, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "engines.md"
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for lines_before, body in python_blocks(page.read_text()):
        exec(compile("\n" * lines_before + body, str(page), "exec", dont_inherit=True), namespace)
    np.testing.assert_array_equal(
        namespace["best"], namespace["model"].predict(namespace["histories"], verbose=0)["items"]
    )
