"""Files and folders that appear whole or not at all: written beside the target under another name, then renamed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lorentzrec.errors import InputError, LorentzrecError

MARKER = "manifest.json"
"""What every folder written by this package holds; a folder with other content and without it is never replaced."""


@contextmanager
def atomic_directory(target: str | Path, *, replace: bool = True) -> Iterator[Path]:
    """A new folder to fill; at the end of the block it becomes `target`, and on any failure it vanishes.

    An older folder at `target` stays untouched until the new one is complete and on disk. It is then renamed to
    `.NAME.old`, the new one takes its name, and it is removed. Should the machine stop between the two renames, the
    next write to `target` begins by putting the old folder back. Only an empty folder or one that holds `manifest.json`
    is replaced, so that a mistyped path cannot cost anybody their home directory.
    """
    place = Path(target).resolve()
    partial, old = _partial_name(place), place.with_name(f".{place.name}.old")
    with _writing(target, partial):
        if old.exists() and not place.exists():
            old.rename(place)
        _refuse_what_stands_there(Path(target), place, replace)
        partial.mkdir()
        try:
            yield partial
            _sync_tree(partial)
            try:
                if place.exists():
                    shutil.rmtree(old, ignore_errors=True)
                    place.rename(old)
                partial.rename(place)
            except BaseException:
                if old.exists() and not place.exists():
                    old.rename(place)
                raise
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        _sync(place.parent)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def atomic_file(target: str | Path) -> Iterator[Path]:
    """The path of a new file to write, with the suffix of `target`; it becomes `target`, or vanishes on any failure."""
    place = Path(target).resolve()
    partial = _partial_name(place)
    with _writing(target, partial):
        if place.is_dir():
            raise InputError(f"{target} is a folder: give the name of a file")
        try:
            # Claims the name, and meets a missing or closed parent folder before any work is done.
            partial.touch(exist_ok=False)
            yield partial
            _sync(partial)
            partial.replace(place)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        _sync(place.parent)


def checksum(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _partial_name(place: Path) -> Path:
    return place.with_name(f".{place.stem}.partial-{secrets.token_hex(4)}{place.suffix}")


def _refuse_what_stands_there(target: Path, place: Path, replace: bool) -> None:
    if not place.exists():
        return
    if not place.is_dir():
        raise InputError(f"{target} is a file: give the name of a folder")
    if any(place.iterdir()):
        if not replace:
            raise InputError(f"{target} already exists: remove it or choose another name")
        if not (place / MARKER).is_file():
            raise InputError(
                f"{target} holds files but no {MARKER}, so it was not written by lorentzrec: choose another name"
            )


@contextmanager
def _writing(target: str | Path, partial: Path) -> Iterator[None]:
    """Say what went wrong with the disk in one line. Errors about other files pass unchanged."""
    try:
        yield
    except LorentzrecError:
        raise
    except Exception as error:
        named, code = getattr(error, "filename", None), _system_code(error)
        elsewhere = isinstance(named, str | os.PathLike) and not Path(named).is_relative_to(partial.parent)
        if code is None or elsewhere:
            raise
        raise InputError(f"cannot write {target}: {_reason_and_action(code, error, Path(target))}") from error


def _system_code(error: Exception) -> int | None:
    """The errno of a failure; Polars and safetensors wrap it in errors of their own and keep it only in the text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    wrapped = re.search(r"\(os error (\d+)\)", str(error))
    return int(wrapped[1]) if wrapped else None


def _reason_and_action(code: int, error: Exception, target: Path) -> str:
    parent = target.absolute().parent
    match code:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return f"{os.strerror(code)}; make room or choose another disk"
        case errno.ENOENT | errno.ENOTDIR if not parent.is_dir():
            return f"{parent} is not a folder; create it first"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"{os.strerror(code)} in {parent}; choose a folder you may write to"
    return f"{' '.join(str(error).split())}; check the path and the disk"


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Force a file or a folder's list of names to disk, so that a rename cannot outlive the content it names."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no handle for this, and orders renames itself.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
