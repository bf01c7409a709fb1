"""The options of a command, generated from what describes them: its signature, its docstring, and dataclasses.

A command is a plain function. Parameters before `*` are arguments and those after it are options. A line
`name: text` or `name METAVAR: text` at the end of its docstring is the help of a parameter; `SHARED` has the texts of
parameters that several commands have. A line `$ lorentzrec ...` is an example. `**fields` stands for fields of
dataclasses, which `field_options` names: type, default and help come from the dataclass.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, Field, fields
from importlib import import_module
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from lorentzrec.base.field_checks import alternatives, field_hints, field_texts
from lorentzrec.cli.output import format_flag
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest.config import PrepareConfig
from lorentzrec.ingest.sources import Source
from lorentzrec.serving.stores.address import VARIABLE, read_address

Command = TypeVar("Command", bound=Callable[..., None])

Natural: TypeAlias = Annotated[int, typer.Option(min=0)]
Positive: TypeAlias = Annotated[int, typer.Option(min=1)]
StoreArgument: TypeAlias = Annotated[str, typer.Argument(parser=read_address, envvar=VARIABLE, show_envvar=False)]
"""The address of a store, so that a password in it need not be on the command line."""
StoreOption: TypeAlias = Annotated[str, typer.Option(parser=read_address, envvar=VARIABLE, show_envvar=False)]
"""The same as an option."""
OptionalStore: TypeAlias = Annotated[str | None, typer.Option(parser=read_address, envvar=VARIABLE, show_envvar=False)]
"""The same for a command that works without a store."""
STORE_HELP = f"file:DIR, postgresql://... or cosmos://...; @FILE: the address in a file. Default: {VARIABLE}."

SHARED = {
    "json": (None, "Print the result as JSON."),
    "model": (None, "The folder of a trained model."),
    "k": (None, "Number of items."),
    "config": (None, "TOML file of hyper-parameters: name = value."),
    "settings": ("NAME=VALUE", "A hyper-parameter. Repeatable."),
    "titles": (None, "Item titles: a dataset, or a file with columns item and title."),
    "seed": (None, "Random seed."),
    "force": (None, "Overwrite what is there."),
    "store": ("STORE", STORE_HELP),
    "to": ("STORE", STORE_HELP),
}
"""Parameter -> metavar and help, unless the command has its own."""


COMPLETIONS: dict[str, tuple[str, Callable[[Any], Iterable[str]]]] = {
    "settings": ("lorentzrec.model.config", lambda module: [f"{name}=" for name in module.TrainingConfig().to_dict()]),
    "split": ("lorentzrec.data.splitting", lambda module: [*module.RULES, "given"]),
    "reader": ("lorentzrec.ingest.sources", lambda module: module.READERS),
    "systems": ("lorentzrec.studies.comparison", lambda module: module.SYSTEMS),
}
"""Parameter -> the module that has its values, and how to get them; for completion in shells."""


def _completer(name: str) -> Callable[[str], list[str]] | None:
    if name not in COMPLETIONS:
        return None

    def complete(incomplete: str) -> list[str]:
        module, values = COMPLETIONS[name]
        return [value for value in values(import_module(module)) if value.startswith(incomplete)]

    return complete


def field_options(
    owner: type, panel: str | None, names: Sequence[Any], *, override: bool = False
) -> Callable[[Command], Command]:
    """A decorator that adds options for fields of the dataclass `owner` to a command.

    names: names of fields; `...` between two names stands for the fields between them.
    override: an option that is not given is None and not the field's default, because it overrides other defaults.
    """

    def decorate(command: Command) -> Command:
        known = {field.name: field for field in fields(owner)}
        order, chosen = list(known), []
        for index, name in enumerate(names):
            if name is ...:
                chosen += order[order.index(names[index - 1]) + 1 : order.index(names[index + 1])]
            else:
                chosen.append(name)
        made = [_field_parameter(owner, known[name], panel, override) for name in chosen]
        command.__dict__["field_options"] = [*made, *command.__dict__.get("field_options", [])]
        return command

    return decorate


def event_file_options(command: Command) -> Command:
    """A decorator that adds the options for reading event files, for commands that take a dataset or files."""
    columns = ("user_column", "item_column", "time_column", "order_column", "quantity_column", "weight_column")
    command = field_options(Source, "Event files", columns, override=True)(command)
    return field_options(PrepareConfig, "Event files", ["reader"])(command)


def check_engine(engine: str, known: Sequence[str], **options_of: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` for an unknown engine, and for options of another one.

    options_of: engine -> the options that no other engine has; None if they were not given.
    """
    if engine not in known:
        raise ConfigError(f"there is no engine {engine!r}: use {', '.join(known[:-1])} or {known[-1]}")
    for owner, options in options_of.items():
        for name, value in options.items():
            if engine != owner and value is not None:
                raise ConfigError(f"{format_flag(name)} is for --engine {owner}: give both, or none")


