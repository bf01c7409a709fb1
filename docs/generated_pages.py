"""Writes settings.md from the dataclasses and commands.md from the command line: `python docs/generated_pages.py`. A
test checks that both are up to date."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_origin

import typer.main

from lorentzrec.base.field_checks import field_hints, field_texts, requirement
from lorentzrec.cli.application import app
from lorentzrec.ingest.prepare import PrepareConfig
from lorentzrec.ingest.sources import Source
from lorentzrec.model.config import TrainingConfig
from lorentzrec.serving.settings import ServiceSettings

ADVICE = "Change it "
"""Begins the paragraph of a field's text that says when to change it."""


@dataclass(frozen=True)
class Section:
    owner: type
    title: str
    text: str
    command: str | None = None
    """The command whose options the fields are."""
    none: str = ""
    """What a default of `None` means, where the text of a field does not say so."""


SECTIONS = [
    Section(
        TrainingConfig,
        "Training",
        "`TrainingConfig(...)` in Python, `--set NAME=VALUE` or a TOML file (`--config`) in the shell. `None` means "
        "that the value is chosen from the data when training starts; `model.config` has what was chosen, and "
        "[quality](lab/quality.md#the-defaults) the rules. In `--set`, `none` stands for `None`; `memory=none` is a "
        "value of its own, points alone. A name that does not exist is an error that suggests the most similar one.",
        none=" ([chosen when training starts](lab/quality.md#the-defaults))",
    ),
    Section(
        Source,
        "Event files",
        "Keyword arguments of `Interactions.from_file`, and options of `lorentzrec prepare`: what the files look like.",
        "prepare",
    ),
    Section(
        PrepareConfig,
        "Preparation",
        "Options of `lorentzrec prepare`, and fields of `lorentzrec.ingest.prepare.PrepareConfig`: which events are "
        "kept, and how they are split. Those that select events are keyword arguments of `Interactions.from_file`, "
        "too. [Splits](data.md#splits) has the names for `split`.",
        "prepare",
    ),
    Section(
        ServiceSettings,
        "Service",
        "Options of `lorentzrec serve`, and fields of `lorentzrec.serving.settings.ServiceSettings`. Those "
        "without an option are set in Python, with `lorentzrec.serving.http.server.run(ServiceSettings(...))`.",
        "serve",
    ),
]


def command_options(command: str) -> dict[str, str]:
    """Parameter -> its option, or its name in capitals if it is an argument."""
    return {one.name: one.opts[0] if is_option(one) else one.name.upper() for one in commands()[command].params}


def commands() -> dict[str, Any]:
    """The commands of lorentzrec by name, as Typer has them; those of a group as "GROUP NAME"."""
    return {name: command for found in commands_by_panel().values() for name, command in found.items()}


def commands_by_panel() -> dict[str, dict[str, Any]]:
    """The same by panel of the help page. Typer has groups at the end, whatever their panel."""
    found: dict[str, dict[str, Any]] = {}
    top: Any = typer.main.get_command(app)
    for name, command in top.commands.items():
        members = getattr(command, "commands", None)
        named = {name: command} if members is None else {f"{name} {inner}": one for inner, one in members.items()}
        found.setdefault(command.rich_help_panel, {}).update(named)
    return found


def is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def default_of(field: Field[Any]) -> str:
    if field.default is not MISSING:
        return f"`{field.default!r}`"
    if field.default_factory is not MISSING:
        made = field.default_factory()
        return f"`{made!r}`" if isinstance(made, Collection) else f"`{type(made).__name__}()`"
    return "required"


def values_of(hint: Any) -> str:
    """Types that `requirement` has no words for are those of files, lists and mappings."""
    if words := requirement(hint):
        return words
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)]
    kind = hint if get_origin(hint) in (tuple, Mapping) else kinds[0]
    names = {tuple: "a list of texts", Mapping: "name and value pairs", Path: "a path"}
    return names.get(get_origin(kind) or kind, f"a `{kind.__name__}`")


def section_lines(section: Section) -> list[str]:
    """An overview, then a heading per field, so that it can be linked to."""
    hints, texts = field_hints(section.owner), field_texts(section.owner)
    options = command_options(section.command) if section.command else {}
    lines = [f"## {section.title}", "", section.text, ""]
    for field in fields(section.owner):
        meaning = [one for one in texts[field.name] if not one.startswith(ADVICE)]
        advice = [one for one in texts[field.name] if one.startswith(ADVICE)]
        default = default_of(field)
        if default == "`None`" and "None" not in " ".join(meaning):
            default += section.none
        facts = [f"default {default}", values_of(hints[field.name])]
        facts += [f"`{options[field.name]}`"] if field.name in options else []
        lines += [f"### {field.name}", "", "; ".join(facts), "", " ".join(meaning), ""]
        lines += [f"*{one}*" for one in advice]
        lines += [""] if advice else []
    return lines


def settings_page() -> str:
    text = "Every setting with its default, the values it takes, what it does, and when to change it."
    lines = ["# Settings", "", text, ""]
    for section in SECTIONS:
        lines += section_lines(section)
    return re.sub(r"`docs/([\w/-]+)\.md`", r"[\1](\1.md)", "\n".join(lines))


def command_lines(name: str, command: Any) -> list[str]:
    """What `lorentzrec NAME --help` prints."""
    examples = re.findall(r"\[cyan\](.*?)\[/\]", command.epilog or "")
    lines = [f"### {name}", "", _plain(command.help), "", "```text", *examples, "```", ""]
    lines += ["| argument or option | default | |", "|---|---|---|"]
    for one in command.params:
        shown = "`, `".join([*one.opts, *one.secondary_opts]) if is_option(one) else one.metavar
        value = f" {one.metavar}".replace("|", "\\|") if is_option(one) and one.metavar else ""
        default = "required" if one.required else "" if one.default in (None, False, ()) else f"`{one.default}`"
        lines.append(f"| `{shown}{value}` | {default} | {_plain(one.help or '')} |")
    return [*lines, ""]


def _plain(help: str) -> str:
    """Help without the escapes of Rich, as Markdown; what looks like an option or a file name is code."""
    text = help.replace(r"\[", "[").replace("<", "&lt;").replace("|", "\\|").replace("$", "\\$")
    option_or_address = r"(?<![\w^-])(--[a-z][\w-]*|-[a-z]\b|\w+://\S*?(?=[\s,;.]*(?:\s|$)))"
    return re.sub(rf"`[^`]*`|{option_or_address}", lambda found: f"`{found[1]}`" if found[1] else found[0], text)


def commands_page() -> str:
    text = (
        "Each command with its options, as `lorentzrec COMMAND --help` prints them. Results go to standard output, "
        "progress and notes to standard error; most commands have `--json`. "
        "[Exit codes](conventions.md#errors-and-exit-codes)."
    )
    lines = ["# Command line", "", text, ""]
    for panel, found in commands_by_panel().items():
        lines += [f"## {panel}", ""]
        for name, command in found.items():
            lines += command_lines(name, command)
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {"settings.md": settings_page, "commands.md": commands_page}


if __name__ == "__main__":
    for name, page in PAGES.items():
        Path(__file__).with_name(name).write_text(page(), encoding="utf-8")
