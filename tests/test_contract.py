"""The names that later versions keep: of functions, options, routes and commands.

A new name is a word in one of the tables. The code may have more names than the tables, since a name may be added
at any time. A name that is gone breaks programs of users."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import typer.main

import lorentzrec
from lorentzrec import Interactions, MidpointRecommender, Model, Recommendations, Report, TrainingConfig, datasets
from lorentzrec.cli.application import app
from lorentzrec.geometry import charts, euclidean, hyperboloid, midpoint, triangles
from lorentzrec.serving.client import Client
from tests.serving.running_service import service_here, shop_store

PUBLIC = """
    ArtifactError ConfigError InputError Interactions ItemAttributes LorentzrecError MidpointRecommender Model
    Recommendations Report StopTraining TrainingConfig TrainingError TrainingInterrupted
    evaluate load register_loss register_split register_system train update
"""
MEMBERS: dict[type, str] = {
    Interactions: """
        from_csr from_dataset from_file from_frame from_pairs history_ids notes select split to_csr to_frame
    """,
    Model: """
        add_items alternatives alternatives_many check complete config history_points item_columns
        item_counts item_ids item_points item_vectors load notes query_points query_vectors
        recommend recommend_many recommend_orders record repeats save score similar_items
        similar_items_many similar_users to_parquet trend user_points
    """,
    Recommendations: "ids scores reasons fallback fallback_kinds to_csv to_frame to_pandas write_parquet",
    Report: "metrics notes to_csv to_dict to_frame to_latex to_markdown to_pandas write_parquet",
    MidpointRecommender: """
        explain fit item_factors load rank_items recommend save similar_items similar_users user_factors
    """,
    Client: """
        add_events add_item alternatives change_live_items forget history item live_items lookup model outfits
        preview_rules recommend remove_item rules rules_log search set_live_items set_rules similar trending
    """,
}
FUNCTIONS: dict[Any, str] = {
    hyperboloid: "distance dot exp_map log_map lift minkowski_dot origin project_to_tangent require_points",
    euclidean: "distance dot exp_map log_map origin",
    charts: "to_poincare from_poincare to_klein from_klein",
    midpoint: "einstein_midpoint",
    triangles: "mean_angle_sum",
    datasets: "fetch cache_folder PublicData",
}
ARGUMENTS: dict[Any, str] = {
    Interactions.from_frame: "frame user item time weight order kind",
    Model.recommend_many: "histories users k exclude exclude_seen allow categories diversity reasons times where",
    Model.recommend_orders: "orders k",
    Model.query_points: "users histories",
    Model.complete: "basket k per_category",
}


@dataclass(frozen=True)
class Call:
    """One thing that can be asked for in Python, over HTTP and in the shell."""

    python: Any
    route: tuple[str, str]
    command: str | None
    options: str
    """A word per option, the same everywhere. After a colon, where it exists: p (Python), h (HTTP), s (shell)."""


CALLS = [
    Call(
        Model.recommend,
        ("post", "/v1/recommend"),
        "recommend",
        "history user k exclude exclude_seen allow context categories diversity reasons where:ph times:p item_table:p "
        "set:h explore:h seed:h fields:h arm:h titles:s",
    ),
    Call(
        Model.recommend,
        ("get", "/v1/users/{user}/recommendations"),
        None,
        "k exclude exclude_seen allow context categories diversity reasons where",
    ),
    Call(
        Model.similar_items,
        ("get", "/v1/items/{item}/similar"),
        "similar",
        "item k allow reasons exclude:ph categories:ph where:ph",
    ),
    Call(
        Model.alternatives,
        ("get", "/v1/items/{item}/alternatives"),
        None,
        "item k allow reasons exclude where",
    ),
    Call(
        Model.complete,
        ("post", "/v1/outfits"),
        "complete",
        "k exclude allow reasons per_category slots budget where:ph basket",
    ),
]
ROUTES = """
    get /v1/items             post /v1/outfits           get /v1/live     get /v1/rules            get /healthz
    get /v1/items/{item}      post /v1/events            put /v1/live     put /v1/rules            get /readyz
    put /v1/items/{item}      post /v1/items/lookup      patch /v1/live   get /v1/rules/log        get /metrics
    delete /v1/items/{item}   delete /v1/users/{user}    get /v1/model    post /v1/rules/preview
    delete /v1/items          get /v1/users/{user}/history                    get /v1/trending
