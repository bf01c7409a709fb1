"""A report reads well, as text, as rows and as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.evaluation.report import Metric, Report

REPORT = Report(
    protocol="full",
    metrics={"hr@10": Metric(0.5, 0.25, 0.75), "coverage@10": Metric(0.125)},
    per_user={"hr@10": np.array([0.0, 1.0])},
    users=Vocabulary(["u", "v"]),
    counts={"users": 2, "events": 1200},
    notes=("a thing to know",),
)


def test_values_by_name() -> None:
    assert REPORT["hr@10"] == 0.5
    with pytest.raises(InputError, match="no metric 'ndcg@5': it has hr@10, coverage@10"):
        REPORT["ndcg@5"]


def test_text() -> None:
    assert repr(REPORT).splitlines() == [
        "Report(full ranking of 1,200 held-out items of 2 customers)",
        "  hr@10        0.5000 [0.2500, 0.7500]",
        "  coverage@10  0.1250",
        "  note: a thing to know",
    ]


def test_rows() -> None:
    assert REPORT.to_table() == [("hr@10", "0.5000", "0.2500 to 0.7500"), ("coverage@10", "0.1250", "")]


def test_json() -> None:
    assert json.loads(json.dumps(REPORT.to_dict())) == {
        "protocol": "full",
        "metrics": {
            "hr@10": {"value": 0.5, "low": 0.25, "high": 0.75},
            "coverage@10": {"value": 0.125, "low": None, "high": None},
        },
        "counts": {"users": 2, "events": 1200},
        "notes": ["a thing to know"],
    }
