"""The gate of `publish`: requirements that a new version must meet before it becomes the current one.

A requirement is MEASURE>=BOUND. The bound is a number, or a multiple of what the current version has:

    items>=0.9*current         number of items
    overlap@10>=0.27           mean share of the list of 10 that is also in the list of the current version
    ndcg@10>=0.95*current      also hr, recall and mrr: quality on held-out events, by full ranking

The reality check of training has no bound but baselines:

    check                      the model has a check, and loses to no baseline of it
    check>=popularity          the same for one of the baselines

A new measure is a function in `MEASURES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from lorentzrec.base.counting import Count
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError, LorentzrecError
from lorentzrec.model.reality_check import ADVICE, RealityCheck
from lorentzrec.serving.versions.comparison import VersionRecommender, measure_overlap, with_text_ids
from lorentzrec.serving.versions.version import Version

HALF_OF_TWO_SEEDS = 0.27
"""Half the overlap@10 of two models that differ only by their seed, on the data set where it is lowest: see
`docs/lab/gate.md` for the measurement."""
DEFAULTS = ("items>=0.9*current", f"overlap@10>={HALF_OF_TWO_SEEDS}")
QUALITY_CUSTOMERS = 5_000
"""Customers with held-out events that are evaluated, chosen at random."""

FIRST_VERSION = "a first version has nothing to be compared with"

Status = Literal["met", "missed", "not checked"]

_CHECK = re.compile(r"check(?:>=(?P<baseline>[a-z]+(?:-[a-z]+)*))?")
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_FORM = re.compile(
    rf"(?P<measure>[a-z]+)(?:@(?P<k>[1-9]\d{{0,3}}))?>=(?:(?P<number>{_NUMBER})|(?:(?P<factor>{_NUMBER})\*)?current)"
)


class PublishRefused(InputError):  # noqa: N818 - the name states what happened
    """A new version that does not meet its requirements; `results` has what was measured."""

    def __init__(self, message: str, results: Sequence[Result]) -> None:
        super().__init__(message)
        self.results = tuple(results)


@dataclass(frozen=True)
class Requirement:
    """MEASURE@K>=BOUND, MEASURE@K>=BOUND*current, or check>=BASELINE."""

    measure: str
    k: int | None
    bound: float
    relative: bool
    """Whether the bound is a multiple of what the current version has."""
    given: bool = True
    """Whether the user gave it; False for a default."""
    baseline: str | None = None
    """What the check is about; None: all baselines."""

    def __str__(self) -> str:
        if self.measure == "check":
            return "check" if self.baseline is None else f"check>={self.baseline}"
        name = self.measure if self.k is None else f"{self.measure}@{self.k}"
        return f"{name}>={self.bound:g}{'*current' if self.relative else ''}"


@dataclass(frozen=True)
class Result:
    """What was found about a requirement."""

    requirement: str
    status: Status
    measured: str
    """For a reader: the value, what it was compared with, and on how much data; or why it could not be measured."""
    value: float | None = None
    """The value of the new version; for `ndcg@10>=0.95*current`, its ratio to that of the current version."""
    low: float | None = None
    high: float | None = None
    """The 95 % interval of the value, if there is one."""
    refuses: bool = False
    """Whether the version must not be published because of it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON, which knows no infinity."""
        entries = asdict(self)
        return {name: None if value == np.inf else value for name, value in entries.items()}


@dataclass(frozen=True)
class HeldOutEvents:
    """Events that the model of the new version was not trained on, and the events of their customers before them."""

    test: Interactions
    histories: Interactions


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the requirements are about."""

    new: Version
    current: Version | None
    histories: Interactions | None
    """Of customers, to compare lists; the training histories of the new model."""
    held_out: HeldOutEvents | None = None
    absence: str | None = None
    """Why the current version cannot be compared with; None if it can, or if the new version is the first one."""

    def require_current(self) -> Version:
        if self.current is None:
            raise _FirstVersion(FIRST_VERSION) if self.absence is None else _NotChecked(self.absence)
        return self.current


class _NotChecked(Exception):  # noqa: N818 - not an error: a reason
    """Why a requirement cannot be checked."""


class _FirstVersion(_NotChecked):
    """There is no current version, which is no reason to refuse the new one."""


def parse_requirements(texts: Iterable[str]) -> list[Requirement]:
    """The requirements of these texts, and the defaults whose measure is not among them."""
    given = [_parse(text) for text in texts]
    measures = {requirement.measure for requirement in given}
    defaults = [_parse(text, given=False) for text in DEFAULTS]
    return [default for default in defaults if default.measure not in measures] + given


def _parse(text: str, *, given: bool = True) -> Requirement:
    if (checked := _CHECK.fullmatch("".join(text.split()))) is not None:
        return _require_check(text, checked["baseline"])
    found = _FORM.fullmatch("".join(text.split()))
    if found is None or found["measure"] not in MEASURES or found["measure"] == "check":
        raise ConfigError(
            f"the requirement {text!r} is not MEASURE>=NUMBER or MEASURE>=NUMBER*current: give one such as "
            f"{DEFAULTS[0]} or ndcg@10>=0.95*current, or check; measures are {', '.join(MEASURES)}"
        )
    measure, k, relative = found["measure"], found["k"], found["number"] is None
    if (k is None) != (measure == "items"):
        fix = "leave @ out" if k else f"give a length of the lists, such as {measure}@10"
        raise ConfigError(f"the requirement {text!r} has {'a' if k else 'no'} length of lists: {fix}")
    if measure == "overlap" and relative:
        raise ConfigError(f"{text!r} compares with the current version twice: give a number, such as {DEFAULTS[1]}")
    bound = float(found["number"] or found["factor"] or 1)
    return Requirement(measure, None if k is None else int(k), bound, relative, given)


