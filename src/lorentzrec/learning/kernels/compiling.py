"""How the kernels are compiled, and where the result is cached."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.extending import intrinsic

from lorentzrec.base.interrupts import deferred_interrupts

COMPILING = "compiling kernels, once per machine: about 10 seconds"
WAITING = "waiting for another process that is compiling kernels"

# "nnan" and "ninf" stay out: with them the compiler may drop the checks for numbers that are not finite. Python's
# error model would put a branch at every division, and no loop with a branch vectorises.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"nsz", "arcp", "contract", "afn", "reassoc"},
    "error_model": "numpy",
    # no reference counting: each call with arrays would count them, atomically, which took a third of the time and made
    # threads wait for each other. The caller in Python holds the arrays. A kernel cannot allocate: numba refuses then.
    "_nrt": False,
}
_LOG = logging.getLogger(__name__)

inlined = numba.njit(inline="always", **_OPTIONS)
"""For functions of scalars that kernels call."""


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile at the first call, once per machine."""
    options = {**_OPTIONS, **options, "nopython": True, "boundscheck": None, "no_cfunc_wrapper": True}
    made = Kernel(function, {}, options)
    made.enable_caching()
    return made


counted_kernel = partial(kernel, _nrt=True)
"""A kernel with reference counting, for NumPy functions that need it: those that may allocate."""


def _fetch_add(context: Any, counter: Any, amount: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, arguments[1], "monotonic")

    return counter.dtype(counter, counter.dtype), generate


fetch_add: Any = intrinsic(_fetch_add)
"""In a kernel, add to counter[0] and return what it was, in one step: no two threads that add 1 get the same number."""


def _call_loss(context: Any, address: Any, scores: Any, derivatives: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where, *arrays, number = arguments
        kinds = signature.args[1:3]
        data = [context.make_array(kind)(context, builder, one).data for kind, one in zip(kinds, arrays, strict=True)]
        result = context.get_value_type(types.float32)
        function = ir.FunctionType(result, [data[0].type, data[1].type, number.type])
        return builder.call(builder.inttoptr(where, function.as_pointer()), [*data, number])

    return types.float32(types.int64, scores, derivatives, types.int64), generate


call_loss: Any = intrinsic(_call_loss)
"""In a kernel, call the registered loss at an address, for the first `count` entries of two arrays."""


class Kernel(CPUDispatcher):
    """A compiled function that Python calls, and that other kernels call, too.

    A call from Python needs a wrapper that unpacks all arrays of all arguments, machine code, and an entry in the cache
    on disk. A call from another kernel needs none of them, so a second dispatcher compiles the function for those calls
    (see `_Linked`): that halves the time that compiling takes.
    """

    def compile(self, sig: Any) -> Any:
        with _one_process_at_a_time(), _interrupts_between_passes(), _without_garbage_collection():
            return super().compile(sig)

    def enable_caching(self) -> None:
        self._cache = _KernelCache(self.py_func)

    @cached_property
    def _within_kernels(self) -> Any:
        options = {**self.targetoptions, "no_cpython_wrapper": True}
        return _Linked(self.py_func, {}, options, pipeline_class=_LinkedCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self._within_kernels.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        return self._within_kernels.get_overload(sig)


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Within the block, no search for cycles of garbage: the compiler makes millions of objects and needs them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# --- kernels called by kernels


class _Linked(CPUDispatcher):
    """Compiles a function only as far as LLVM's representation, for kernels to link.

    The kernel that Python calls is optimised with everything linked into it. Numba would also optimise each function on
    the way there, again with everything it calls, and generate machine code that nothing runs.
    """

    def add_overload(self, cres: Any) -> None:
        self.overloads[tuple(cres.signature.args)] = cres  # no entry for calls from Python


class _LinkedLibrary(JITCodeLibrary):
    """A function and what it calls, to be linked into other libraries."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LinkedLowering(NativeLowering):
    _name = "linked_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        # the function has no address: any object of its own identifies it to the kernels that call it
        state["cr"] = state["cr"]._replace(cfunc=object())
        state.targetctx.insert_user_function(state["cr"].cfunc, state["cr"].fndesc, [state.library])
        return True


class _LinkedCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_LinkedLowering, reason) if made is NativeLowering else (made, reason) for made, reason in passes.passes
        ]
        passes.finalize()
        return [passes]


# --- announcing


_listeners: list[Callable[[str], None]] = []


@contextmanager
def announced(listener: Callable[[str], None]) -> Iterator[None]:
    """Within the block, call `listener` with a line before a kernel is compiled, which takes a while."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _announce(line: str) -> None:
    _LOG.info(line)
    for listener in _listeners.copy():  # another thread may leave its block meanwhile
        listener(line)


# --- the cache on disk


@cache
def cache_folder() -> Path:
    """Where compiled kernels are cached.

    Numba's cache checks the file of a function but not the files of the functions it calls, so the folder is named
    after the content of all of them: an edit anywhere compiles again, and nothing stale is ever run.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    home = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "lorentzrec" / f"kernels-{digest.hexdigest()[:16]}"


class _ByContent(UserProvidedCacheLocator):
    """Puts all entries into one folder. Numba names an entry by the function's place in its file, and checks the
    content of the file, not path and date: environments share the entries.
    """

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _ByContent:
        return cls(function, file)  # also if the folder cannot be written: a cache that may only be read is still read

    def get_cache_path(self) -> str:
        return str(cache_folder())


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes = [_ByContent]  # noqa: RUF012


class _KernelCache(FunctionCache):
    """Compiles again what cannot be read, and continues without what cannot be written."""

    _impl_class = _KernelCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception as error:  # a damaged pickle raises nearly anything
            _LOG.warning("a compiled kernel in %s cannot be read (%s): compiling it again", self.cache_path, error)
            found = None
        if found is None:
            _announce(COMPILING)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _LOG.warning(
                "the compiled kernels cannot be cached in %s (%s), so every start compiles them again: "
                "set NUMBA_CACHE_DIR to a folder that can be written",
                self.cache_path,
                error.strerror,
            )


@contextmanager
def _one_process_at_a_time() -> Iterator[None]:
    """Hold the lock of the cache: numba writes its index without one, so that two processes can mix up entries. The
    process that waited then finds what the other has compiled.

    Without a lock on Windows, on file systems without locks, or where the folder cannot be written.
    """
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        file = (cache_folder() / "lock").open("a")
    except OSError:
        yield
        return
    with file:  # closing it releases the lock
        with suppress(ImportError, OSError):
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _announce(WAITING)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


# --- interrupting


class _BetweenPasses(event.Listener):
    """Calls a function in the thread that is compiling, before each pass of the compiler."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._thread = threading.get_ident()

    def on_start(self, event: Any) -> None:
        if threading.get_ident() == self._thread:
            self._call()

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def between_passes(call: Callable[[], None]) -> Iterator[None]:
    """Within the block, call this before each pass of the compiler in this thread; what it raises ends compilation."""
    with event.install_listener("numba:run_pass", _BetweenPasses(call)):
        yield


@contextmanager
def _interrupts_between_passes() -> Iterator[None]:
    """Ctrl-C and SIGTERM are raised between passes of the compiler, not in the middle of one.

    LLVM calls numba back, and an exception in a callback is lost: Ctrl-C would end in an unrelated error, or leave a
    broken kernel. A pass takes a second or two at most.
    """
    with deferred_interrupts() as raise_waiting, between_passes(raise_waiting):
        yield
