"""Evaluation of a recommender on held-out events: by full ranking, or among sampled items as in the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.threads import available_cores, thread_pool
from lorentzrec.data.arrays import Floats
from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.full_ranking import DEFAULT_METRICS, LISTED, FullRanking
from lorentzrec.evaluation.held_out import Candidates, HeldOut, check_candidates, hold_out
from lorentzrec.evaluation.metrics import METRICS
from lorentzrec.evaluation.report import Metric, Report, render_counts
from lorentzrec.evaluation.sampled_ranking import SAMPLED_METRICS, SampledRanking
from lorentzrec.evaluation.significance import bootstrap_intervals

ProtocolName = Literal["full", "sampled"]


class Recommender(Protocol):
    """What can be evaluated: a trained model, a baseline, or anything else with these four members."""

    @property
    def items(self) -> Vocabulary:
        """The catalogue."""

    @property
    def histories(self) -> Interactions | None:
        """The training histories, if the model carries them."""

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """Training events of each item row."""

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """A new (len(user_rows), len(items)) matrix of finite scores, higher is better; the caller may overwrite it.

        `user_rows` are rows of `histories`, whose item rows are those of `items`. A customer may be new to the model,
        and a history may be empty. Several threads may call this at once.
        """


def evaluate(
    model: Recommender,
    test: Interactions,
    protocol: ProtocolName = "full",
    k: int | Sequence[int] = 10,
    *,
    candidates: Candidates = "unseen",
    negatives: int = 100,
    histories: Interactions | None = None,
    users: int | None = None,
    seed: int = 0,
    metrics: Sequence[str] | None = None,
    intervals: bool = True,
    threads: int | None = None,
    watch: Callable[[float], None] | None = None,
) -> Report:
    """Measure how well `model` ranks the events of `test`, given the earlier events of their customers.

    protocol: "full" ranks all `candidates`; "sampled" is the paper's, each held-out item among `negatives` others,
    drawn uniformly from those the customer never interacted with.
    k: length of the lists, or several lengths.
    candidates: of full ranking. "unseen": what is not in the history. "all": every item, for shops whose customers buy
    again. "new" and "repeats": only items that are not, or that are, in the history, and the held-out ones of these.
    histories: earlier events of the customers; None: the model's training histories.
    users: number of customers to evaluate, chosen at random; None: all.
    metrics: names without k. Full ranking has hr, recall, ndcg, mrr, popularity and coverage by default, and also
    precision, map, novelty, diversity and gini. Sampled ranking has hr and ndcg by default, and also recall, mrr,
    precision and map.
    intervals: compute a 95 % bootstrap interval for each mean over customers.
    threads: None: all cores; the result does not depend on it.
    watch: called with the share of customers that are done.
    """
    _refuse_other_types(model, test)
    cutoffs = sorted({k} if isinstance(k, int | np.integer) else set(k))
    _check(protocol, cutoffs, negatives, users, seed, candidates)
    chosen = choose_metrics(protocol, metrics)
    before = model.histories if histories is None else histories
    if before is None:
        raise InputError("the model has no training histories: pass the events before the test as histories=")
    held_out = hold_out(test, before, model.items, model.item_counts, users, seed, candidates)
    ranking: FullRanking | SampledRanking
    if protocol == "full":
        ranking = FullRanking(held_out, model.item_counts, cutoffs, chosen)
    else:
        ranking = SampledRanking(held_out, cutoffs, negatives, seed, chosen)

    def measure(user_rows: NDArray[np.int64]) -> Any:
        return ranking.measure(user_rows, _scores(model, held_out, user_rows))

    with thread_pool(threads or available_cores()) as in_threads:
        blocks = list(held_out.blocks())
        for number, block in enumerate(in_threads(measure, blocks), 1):
            ranking.add(block)
            if watch is not None:
                watch(number / len(blocks))
    columns = np.array(list(ranking.per_user.values())).reshape(-1, len(held_out.users))
    values = np.ascontiguousarray(columns.T)
    ends = [array.tolist() for array in bootstrap_intervals(values, seed=seed)] if intervals else []
    means = dict(zip(ranking.per_user, map(Metric, values.mean(axis=0).tolist(), *ends), strict=True))
    return Report(
        protocol=protocol,
        metrics=means | {name: Metric(value) for name, value in ranking.over_all.items()},
        per_user=ranking.per_user,
        users=held_out.users,
        counts=(counts := held_out.counts | ranking.counts),
        notes=test.notes + render_counts(counts) + ranking.notes,
    )


def evaluate_variants(
    model: Recommender,
    score: Callable[[Interactions, NDArray[np.int64]], Iterable[NDArray[np.float32]]],
    count: int,
    test: Interactions,
    metric: str,
    *,
    candidates: Candidates = "unseen",
    histories: Interactions | None = None,
    threads: int | None = None,
) -> list[Floats]:
    """What `evaluate` finds for some variants of a model, in one pass: for each, the metric of each customer.

    score: like `Recommender.score_histories`, for each of the `count` variants. What they share is computed once.
    metric: of `parse_cutoff`.
    """
    before = model.histories if histories is None else histories
    if before is None:
        raise InputError("the model has no training histories: pass the events before the test as histories=")
    rows = before.users.rows(test.users.series)[np.unique(test.user_rows)]
    before = before.of_customers(rows[rows != UNKNOWN])
    held_out = hold_out(test, before, model.items, model.item_counts, None, 0, candidates)
    name, k = (metric.partition("@")[0],), [parse_cutoff(metric)]
    rankings = [FullRanking(held_out, model.item_counts, k, name) for _ in range(count)]

    def measure(user_rows: NDArray[np.int64]) -> None:
        found = score(held_out.histories, held_out.history_rows[user_rows])
        for ranking, scores in zip(rankings, found, strict=True):
            ranking.measure(user_rows, _check_scores(scores, model, held_out, user_rows))

    with thread_pool(threads or available_cores()) as in_threads:
        for _ in in_threads(measure, list(held_out.blocks())):
            pass
    return [ranking.per_user[metric] for ranking in rankings]


def evaluate_systems(
    systems: Mapping[str, Recommender],
    test: Interactions,
    k: int | Sequence[int] = 10,
    *,
    candidates: Candidates = "unseen",
    negatives: int = 100,
    metrics: Sequence[str] | None = None,
    watch: Callable[[float], None] = lambda share: None,
    **options: Any,
) -> dict[str, dict[str, Report]]:
    """Evaluate several systems under both protocols: system -> protocol -> report. `options`: as in `evaluate`.

    With `metrics`, sampled ranking has those of them that it can compute, and is left out if there are none. It is left
    out for other candidates than those that are unseen, too.
    """
    chosen: dict[ProtocolName, Sequence[str] | None] = dict.fromkeys(get_args(ProtocolName), metrics)
    if metrics is not None:
        chosen = {"full": choose_metrics("full", metrics), "sampled": [name for name in metrics if name in METRICS]}
    if candidates != "unseen":
        del chosen["sampled"]
    runs = [(name, protocol) for name in systems for protocol, names in chosen.items() if names is None or names]
    reports: dict[str, dict[str, Report]] = {name: {} for name in systems}
    for number, (name, protocol) in enumerate(runs):

        def watch_run(share: float, before: int = number) -> None:
            watch((before + share) / len(runs))

        options |= {"negatives": negatives, "watch": watch_run, "metrics": chosen[protocol], "candidates": candidates}
        reports[name][protocol] = evaluate(systems[name], test, protocol, k, **options)
    return reports


def choose_metrics(protocol: ProtocolName, metrics: Sequence[str] | None) -> tuple[str, ...]:
    """The metrics to compute, without repetitions; those of a protocol by default."""
    if metrics is None:
        return DEFAULT_METRICS if protocol == "full" else SAMPLED_METRICS
    known = (*METRICS, *LISTED) if protocol == "full" else tuple(METRICS)
    wrong = [name for name in metrics if name not in known] if not isinstance(metrics, str) else [metrics]
    if wrong or not metrics:
        found = f"there is no metric {wrong[0]!r} of {protocol} ranking" if wrong else "there is no metric to compute"
        raise ConfigError(f"{found}: give a list of {', '.join(known)}")
    return tuple(dict.fromkeys(metrics))


def parse_cutoff(metric: str) -> int:
    """The k of a metric of full ranking that is a mean over customers: 20 for "ndcg@20"."""
    name, _, k = metric.partition("@")
    if name not in DEFAULT_METRICS or name not in METRICS or not k.isdecimal() or int(k) < 1:
        raise ConfigError(f"there is no metric {metric!r}: use hr, recall, ndcg or mrr, such as ndcg@20")
    return int(k)


def _check(protocol: str, cutoffs: list[int], negatives: int, users: int | None, seed: int, candidates: str) -> None:
    if protocol not in get_args(ProtocolName):
        raise ConfigError(f"there is no protocol {protocol!r}: choose full or sampled")
    check_candidates(candidates)
    if candidates != "unseen" and protocol == "sampled":
        raise ConfigError("the sampled protocol has the candidates unseen only: use full ranking")
    if not cutoffs or cutoffs[0] < 1:
        raise ConfigError(f"k={cutoffs}: give one or more whole numbers of at least 1")
    if users is not None and users < 1:
        raise ConfigError(f"users={users}: give 1 or more, or None for all")
    if seed < 0:
        raise ConfigError(f"seed={seed} is negative: give 0 or more")
    if protocol == "sampled" and cutoffs[-1] > negatives:
        raise ConfigError(f"k={cutoffs[-1]} with {negatives} negatives always hits: use a smaller k or more negatives")


def _refuse_other_types(model: Any, test: Any) -> None:
    missing = [name for name in ("items", "histories", "item_counts", "score_histories") if not hasattr(model, name)]
    if missing:
        raise InputError(
            f"{type(model).__name__} has no {' and no '.join(missing)}: give a trained model or a baseline, or see "
            "lorentzrec.evaluation.protocol.Recommender for what to implement"
        )
    check_is_interactions(test, "evaluate")


def _scores(model: Recommender, held_out: HeldOut, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
    scores = model.score_histories(held_out.histories, held_out.history_rows[user_rows])
    return _check_scores(scores, model, held_out, user_rows)


def _check_scores(
    scores: NDArray[np.float32], model: Recommender, held_out: HeldOut, user_rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The scores; an error if they are not a finite number for each item and customer."""
    if scores.shape != (len(user_rows), len(model.items)):
        raise InputError(
            f"score_histories returned an array of shape {scores.shape}: return {(len(user_rows), len(model.items))}"
        )
    # A sum is cheaper than testing every score, but it may overflow: then every score is tested.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(scores.sum())
    if suspicious and not np.isfinite(scores).all():
        index, item_row = np.argwhere(~np.isfinite(scores))[0]
        user, item = held_out.users.id(int(user_rows[index])), model.items.id(int(item_row))
        raise InputError(
            f"the model scores item {item!r} for user {user!r} as {scores[index, item_row]}: "
            "train it again with a lower learning rate"
        )
    return scores
