"""`lorentzrec recommend` and `lorentzrec similar`: answers to one question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.cli.options import Count, Json, ModelFolder, TitlesFrom
from lorentzrec.cli.output import note, print_json, show, table
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.cli.titles import Titles
    from lorentzrec.data.vocabulary import Id, Vocabulary
    from lorentzrec.model.ranking import Recommendations

_IDS = "ids separated by commas, or @FILE with one a line; may be given again."
Ids = list[str] | None


def recommend(
    model: ModelFolder,
    history: Annotated[Ids, typer.Option(help=f"Items touched, oldest first: {_IDS}")] = None,
    user: Annotated[str | None, typer.Option(help="A customer of the training data.")] = None,
    k: Count = 10,
    exclude: Annotated[Ids, typer.Option(help=f"Items never to recommend: {_IDS}")] = None,
    items: Annotated[Ids, typer.Option(help=f"Recommend nothing but these: {_IDS}")] = None,
    titles: TitlesFrom = None,
    json: Json = False,
) -> None:
    """The best items for a history, or for a customer known from training.

    Anybody can be answered: a history needs no customer, and nothing has to be trained again. What was touched before
    is not recommended.
    """
    from lorentzrec.model.artifact import load

    trained = load(model)
    if (history is None) == (user is None):
        raise InputError("the question is either --history or --user: give one of them")
    answer = trained.recommend(
        None if history is None else ids_of(history, trained.items),
        user if user is None or trained.users is None else trained.users.parse(user),
        k=k,
        exclude=ids_of(exclude or [], trained.items),
        items=None if items is None else ids_of(items, trained.items),
    )
    _print(answer, model, titles, json)


def similar(
    model: ModelFolder,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="The id of an item.")],
    k: Count = 10,
    titles: TitlesFrom = None,
    json: Json = False,
) -> None:
    """The items nearest to an item, scored by minus the distance."""
    from lorentzrec.model.artifact import load

    trained = load(model)
    _print(trained.similar_items(trained.items.parse(item), k), model, titles, json)


def ids_of(texts: list[str], vocabulary: Vocabulary) -> list[Id]:
    """Ids as typed: with commas between them, unless the whole is an id; @FILE holds one a line."""
    found: list[str] = []
    for text in texts:
        if text.startswith("@"):
            found += lines_of_file(Path(text[1:]))
        elif vocabulary.holds_strings and text in vocabulary:
            found.append(text)
        else:
            found += [part.strip() for part in text.split(",") if part.strip()]
    return [vocabulary.parse(text) for text in found]


def lines_of_file(path: Path) -> list[str]:
    """Ids of a file, one a line."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a list of ids ({error}): give a text file, one id a line") from None


def answer_table(answer: Recommendations, titles: Titles, title: str | None = None) -> Table:
    """The items in order, with titles where there are any."""
    columns = {"": "right dim", "item": "left bold"} | ({"title": "left"} if titles else {}) | {"score": "right"}
    rows = [
        (place, item, *([titles[item]] if titles else []), f"{score:.4f}")
        for place, (item, score) in enumerate(answer, start=1)
    ]
    return table(columns, rows, title=title)


def _print(answer: Recommendations, model: Path, titles: str | None, json: bool) -> None:
    from lorentzrec.cli.titles import Titles

    names = Titles(titles)
    if json:
        items: list[dict[str, Any]] = [{"id": item, "score": score} for item, score in answer]
        if names:
            items = [one | {"title": names[one["id"]]} for one in items]
        print_json({"items": items, "model": str(model), "fallback": answer.fallback})
        return
    show(answer_table(answer, names))
    note([answer.fallback] if answer.fallback else [])
