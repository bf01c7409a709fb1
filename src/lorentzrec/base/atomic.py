"""Files and folders that appear complete or not at all: written under another name in the same folder, then renamed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

from lorentzrec.errors import ArtifactError, InputError, LorentzrecError, WriteError

MARKER = "manifest.json"
"""A file in every folder that this package writes; a folder with other files and without this one is never replaced."""

_ATTEMPTS = 100
"""How often a folder is read or put in place again because another process replaced it meanwhile."""

_WRITING = ".writing-"
"""In the names of folders for what is not complete yet."""
_owned: set[Path] = set()
"""Folders that this process has locked for itself."""

Content = TypeVar("Content")


@contextmanager
def atomic_directory(target: str | Path, *, marker: str = MARKER) -> Iterator[Path]:
    """A new folder to fill; at the end of the block it becomes `target`, and on any failure it is removed.

    An older folder at `target` does not change until the new one is complete and on disk. The two are then exchanged in
    one step where the system can do that (Linux, on its local file systems). Elsewhere the old folder is renamed to
    `.NAME.old`, the new one takes its name, and the old one is removed; if the machine stops between the two renames,
    `read_directory` reads `.NAME.old`, and the next write to `target` puts it back. Only an empty folder or one that
    contains the file `marker` is replaced, so that a mistyped path cannot delete a home directory.
    """
    resolved = Path(target).resolve()
    old = _old_name(resolved)
    with _report_write_errors(target, resolved.parent):
        with _exclusive(resolved.parent):
            if old.exists() and not resolved.exists():
                old.rename(resolved)
            _refuse_to_replace(Path(target), resolved, marker)
        with _owned_folder(resolved.parent, f".{resolved.name}{_WRITING}") as partial:
            yield partial
            for path in (*partial.rglob("*"), partial):
                _sync(path)
            with _exclusive(resolved.parent):
                _refuse_to_replace(Path(target), resolved, marker)
                _put_in_place(partial, resolved, old)
                _sync(resolved.parent)
                shutil.rmtree(old, ignore_errors=True)


def remove_directory(target: str | Path) -> None:
    """Remove a folder of `atomic_directory`, if it exists, in one step: a killed process leaves all of it or nothing.

    What a killed process could not delete any more has a hidden name, and is deleted by the next write to `target`.
    """
    resolved = Path(target).resolve()
    if resolved.exists():
        with _owned_folder(resolved.parent, f".{resolved.name}{_WRITING}") as hidden, _exclusive(resolved.parent):
            resolved.rename(hidden / resolved.name)


class _Writable(Exception):  # noqa: N818 - not an error: it undoes a write that would succeed
    """The folder can be written."""


def refuse_unwritable(target: str | Path) -> None:
    """An `InputError` if `atomic_directory` could not write this folder, such as one that holds other files."""
    with suppress(_Writable), atomic_directory(target):
        raise _Writable


@contextmanager
def atomic_file(target: str | Path) -> Iterator[Path]:
    """The path of a new file to write, with the suffix of `target`; it becomes `target`, or is removed on failure."""
    resolved = Path(target).resolve()
    # in a folder of `atomic_directory`, which reports its own name: this one is temporary
    within_other = any(folder in _owned and _WRITING in folder.name for folder in resolved.parents)
    with nullcontext() if within_other else _report_write_errors(target, resolved.parent):
        if resolved.is_dir():
            raise InputError(f"{target} is a folder: give the name of a file")
        # In a separate folder: what a library writes next to its file is removed with it.
        with _owned_folder(resolved.parent, f".{resolved.name}{_WRITING}") as folder:
            partial = folder / resolved.name
            partial.touch(exist_ok=False)
            yield partial
            _sync(partial)
            partial.replace(resolved)
            _sync(resolved.parent)


def write_text(target: str | Path, text: str) -> None:
    """Write a file in UTF-8 that appears complete or not at all."""
    with atomic_file(target) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def scratch_directory(name: str, *, within: str | Path | None = None) -> Iterator[Path]:
    """A private folder for temporary files, removed at the end of the block.

    The next call with the same `name` removes folders of killed processes, but never those in use.
    """
    parent = Path(tempfile.gettempdir() if within is None else within)
    with _owned_folder(parent, f"lorentzrec-{name}.scratch-", mode=0o700) as folder:
        yield folder


@contextmanager
def locked_directory(folder: Path) -> Iterator[bool]:
    """Make a folder, unless it is there, and lock it while this process runs; yields False if another one has it.

    Where folders cannot be locked (see `_lock`), it counts as locked. Whoever has the lock may remove the folder.
    """
    while True:
        with _report_write_errors(folder, folder.parent):
            folder.mkdir(exist_ok=True)
        try:
            lock = _try_lock(folder, wait=False)
        except BlockingIOError:
            yield False
            return
        if folder.is_dir() and (lock is None or os.path.samestat(os.fstat(lock), folder.stat())):
            break
        if lock is not None:  # another process removed the folder before it was locked here
            os.close(lock)
    _owned.add(folder)
    try:
        yield True
    finally:
        _owned.discard(folder)
        if lock is not None:
            os.close(lock)


def read_directory(target: str | Path, read: Callable[[Path], Content]) -> Content:
    """The result of `read` for the folder at `target`, all of it from the same write of `atomic_directory`.

    A folder that is replaced while it is being read is read again.
    """
    for _ in range(_ATTEMPTS):
        folder = current_directory(target)
        before = _identity(folder)
        try:
            content = read(folder)
        except (LorentzrecError, OSError):
            with _exclusive(Path(target).resolve().parent):  # while a writer renames, the folder can seem to be missing
                unchanged = _identity(current_directory(target)) == before
            if unchanged:
                raise
        else:
            if _identity(current_directory(target)) == before:
                return content
    raise ArtifactError(f"{target} was replaced {_ATTEMPTS} times while it was read: try again when writing is done")


def current_directory(target: str | Path) -> Path:
    """`target`, or its former name if a write was killed between its two renames."""
    resolved = Path(target).resolve()
    old = _old_name(resolved)
    return old if not resolved.exists() and (old / MARKER).is_file() else Path(target)


def checksum(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _old_name(resolved: Path) -> Path:
    return resolved.with_name(f".{resolved.name}.old")


def _identity(folder: Path) -> tuple[int, ...] | None:
    """What differs between a folder and the one that replaces it; inode numbers alone are soon reused."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