def _require_check(text: str, baseline: str | None) -> Requirement:
    if baseline is not None and baseline not in ADVICE:
        raise ConfigError(f"the requirement {text!r} has no baseline of the check: give one of {', '.join(ADVICE)}")
    return Requirement("check", None, 0.0, relative=False, baseline=baseline)


def check_requirements(requirements: Iterable[Requirement], candidates: Candidates) -> list[Result]:
    """Measure all of them.

    A requirement that was given and cannot be checked refuses the version, too, unless it is the first one. A default
    requirement does not.
    """
    results = []
    for requirement in requirements:
        try:
            results.append(MEASURES[requirement.measure](requirement, candidates))
        except (_NotChecked, LorentzrecError) as reason:
            refuses = requirement.given and not isinstance(reason, _FirstVersion)
            results.append(Result(str(requirement), "not checked", str(reason), refuses=refuses))
    return results


def refuse(results: Iterable[Result], url: str) -> PublishRefused | None:
    """The error that lists what refuses a version; None if nothing does."""
    results = list(results)
    if not (refusing := [result for result in results if result.refuses]):
        return None
    lines = "; ".join(f"{result.requirement} is {result.status}: {result.measured}" for result in refusing)
    action = "train again on the right data, give another requirement, or publish with `force`"
    return PublishRefused(f"nothing is published to {url}, since {lines}: {action}", results)


def _measure_items(requirement: Requirement, candidates: Candidates) -> Result:
    new, bound = len(candidates.new.items), requirement.bound
    text = f"{Count(new):item|items}"
    if requirement.relative:
        current = candidates.require_current()
        bound *= len(current.items)
        text += f", and the current version {current.name} has {len(current.items):,}"
    return _judge(requirement, text, new, met=new >= bound)


def _measure_overlap(requirement: Requirement, candidates: Candidates) -> Result:
    current = candidates.require_current()
    if candidates.histories is None:
        raise _NotChecked("the model was saved without histories")
    found = measure_overlap(candidates.new, current, candidates.histories, requirement.k or 0)
    if found.items and not found.histories:
        raise _NotChecked(f"no history leaves more than {requirement.k} of the items that both versions have to rank")
    what = f"{Count(found.histories):history|histories} and {Count(found.items):item|items} of both versions"
    return _judge(requirement, f"{found.value:.3f} over {what}", found.value, met=found.value >= requirement.bound)


def _measure_quality(requirement: Requirement, candidates: Candidates) -> Result:
    """Refused only if the data show that the version is worse: if the upper end of the interval is below the bound."""
    from lorentzrec.evaluation.protocol import evaluate
    from lorentzrec.evaluation.significance import bootstrap_ratio

    current = candidates.require_current() if requirement.relative else None
    if candidates.held_out is None:
        raise _NotChecked("there are no held-out events: give `test`, the dataset that the model was trained on")
    test = candidates.held_out.test
    if current is not None:
        test = _select_newer(test, current)
    metric, name = f"{requirement.measure}@{requirement.k}", requirement.measure
    versions = (candidates.new,) if current is None else (candidates.new, current)
    events, histories = with_text_ids(test), with_text_ids(candidates.held_out.histories)
    reports = [
        evaluate(
            VersionRecommender(version),
            events,
            k=requirement.k or 0,
            histories=histories,
            users=QUALITY_CUSTOMERS,
            metrics=[name],
        )
        for version in versions
    ]
    size = f"{Count(len(reports[0].users)):customer|customers}"
    if current is None:
        found = reports[0].metrics[metric]
        value, low, high = found
        text = f"{found} for {size}"
    else:
        value, low, high = bootstrap_ratio(*(report.per_user[metric] for report in reports))
        means = " / ".join(f"{report[metric]:.4f}" for report in reports)
        text = f"{means} = {value:.3f} [{low:.3f}, {high:.3f}] for {size}"
    return _judge(requirement, text, value, low, high, met=(value if high is None else high) >= requirement.bound)


def _measure_check(requirement: Requirement, candidates: Candidates) -> Result:
    """Refused if the model significantly loses to a baseline in the check of its training."""
    described = candidates.new.manifest.get("check")
    if described is None:
        raise _NotChecked("the model has no reality check: train it with events held out, see `lorentzrec train`")
    check = RealityCheck.from_dict(described)
    rows = [row for row in check.baselines if requirement.baseline in (None, row.name)]
    if not rows:
        raise _NotChecked(f"the reality check of the model has no {requirement.baseline}")
    others = ", ".join(f"{row.name} {row.ndcg:.4f}" for row in rows)
    text = f"NDCG@10 {check.ours.ndcg:.4f}, {others} on {check.basis}"
    return _judge(requirement, text, check.ours.ndcg, met=not any(row.ahead for row in rows))


def _select_newer(test: Interactions, current: Version) -> Interactions:
    """The events that are newer than all that the current version was trained on."""
    newest = current.newest_time
    if newest is None:
        raise _NotChecked(f"the times of the data of version {current.name} are not known")
    if test.times is None:
        raise _NotChecked("the held-out events have no times")
    newer = test.times > newest
    if not newer.any():
        moment = datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds")
        raise _NotChecked(f"no held-out event is newer than the data of version {current.name}, which end at {moment}")
    return test.select(newer)


def _judge(
    requirement: Requirement,
    text: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    *,
    met: bool,
) -> Result:
    return Result(str(requirement), "met" if met else "missed", text, value, low, high, refuses=not met)


MEASURES: dict[str, Callable[[Requirement, Candidates], Result]] = {
    "items": _measure_items,
    "overlap": _measure_overlap,
    **dict.fromkeys(("ndcg", "hr", "recall", "mrr"), _measure_quality),
    "check": _measure_check,
}
