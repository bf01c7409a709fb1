"""Private interfaces of other packages: what the code relies on, so that a release which changes it is named here.

The upper bounds in pyproject.toml keep such releases out until this passes with them.
"""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement

from lorentzrec.cli.application import UsageError

ROOT = Path(__file__).parents[1]


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("package", "next_release"), [("granian", "2.9.0"), ("azure-cosmos", "4.18.0"), ("numba", "0.69.0")]
)
def test_the_next_release_is_not_installed_unseen(package: str, next_release: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    found = [Requirement(text) for group in groups for text in group]
    bounds = [one.specifier for one in found if one.name == package]
    assert bounds
    assert not any(bound.contains(next_release) for bound in bounds)


def test_granian_has_what_the_server_overrides_and_reads() -> None:
    """`serving/http/server.py` replaces the main loop of granian's server, and starts workers with its methods."""
    server = pytest.importorskip("granian.server.mp")
    assert parameters(server.MPServer._serve_loop) == ["self", "spawn_target", "target_loader"]
    assert parameters(server.MPServer._spawn_workers) == ["self", "spawn_target", "target_loader"]
    assert parameters(server.MPServer._respawn_workers)[:4] == ["self", "workers", "spawn_target", "target_loader"]
    assert "delay" in parameters(server.MPServer._respawn_workers)
    made = server.MPServer("x")
    for name in ("interrupt_signal", "reload_signal", "interrupt_children", "main_loop_interrupt", "wrks"):
        assert hasattr(made, name), name
    assert hasattr(made.main_loop_interrupt, "wait")
    assert made.interrupt_children == made.wrks == []


def test_cosmos_has_the_connection_whose_class_is_replaced() -> None:
    """`serving/stores/cosmos_documents.py` gives the connection of a client a class with headers for each thread."""
    connection = pytest.importorskip("azure.cosmos._cosmos_client_connection").CosmosClientConnection
    documents = pytest.importorskip("lorentzrec.serving.stores.cosmos_documents")
    assert documents._Connection.__bases__ == (connection,)
    assert "self.last_response_headers = " in inspect.getsource(connection)
    assert not hasattr(connection, "__slots__"), "its class could not be replaced"
    assert "self.client_connection = " in inspect.getsource(documents.CosmosClient)


def test_typer_has_a_usage_error_above_a_bad_parameter() -> None:
    """`cli/application.py` reads it from the bases, since versions of Typer import click or contain a copy of it."""
    assert UsageError is typer.BadParameter.__mro__[1]
    assert UsageError.__name__ == "UsageError"
    error = UsageError("x")
    assert (error.exit_code, error.format_message(), error.ctx) == (2, "x", None)


# --- numba: `learning/kernels/compiling.py`


def test_numba_has_the_dispatcher_that_kernels_extend() -> None:
    """A kernel is a dispatcher with its own cache. Kernels that call it ask another dispatcher for its template."""
    from numba.core.registry import CPUDispatcher

    assert parameters(CPUDispatcher.__init__) == ["self", "py_func", "locals", "targetoptions", "pipeline_class"]
    assert parameters(CPUDispatcher.compile) == ["self", "sig"]
    assert parameters(CPUDispatcher.get_call_template) == ["self", "args", "kws"]
    assert parameters(CPUDispatcher.get_overload) == ["self", "sig"]
    assert parameters(CPUDispatcher.add_overload) == ["self", "cres"]
    assert "self.overloads[args] = cres" in inspect.getsource(CPUDispatcher.add_overload)
    made = CPUDispatcher(lambda x: x, {}, {"nopython": True})
    assert made.targetoptions == {"nopython": True}
    assert made.py_func(3) == 3
    assert dict(made.overloads) == {}
    assert hasattr(made, "_cache")


def test_numba_has_the_options_of_kernels() -> None:
    """`_nrt` leaves out reference counting; the two wrappers are what Python and C would call."""
    from numba.core.options import TargetOptions
    from numba.core.registry import cpu_target

    options = cpu_target.options
    assert issubclass(options, TargetOptions)
    for name in ("_nrt", "no_cfunc_wrapper", "no_cpython_wrapper", "nogil", "boundscheck", "error_model", "fastmath"):
        assert hasattr(options, name), name


def test_numba_has_the_library_and_the_pass_that_linked_kernels_replace() -> None:
    """Kernels that other kernels call are compiled as far as LLVM's representation, in a pass instead of lowering."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import DefaultPassBuilder
    from numba.core.typed_passes import NativeLowering

    assert parameters(JITCodeLibrary._optimize_functions) == ["self", "ll_module"]
    assert parameters(JITCodeLibrary._optimize_final_module) == ["self"]
    assert parameters(JITCodeLibrary._finalize_dynamic_globals) == ["self"]
    assert "self._finalized = True" in inspect.getsource(JITCodeLibrary._finalize_final_module)
    assert parameters(NativeLowering.run_pass) == ["self", "state"]
    assert "state.library" in inspect.getsource(NativeLowering.run_pass)
    assert 'state["cr"]' in inspect.getsource(NativeLowering.run_pass).replace("'", '"')
    assert "NativeLowering" in inspect.getsource(DefaultPassBuilder)


def test_numba_has_the_cache_whose_folder_is_replaced() -> None:
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

    assert parameters(UserProvidedCacheLocator.from_function) == ["py_func", "py_file"]
    assert parameters(UserProvidedCacheLocator.get_cache_path) == ["self"]
    assert CompileResultCacheImpl._locator_classes
    assert issubclass(FunctionCache._impl_class, CompileResultCacheImpl)
    assert parameters(FunctionCache.load_overload) == ["self", "sig", "target_context"]
    assert parameters(FunctionCache.save_overload) == ["self", "sig", "data"]


def test_numba_tells_listeners_of_every_pass() -> None:
    """Ctrl-C is raised between passes of the compiler."""
    import numba
    from numba.core import event

    with event.install_recorder("numba:run_pass") as recorder:
        assert numba.njit(lambda x: x + 1)(1) == 2
    assert len(recorder.buffer) > 10


def test_threadpoolctl_lets_any_thread_set_the_limit() -> None:
    """Since 3.8 only the first thread may, unless `base/threads.py` clears it; earlier releases have no such rule."""
    from threadpoolctl import ThreadpoolController, __version__

    found = [hasattr(library, "clear_controlling_thread") for library in ThreadpoolController().lib_controllers]
    assert found
    assert any(found) == (tuple(map(int, __version__.split(".")[:2])) >= (3, 8))
    for library in ThreadpoolController().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            assert "force" in parameters(library.clear_controlling_thread)