def refuse_options(context: typer.Context, names: Iterable[str], why: str) -> None:
    """Raise an `InputError` for the first of these options that was given: `why` begins the message."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            raise InputError(f"{why} takes no {format_flag(name)}: leave it out")


def pop_fields(options: dict[str, Any], owner: type) -> dict[str, Any]:
    """Remove the fields of the dataclass `owner` from `options`, and return those that were given."""
    taken = {field.name: options.pop(field.name) for field in fields(owner) if field.name in options}
    given = {name: value for name, value in taken.items() if value is not None}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def complete_signature(command: Callable[..., None]) -> tuple[str, list[str]]:
    """Give a command the signature that Typer needs; returns the text of its help, and the examples."""
    signature = inspect.signature(command, eval_str=True)
    text, examples, described = _read_docstring(command.__doc__ or "", signature.parameters.keys())
    made = [
        _typer_parameter(parameter, *described.get(name, SHARED.get(name, (None, None))))
        for name, parameter in signature.parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    made += command.__dict__.get("field_options", [])
    command.__signature__ = signature.replace(parameters=made)  # type: ignore[attr-defined]
    return text, examples


def _field_parameter(owner: type, field: Field[Any], panel: str | None, override: bool) -> inspect.Parameter:
    hints, kinds = field_hints(owner), alternatives(field_hints(owner)[field.name])
    choices = [choice for choice in kinds if isinstance(choice, str)]
    kind: Any = str if choices else list[str] if get_origin(kinds[0]) is tuple else kinds[0]
    given = None if field.default in (MISSING, ()) else field.default
    default = None if override and kind is not bool else given
    shown = str(given) if override and given not in (None, False) else True
    info = typer.Option(rich_help_panel=panel, show_default=shown)
    parameter = inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind if default is not None else kind | None, info],
    )
    text = field_texts(owner)[field.name][0].replace("[", r"\[")
    # A field in backticks is an option here; what else is in backticks needs none.
    text = re.sub(r"`(\w+)`", lambda found: format_flag(found[1]) if found[1] in hints else found[1], text).replace(
        "`", ""
    )
    return _typer_parameter(parameter, "|".join(choices) or None, text)


def _typer_parameter(parameter: inspect.Parameter, metavar: str | None, help: str | None) -> inspect.Parameter:
    """With the argument or option of Typer that the parameter is."""
    annotation, info = parameter.annotation, None
    if get_origin(annotation) is Annotated:
        annotation, *notes = get_args(annotation)
        info = next((copy(note) for note in notes if isinstance(note, ParameterInfo)), None)
    if annotation is typer.Context:
        return parameter
    if info is None:
        info = typer.Option() if parameter.kind is parameter.KEYWORD_ONLY else typer.Argument()
    info.help, info.metavar = help, metavar or info.metavar
    if annotation in (bool, bool | None):
        info.metavar = ""  # a flag takes no value
    info.autocompletion = _completer(parameter.name)
    if isinstance(info, ArgumentInfo):
        info.metavar = info.metavar or parameter.name.upper()
    elif isinstance(info, OptionInfo) and parameter.default is not True and annotation != bool | None:
        # Typer adds a --no-... to what is on, or not decided
        info.default = format_flag(parameter.name)
    return parameter.replace(annotation=Annotated[annotation, info])


def _read_docstring(doc: str, names: Collection[str]) -> tuple[str, list[str], dict[str, tuple[str | None, str]]]:
    """The text with one line per paragraph for the terminal to wrap, the examples, and the metavar and help of
    parameters."""
    lines = re.sub(r"\n +", " ", inspect.cleandoc(doc)).splitlines()  # continued lines
    examples = [" ".join(line.split()[2:]) for line in lines if line.startswith("$ lorentzrec ")]
    parsed = {line: re.fullmatch(r"(\w+)(?: (\S+))?: (.*)", line) for line in lines}
    described = {found[1]: (found[2], found[3]) for found in parsed.values() if found and found[1] in names}
    text = [line for line in lines if not line.startswith("$ ") and not ((found := parsed[line]) and found[1] in names)]
    paragraphs = "\n".join(text).strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs), examples, described
