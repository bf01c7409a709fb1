"""Data frames of other libraries to interactions: the recogniser and the pipeline of files, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from lorentzrec.base.field_checks import check_names
from lorentzrec.base.library_faults import polars_faults
from lorentzrec.data.event_order import count_ties
from lorentzrec.data.frames import open_frame, polars_series
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary, nullable_ids
from lorentzrec.errors import ConfigError, InputError, replace_options
from lorentzrec.ingest.config import PrepareConfig
from lorentzrec.ingest.dataset import cast_columns
from lorentzrec.ingest.engine import Frame, PolarsEngine
from lorentzrec.ingest.file_kinds import typed_columns
from lorentzrec.ingest.layouts import FileLayout, layout_error
from lorentzrec.ingest.pipeline import Pipeline
from lorentzrec.ingest.prepare import FILTERS, check_roles, has_given_ties, needed_roles, ties_notes
from lorentzrec.ingest.reading import FAULT_COLUMNS, FRAME, FRAME_ADDRESS, convert_fields
from lorentzrec.ingest.recognition import Column, Recognition, recognise
from lorentzrec.ingest.sources import Source

if TYPE_CHECKING:
    import polars as pl

_SAMPLE = 100
_OPTIONS = ("decimal", "thousands", "time_unit", "time_format", "ordered", "ties", "tie_seed")
"""Fields of `Source` that a frame can need."""
_COLUMNS = ("user", "item", "time", "weight", "order", "kind")
"""Arguments of `from_frame` with names of columns."""
_FURTHER_COLUMNS = ("rating", "quantity")
"""Options of `from_frame` with names of columns."""
_ARGUMENTS = {f"{role}_column": role for role in (*_COLUMNS, *_FURTHER_COLUMNS)} | {"event_column": "kind"}
"""The arguments of `from_frame` for options of files."""


def read_frame(frame: Any, names: Mapping[str, str | int], options: Mapping[str, Any]) -> Interactions:
    """The events of a data frame; see `Interactions.from_frame`. `names`: user, item, ... -> the given column."""
    check_names([*_COLUMNS, *_OPTIONS, *_FURTHER_COLUMNS, *FILTERS], options, "option of from_frame")
    try:
        return _read(frame, {role: str(name) for role, name in names.items()}, dict(options))
    except InputError as error:
        raise type(error)(_in_python(str(error))) from None


def _read(frame: Any, names: dict[str, str], options: dict[str, Any]) -> Interactions:
    table = _open(frame)
    names |= {role: str(options.pop(role)) for role in _FURTHER_COLUMNS if role in options}
    given: dict[str, Any] = {f"{'event' if role == 'kind' else role}_column": name for role, name in names.items()}
    given |= {name: options.pop(name) for name in _OPTIONS if name in options}
    if given.get("ties", "shuffle") not in ("shuffle", "given"):
        raise ConfigError(f"`ties` is {given['ties']!r}: give one of shuffle, given")
    if given.get("ties") == "given":
        given["ties"] = "file"
    source = Source(**given)
    config = PrepareConfig(events=(FRAME_ADDRESS,), source=source, **options)
    recognised = _recognise(table, config)
    if recognised.faults:
        raise layout_error(FRAME_ADDRESS, recognised.faults)
    roles = recognised.roles
    raw, kinds, mixed = _take_columns(table, roles)
    layout = FileLayout(FRAME_ADDRESS, source, FRAME, "", tuple(raw.columns), roles, kinds, (*recognised.notes, *mixed))
    check_roles(config, layout)
    with polars_faults("the frame cannot be read", "check its columns"):
        engine = FrameEngine(raw)
        pipeline = Pipeline(config, engine, [layout], lambda stage: None)
        histories = pipeline.run()
        events = cast_columns(engine.collect(histories.events).sort(histories.order))
    said = pipeline.notes if pipeline.rejected is None else [*pipeline.notes, pipeline.faults]
    said = [*said, *ties_notes(count_ties(events), config, events.columns, order_of="rows")]
    users, items = Vocabulary(histories.users["id"], name="user"), Vocabulary(histories.items["id"], name="item")
    shown = tuple(map(_in_python, said))
    return Interactions.from_sorted(users, items, events, shown, ties_given=has_given_ties(source))


def _in_python(text: str) -> str:
    """A message with the arguments of `from_frame` instead of the options of files."""

    def show(name: str, value: str | int | None) -> str:
        if name == "ties" and value == "file":
            value = "given"
        name = _ARGUMENTS.get(name, name)
        return f"`{name}`" if value is None else f"`{name}={value!r}`"

    return replace_options(text, show)


def _open(frame: Any) -> nw.DataFrame[Any]:
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        raise InputError("from_frame takes a data frame, and this is a lazy one: call .collect() first")
    if nw.dependencies.is_pandas_dataframe(frame):
        frame = _index_to_columns(frame.set_axis(frame.columns.map(str), axis="columns"))
    names = list(map(str, getattr(frame, "column_names", getattr(frame, "columns", []))))  # pyarrow has both
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise InputError(f"the frame has the column {twice!r} more than once: rename or drop one of them")
    return open_frame(
        frame,
        f"from_frame takes a pandas, Polars or pyarrow frame, not {type(frame).__name__}: "
        "use from_pairs(users, items, times)",
    )


def _index_to_columns(frame: Any) -> Any:
    """A pandas frame with the index as columns, if it has names or holds times: users or times are often there."""
    for name in frame.index.names:
        if name is not None and str(name) in frame.columns:
            level = frame.index.get_level_values(name)
            if not (level == frame[str(name)]).all():
                raise InputError(
                    f"the frame has {str(name)!r} as a column and in its index: rename or drop one of them"
                )
            frame = frame.droplevel(name) if frame.index.nlevels > 1 else frame.reset_index(drop=True)
    if type(frame.index).__name__ == "DatetimeIndex" or any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
        return frame.set_axis(frame.columns.map(str), axis="columns")
    return frame


def _recognise(table: nw.DataFrame[Any], config: PrepareConfig) -> Recognition:
    """The roles of the columns, by their names and first values."""
    first = table.head(_SAMPLE)
    columns: list[Column] = []
    for name in table.columns:
        try:
            values = _native(first, name)
            schema: dict[str, pl.DataType] = {str(name): values.dtype}
            found = typed_columns(schema)
            columns += [Column(one.name, one.kind, values if one.name == name else None) for one in found]
        except InputError:  # values of several types in a column that is probably of no use
            columns.append(Column(str(name), "text"))
    return recognise(columns, config.source, needed_roles(config))


def _native(table: nw.DataFrame[Any], name: str) -> pl.Series:
    column = table[name]
    native = column.to_polars() if table.implementation.is_pyarrow() else column.to_native()
    return polars_series(native, f"the values of {name!r}", "give values of one type")


def _take_columns(table: nw.DataFrame[Any], roles: Mapping[str, str]) -> tuple[pl.DataFrame, dict[str, str], list[str]]:
    """The columns of the roles, the kind of each role's values, and notes."""
    import polars as pl

    taken: dict[str, pl.Series] = {}
    notes = []
    for role, name in roles.items():
        top = name if name in table.columns else next(one for one in table.columns if name.startswith(f"{one}."))
        native = table[top].to_polars() if table.implementation.is_pyarrow() else table[top].to_native()
        if role in ("user", "item", "order") and name == top:
            taken[top], mixed = nullable_ids(native, role)
            if mixed:
                notes.append(f"the {role}s in {name!r} are numbers and text, and are all read as text")
        else:
            taken[top] = polars_series(native, f"the values of {name!r}", "give values of one type")
    raw = pl.DataFrame(taken)
    known = {one.name: one.kind for one in typed_columns(raw.schema)}
    return raw, {role: known[name] for role, name in roles.items()}, notes


class FrameEngine(PolarsEngine):
    """Polars on a frame in memory: nothing is written to disk."""

    def __init__(self, frame: pl.DataFrame) -> None:
        super().__init__(Path())
        self._frame = frame

    def read(self, layouts: Iterable[FileLayout], id_types: dict[str, str]) -> Frame:
        import polars as pl

        (layout,) = layouts
        events = convert_fields(self._frame.lazy().with_row_index("__line", offset=1), layout)
        if name := layout.position_column:
            events = events.with_row_index(name).with_columns(pl.col(name).cast(pl.Int64))
        casts = [pl.col(role).cast(getattr(pl, kind)) for role, kind in id_types.items()]
        names = [name for name in [*layout.columns, *FAULT_COLUMNS] if name not in id_types]
        typed = events.select(*casts, *names, part=pl.lit(0, pl.Int32))
        return self._store([nw.from_native(typed)])

    def _store(self, frames: Iterable[Frame]) -> Frame:
        import polars as pl

        natives: list[pl.LazyFrame] = [frame.to_native() for frame in frames]
        return nw.from_native(pl.concat([native.collect() for native in natives]).lazy())
