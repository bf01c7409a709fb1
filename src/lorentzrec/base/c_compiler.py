"""C code as a shared library: compiled into the wheel, and in a checkout once per machine and content of the source.

It uses nothing but Python itself, since the wheel is built in an environment without any other package.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from lorentzrec.errors import LorentzrecError

OPTIONS = ("-O3", "-std=c11", "-fPIC", "-shared", "-fno-math-errno", "-ffp-contract=off", "-fvisibility=default")
"""Without contraction into one rounding, so that all processors compute the same numbers."""


def packaged_path(source: Path) -> Path:
    """Where a wheel has the library of a source file. With the name of the source alone, Python would import it instead
    of a module of that name."""
    return source.with_name(f"lib{source.stem}{'.dll' if sys.platform == 'win32' else '.so'}")


def library_path(source: Path) -> Path:
    """The library of a source file: next to it in an installed wheel, otherwise in the user's cache.

    What is in the cache runs as this user, so a folder or a file that somebody else can write is refused.
    """
    packaged = packaged_path(source)
    if packaged.is_file():
        return packaged
    # Machines of several kinds may share a home.
    made_of = " ".join((*OPTIONS, sysconfig.get_platform())).encode() + source.read_bytes()
    cached = _cache_folder() / f"{source.stem}-{hashlib.sha256(made_of).hexdigest()[:16]}{packaged.suffix}"
    try:
        cached.parent.parent.mkdir(parents=True, exist_ok=True)
        cached.parent.mkdir(mode=0o755, exist_ok=True)
        _check_owner(cached.parent)
        if not cached.is_file():
            compile_library(source, cached)
        _check_owner(cached)
    except OSError as error:
        raise LorentzrecError(
            f"the library {cached.name} cannot be written to {cached.parent} ({error}): "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return cached


def load_library(path: Path) -> ctypes.CDLL:
    """Load a library; an error in one line if it is broken, or made for another machine."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise LorentzrecError(
            f"{path} cannot be loaded ({error}): delete it, or set XDG_CACHE_HOME to a folder whose files can be run"
        ) from error


def _cache_folder() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lorentzrec" / "compiled"
    except RuntimeError as error:  # HOME is not set, and the system does not know the user either
        raise LorentzrecError(
            f"there is no home folder for the compiled ranking ({error}): "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error


def _check_owner(path: Path) -> None:
    """An error if another user than root could have written a file or folder."""
    if sys.platform == "win32":
        return
    state = path.stat()
    if state.st_uid not in (0, os.geteuid()):
        reason = f"{path} belongs to another user"
    elif state.st_mode & 0o022:
        reason = f"other users can write {path}"
    else:
        return
    raise LorentzrecError(f"{reason}: delete it, or set XDG_CACHE_HOME to a folder of your own")


def compile_library(source: Path, target: Path) -> None:
    """Compile a source file with the system's compiler, or the one that the variable CC names."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))), None)
    if compiler is None:
        raise LorentzrecError(
            f"{source.name} has to be compiled, and there is no C compiler: "
            "install gcc or clang, or a wheel of lorentzrec"
        )
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".compiling-") as folder:
        made = Path(folder) / target.name
        ended = subprocess.run(
            [compiler, *OPTIONS, "-o", str(made), str(source), "-lm"], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            reason = next((line for line in ended.stderr.splitlines() if "error" in line), ended.stderr.strip()[-200:])
            raise LorentzrecError(f"{source.name} cannot be compiled by {compiler} ({reason}): install gcc or clang")
        made.chmod(0o755)  # whatever the umask
        made.replace(target)  # in one step: another process may be doing the same