@contextmanager
def _owned_folder(parent: Path, prefix: str, *, mode: int = 0o777) -> Iterator[Path]:
    """A new folder in `parent`, locked while this process runs, and removed at the end with all its content.

    Folders with the same prefix that no running process has locked are those of killed processes: they are removed
    first.
    """
    _remove_abandoned(parent, prefix)
    while True:
        folder = parent / f"{prefix}{secrets.token_hex(4)}"
        folder.mkdir(mode)
        lock = _lock(folder, wait=True)
        if folder.is_dir():
            break
        if lock is not None:  # another process took the folder for abandoned before it was locked
            os.close(lock)
    _owned.add(folder)
    try:
        yield folder
    finally:
        _owned.discard(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Let one writer at a time rename in `folder`: between two renames, others would take the old folder for one that a
    killed process left."""
    lock = None if folder in _owned else _lock(folder, wait=True)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    try:
        found = [Path(entry) for entry in os.scandir(parent) if entry.name.startswith(prefix)]
    except OSError:
        return  # the caller gets the same error when it writes
    for folder in found:
        lock = _lock(folder, wait=False)
        if lock is not None:
            if os.fstat(lock).st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """`_try_lock`, and None also if another process has the lock."""
    try:
        return _try_lock(folder, wait=wait)
    except BlockingIOError:
        return None


def _try_lock(folder: Path, *, wait: bool) -> int | None:
    """A descriptor that holds the lock of a folder until it is closed; None if the folder cannot be locked.

    A `BlockingIOError` if another process has the lock, unless `wait`. On Windows, and on file systems without such
    locks, nothing can be locked, so that nothing counts as abandoned.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _put_in_place(new: Path, resolved: Path, old: Path) -> None:
    """Rename `new` to `resolved`, replacing any folder with that name."""
    for attempt in range(_ATTEMPTS):
        try:
            if not resolved.exists():
                new.rename(resolved)
            elif not _exchange(new, resolved):
                shutil.rmtree(old, ignore_errors=True)
                resolved.rename(old)
                try:
                    new.rename(resolved)
                except BaseException:
                    if old.exists() and not resolved.exists():
                        old.rename(resolved)
                    raise
            return
        except OSError as error:
            # Another process has created or removed a folder there between two of these steps.
            raced = error.errno in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)
            if not raced or not new.exists() or attempt == _ATTEMPTS - 1:
                raise


def _exchange(new: Path, resolved: Path) -> bool:
    """Swap two folders in one step; false if the system or the file system cannot."""
    import ctypes

    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return bool(rename(here, os.fsencode(new), here, os.fsencode(resolved), exchange) == 0)


def _refuse_to_replace(target: Path, resolved: Path, marker: str) -> None:
    if not resolved.exists():
        return
    if not resolved.is_dir():
        raise InputError(f"{target} is a file: give the name of a folder")
    if any(resolved.iterdir()) and not (resolved / marker).is_file():
        raise InputError(
            f"{target} holds files but no {marker}, so it was not written by lorentzrec: choose another name"
        )


@contextmanager
def _report_write_errors(target: str | Path, parent: Path) -> Iterator[None]:
    """Report errors of the disk in one line. Errors about other files pass unchanged."""
    try:
        yield
    except LorentzrecError:
        raise
    except Exception as error:
        named, code = getattr(error, "filename", None), _system_code(error)
        elsewhere = isinstance(named, str | os.PathLike) and not Path(named).is_relative_to(parent)
        if code is None or elsewhere:
            raise
        reason = _reason_and_action(code, error, Path(target))
        raise WriteError(f"cannot write {target}: {reason}", target) from error


def _system_code(error: Exception) -> int | None:
    """The errno of a failure; errors of Polars and safetensors have it only in their text."""
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


def _sync(path: Path) -> None:
    """Write a file or a folder's list of names to disk, so that no rename is on disk before the content it names."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no handle for this, and orders renames itself.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
