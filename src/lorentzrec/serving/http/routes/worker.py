"""What handlers are given by the application, under the name `worker`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from litestar.di import NamedDependency

from lorentzrec.serving.http.costs import CostlyRequests
from lorentzrec.serving.http.current import Current
from lorentzrec.serving.http.guarded_store import GuardedStore
from lorentzrec.serving.http.metrics import Metrics


@dataclass(frozen=True)
class Worker:
    """What one process answers with. One dependency, since Litestar starts a task for each as soon as there are two."""

    current: Current
    store: GuardedStore
    metrics: Metrics
    costly: CostlyRequests


TheWorker: TypeAlias = NamedDependency[Worker]
