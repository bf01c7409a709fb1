"""What handlers are given by the application, under these names: `current`, `store`, `metrics`."""

from __future__ import annotations

from typing import TypeAlias

from litestar.di import NamedDependency

from lorentzrec.serving.current import Current
from lorentzrec.serving.guarded_store import GuardedStore
from lorentzrec.serving.metrics import Metrics

TheCurrent: TypeAlias = NamedDependency[Current]
TheStore: TypeAlias = NamedDependency[GuardedStore]
TheMetrics: TypeAlias = NamedDependency[Metrics]
