"""The rules of the shop: read, replaced, tried, and who changed them."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from litestar import get, post, put
from litestar.params import JSONBody

from lorentzrec.points.fallbacks import render_fallbacks
from lorentzrec.serving.http.messages import (
    NoQuery,
    PreviewRequest,
    PreviewResponse,
    RuleChangeEntry,
    RulesChanged,
    RulesLogResponse,
    RulesRequest,
    RulesResponse,
)
from lorentzrec.serving.http.problems import READING, READING_ITEM, WITH_BODY, describe_problems
from lorentzrec.serving.http.requests import COSTLY, StrictRequest, TheWorker, Worker
from lorentzrec.serving.http.routes.recommendations import rank_for
from lorentzrec.serving.rules.document import RuleSet, check_rules, read_rules
from lorentzrec.serving.stores.rules import NO_RULES
from lorentzrec.serving.worker.query import RankedItems
from lorentzrec.serving.worker.recommender import Recommender

RULE_SECONDS = 8.0
"""Sets may have a million ids."""


@get("/rules", sync_to_thread=True, responses=READING)
def get_rules(request: StrictRequest[NoQuery], worker: TheWorker) -> RulesResponse:
    """The rules in the store, and its named sets of items."""
    found = worker.store.call(lambda store: store.rules(), seconds=RULE_SECONDS)
    rules = read_rules(NO_RULES if found is None or found.document is None else found.document)
    if found is None:
        return RulesResponse(0, None, None, None, rules.rules, rules.sets)
    return RulesResponse(found.revision, found.time, found.reason, found.who, rules.rules, rules.sets)


@put("/rules", sync_to_thread=True, opt={"writes": True}, responses=WITH_BODY | describe_problems(409))
def set_rules(data: JSONBody[RulesRequest], request: StrictRequest[NoQuery], worker: TheWorker) -> RulesChanged:
    """Replace the rules and the sets. Rules with any fault are refused whole, with the path of each fault."""
    rules, used = _without_message(data), worker.versions.in_use
    check_rules(rules, None if used is None else used.columns)
    scope: Any = request.scope
    change = worker.store.call(
        lambda store: store.set_rules(
            rules.encode(), reason=data.reason, who=scope.get("key_name"), instead_of=data.instead_of
        ),
        writes=True,
        seconds=RULE_SECONDS,
    )
    worker.versions.poll_now()
    unknown = len(rules.ids) if used is None else len(rules.ids) - used.count_known(rules.ids)
    return RulesChanged(change.revision, len(rules.rules), unknown, worker.versions.name)


@get("/rules/log", sync_to_thread=True, responses=READING)
def get_rules_log(request: StrictRequest[NoQuery], worker: TheWorker) -> RulesLogResponse:
    """Who changed the rules, when, and why; newest first."""
    log = worker.store.call(lambda store: store.rules_log(), seconds=RULE_SECONDS)
    return RulesLogResponse([RuleChangeEntry(one.revision, one.time, one.reason, one.who) for one in log])


@post("/rules/preview", status_code=200, responses=WITH_BODY | READING_ITEM)
async def preview_rules(data: JSONBody[PreviewRequest], worker: TheWorker) -> PreviewResponse:
    """Try rules with a request. Nothing is stored, and no other response changes."""
    return await worker.threads.run(COSTLY + 1, partial(_preview, data, worker))


def _preview(data: PreviewRequest, worker: Worker) -> PreviewResponse:
    rules = _without_message(data)
    options = data.recommend or data.similar or data.alternatives or data.outfits
    user = None if data.recommend is None or data.recommend.user is None else str(data.recommend.user)
    recommender = worker.versions.choose(None if options is None else options.arm, user).recommender
    check_rules(rules, recommender.columns)
    compiled = recommender.compile(rules)
    moment = time.time() if data.at is None else data.at.timestamp()
    ruled = _rank(data, worker, recommender.with_rules(compiled.at(moment)))
    plain = _rank(data, worker, recommender.with_rules(None))
    return PreviewResponse(
        items=ruled.items,
        rules=ruled.rules,
        without_rules=plain.items,
        fallback=render_fallbacks(ruled.fallbacks),
        unknown_items=compiled.unknown_ids,
        model=recommender.version.name,
    )


def _rank(data: PreviewRequest, worker: Worker, recommender: Recommender) -> RankedItems:
    if data.recommend is not None:
        return rank_for(data.recommend, worker, recommender)[0]
    if data.outfits is not None:
        return recommender.complete(data.outfits.basket, data.outfits)
    if data.similar is not None:
        return recommender.similar(str(data.similar.item), data.similar)
    if data.alternatives is not None:
        return recommender.alternatives(str(data.alternatives.item), data.alternatives)
    raise AssertionError("the message has one of them")


def _without_message(data: RuleSet) -> RuleSet:
    """The rules alone."""
    return RuleSet(rules=data.rules, sets=data.sets)