"""
COMMANDS = {
    "demo": "--out --no-serve --json",
    "prepare": """
        --out --items --item-field --attributes --split --drop-unseen-items --test-events --append --delivery --replace
        --compact --force --reader --format --columns --user-column --item-column --time-column --order-column
        --quantity-column --weight-column --rating-column --event-column --time-unit --time-format --ties --ordered
        --duplicates --event-weight --label-event --minimum-rating --since --until --k-core --on-error --engine --json
    """,
    "stats": "--json",
    "synthesize": "--out --customers --items --interactions --order-size --repeats --outfits --seed --json",
    "train": "--out --config --set --list-settings --attributes --complements --engine --resume --start --json",
    "tune": "--out --trials --metric --set --json",
    "evaluate": "-k --metrics --candidates --baselines --cold --json",
    "compare": """
        --systems --seeds --metric --tune-baselines --candidates --leave-validation-out --attributes --out --json
    """,
    "add-items": "--out --attributes --json",
    "update": "--out --live --prune-after --json",
    "backtest": "--days --weeks --candidates --out --json",
    "warm-up": "--config --set --json",
    "export": "--out --customers --attributes --json",
    "plot": "--out --items --labels --json",
    "recommend": "--history --user -k --titles --json",
    "similar": "-k --titles --json",
    "complete": "--basket --items --slots --budget --per-category -k --json",
    "recommend-all": "--out --store --exclude-seen --no-exclude-seen --allow -k --json",
    "similar-all": "--out --store --allow -k --json",
    "daily": "--json",
    "publish": "--to --items --histories --since --require --test --arm --rollback --reason --keep --force --json",
    "arms": "--promote --end --json",
    "live": "--set --add --remove --all --list --json",
    "serve": "--host --port --workers --api-key-file --probe-port --explore --event-weight --allow-origin",
    "reproduce": "--data --out --quick --json",
    "rules set": "--reason --json",
    "rules show": "--revision --json",
    "rules check": "--json",
    "rules log": "--json",
    "store status": "--json",
    "store verify": "--json",
    "store backup": "--to --json",
    "store restore": "--to --json",
    "store prune": "--older-than --newest --dry-run --json",
    "store remove-items": "--origin --fewer-than --json",
    "store migrate": "--json",
}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The OpenAPI document."""
    store = shop_store(tmp_path_factory.mktemp("shop"))
    with service_here(store.url) as service:
        document = service.get("/schema").json()
    store.close()
    return document


def options_of_route(document: Any, method: str, path: str) -> set[str]:
    """Parameters and fields of the body."""
    operation = document["paths"][path][method]
    names = {one["name"] for one in operation.get("parameters", ())}
    if body := operation.get("requestBody"):
        name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        names |= set(document["components"]["schemas"][name]["properties"])
    return names


def options_of_command(name: str) -> set[str]:
    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    return {name for one in command.params for name in [*one.opts, *one.secondary_opts]}


def commands_of(group: Any, before: str = "") -> Iterator[str]:
    """The names of all commands, those of groups included."""
    for name, command in group.commands.items():
        yield from commands_of(command, f"{before}{name} ") if hasattr(command, "commands") else [before + name]


def missing_from_python(call: Call) -> set[str]:
    return asked(call, "p") - set(inspect.signature(call.python).parameters)


def asked(call: Call, place: str) -> set[str]:
    words = (option.partition(":") for option in call.options.split())
    return {name for name, _, places in words if place in (places or "phs")}


def test_public_names_stay() -> None:
    assert set(PUBLIC.split()) - set(lorentzrec.__all__) == set()


@pytest.mark.parametrize("module", FUNCTIONS, ids=lambda module: module.__name__)
def test_functions_stay(module: Any) -> None:
    assert set(FUNCTIONS[module].split()) - set(dir(module)) == set()


def test_members_and_arguments_stay() -> None:
    for owner, names in MEMBERS.items():
        fields = {name for one in owner.__mro__ for name in getattr(one, "__annotations__", ())}
        assert set(names.split()) - set(dir(owner)) - fields == set(), owner.__name__
    for function, names in ARGUMENTS.items():
        assert set(names.split()) - set(inspect.signature(function).parameters) == set(), function.__qualname__


def test_an_option_has_one_name_in_python_over_http_and_in_the_shell(described: Any) -> None:
    for call in CALLS:
        assert missing_from_python(call) == set(), call.python.__qualname__
        assert asked(call, "h") - options_of_route(described, *call.route) == set(), call.route
        if call.command:
            wanted = {"-k" if name == "k" else "--" + name.replace("_", "-") for name in asked(call, "s") - {"item"}}
            assert wanted - options_of_command(call.command) == set(), call.command


def test_routes_stay(described: Any) -> None:
    words = ROUTES.split()
    there = {(method, path) for path, item in described["paths"].items() for method in item}
    assert set(zip(words[::2], words[1::2], strict=True)) - there == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_their_options_stay(command: str) -> None:
    assert set(COMMANDS[command].split()) - options_of_command(command) == set()


def test_every_command_is_in_the_table() -> None:
    assert set(commands_of(typer.main.get_command(app))) == set(COMMANDS)


def test_a_name_that_is_gone_is_seen() -> None:
    gone = Call(Model.recommend, ("post", "/v1/recommend"), None, "k colour size:h")
    assert missing_from_python(gone) == {"colour"}


def test_a_setting_of_training_stays() -> None:
    names = """
        geometry model loss score optimiser dimension epochs learning_rate schedule negative_count scale curvature
        regularisation memory masses initialisation initial_width targets history folds recency validation patience
        threads seed
    """
    assert set(names.split()) - set(TrainingConfig.__dataclass_fields__) == set()
