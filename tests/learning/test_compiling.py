"""Compiling kernels: interruptible, one process at a time, and from a cache that may be missing or damaged."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from numba.core import event

from lorentzrec.learning.epochs import compile_kernels
from lorentzrec.learning.kernels import compiling
from lorentzrec.learning.kernels.compiling import COMPILING, WAITING, announced, kernel
from lorentzrec.learning.trainer import train
from lorentzrec.learning.warm_up import VARIANTS, compiling_ahead
from lorentzrec.model.config import TrainingConfig
from tests.learning.grouped_data import grouped, quick

SCRIPT = """
import sys
from lorentzrec.learning.kernels.compiling import announced, kernel

@kernel
def helper(x):
    return x + 1

@kernel
def twice(x):
    return 2 * helper(x)

with announced(lambda line: print(line, flush=True)):
    print(twice(int(sys.argv[1])), sum(twice.stats.cache_misses.values()), sum(helper.stats.cache_misses.values()))
"""


def helper(x):  # type: ignore[no-untyped-def]
    return x + 1


inner: Any = helper  # the kernel of it, once `fresh` was called


def twice(x):  # type: ignore[no-untyped-def]
    return 2 * inner(x)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for the kernels that a test makes."""
    monkeypatch.setattr(compiling, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def fresh() -> Any:
    """A kernel that calls a kernel, as a new process has them."""
    globals()["inner"] = kernel(helper)
    return kernel(twice)


def entries(cache: Path) -> list[str]:
    return sorted(path.suffix for path in cache.iterdir() if path.suffix)


def test_a_kernel_is_compiled_once_and_its_helpers_are_not_kept(cache: Path) -> None:
    lines: list[str] = []
    with announced(lines.append):
        assert fresh()(3) == 8
        assert fresh()(4) == 10
    assert lines == [COMPILING]
    assert entries(cache) == [".nbc", ".nbi"]


def test_a_kernel_called_by_kernels_can_be_called_from_python_too(cache: Path) -> None:
    made = fresh()
    assert (made(3), globals()["inner"](3), made(2.5)) == (8, 4, 7.0)


def test_a_kernel_called_by_kernels_is_only_linked(cache: Path) -> None:
    """Machine code of its own would be optimised and generated for nothing."""
    made = fresh()
    assert made(3) == 8
    called = globals()["inner"]
    assert not called.overloads
    libraries = [result.library for result in called._within_kernels.overloads.values()]
    assert [type(library) for library in libraries] == [compiling._LinkedLibrary]


def test_garbage_collection_is_off_only_while_compiling(cache: Path) -> None:
    while_compiling: list[bool] = []
    with announced(lambda line: while_compiling.append(gc.isenabled())):
        fresh()(3)
    assert (while_compiling, gc.isenabled()) == ([False], True)
    made = fresh()
    with announced(lambda line: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(KeyboardInterrupt):
        made(2.5)
    assert gc.isenabled()


def test_an_interrupt_waits_for_the_end_of_a_pass_and_leaves_nothing_behind(cache: Path) -> None:
    made, handler = fresh(), signal.getsignal(signal.SIGINT)
    with announced(lambda line: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(KeyboardInterrupt):
        made(3)
    assert entries(cache) == []
    assert signal.getsignal(signal.SIGINT) is handler
    assert made(3) == 8, "the same kernel can be compiled later in the same process"


def test_a_handler_of_ones_own_is_called(cache: Path) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        with announced(lambda line: os.kill(os.getpid(), signal.SIGTERM)):
            assert fresh()(3) == 8, "it does not raise, so compilation continues"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


def test_a_damaged_entry_is_compiled_again(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    fresh()(3)
    for path in cache.glob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    lines: list[str] = []
    with announced(lines.append):
        assert fresh()(3) == 8
    assert lines == [COMPILING]
    assert "cannot be read" in caplog.text


def test_a_cache_that_cannot_be_written_is_no_obstacle(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache.write_text("a file where the folder should be")
    assert fresh()(3) == 8
    assert caplog.records[-1].levelno == logging.WARNING
    assert "set NUMBA_CACHE_DIR to a folder that can be written" in caplog.text


def test_a_second_process_waits_and_finds_what_the_first_has_compiled(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "run.py"), "3"]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert first == [COMPILING, "8 1 0"]
    (lock,) = tmp_path.rglob("lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        assert second.stdout.readline().strip() == WAITING
    assert second.communicate(timeout=300)[0].splitlines() == ["8 0 0"]


def test_two_processes_at_once_compile_once(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(SCRIPT)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    both = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "run.py"), "3"], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    results = [process.communicate(timeout=300)[0].splitlines()[-1] for process in both]
    assert sorted(results) == ["8 0 0", "8 1 0"]


# --- ahead of training


class Compiled(event.Listener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: Any) -> None:
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: Any) -> None:
        pass


@pytest.mark.parametrize("config", VARIANTS, ids=lambda config: f"{config.model}-{config.loss}")
@pytest.mark.parametrize("threads", [1, 2])
def test_after_a_warm_up_training_compiles_nothing(config: TrainingConfig, threads: int) -> None:
    compile_kernels(config, attributes=True)
    listener = Compiled()
    quickly = config.replace(dimension=6, epochs=1, threads=threads, blocks_per_step=2)
    with event.install_listener("numba:compile", listener):
        for data in (grouped(), grouped(times=None), grouped(weights=[2.0] * 1500)):
            train(data, quickly)
        if config.model == "asymmetric":
            colours = pl.DataFrame({"item": range(60), "colour": ["red", "blue"] * 30})
            train(grouped(), quickly, attributes=colours)
            train(grouped(), quickly.replace(targets="shared"), attributes=colours)
    assert listener.names == []


def test_kernels_are_compiled_in_the_calling_thread() -> None:
    """Or Ctrl-C would have to wait for a pool of threads that compile."""
    threads: set[int] = set()

    class Where(Compiled):
        def on_start(self, event: Any) -> None:
            threads.add(threading.get_ident())

    with event.install_listener("numba:compiler_lock", Where()):
        train(grouped(), quick(threads=2, blocks_per_step=2))
    assert threads <= {threading.get_ident()}


WITH_ATTRIBUTES = """
import threading
import polars as pl
from tests.learning.grouped_data import grouped, quick
from lorentzrec import train
from tests.learning.test_compiling import Compiled, event

class Where(Compiled):
    def on_start(self, event):
        self.names.append(threading.current_thread().name)

colours = pl.DataFrame({"item": range(60), "colour": ["red", "blue"] * 30})
with event.install_listener("numba:compiler_lock", Where()) as where:
    train(grouped(), quick(threads=2, blocks_per_step=2, epochs=1), attributes=colours)
print(set(where.names))
"""


def test_kernels_of_attributes_are_compiled_in_the_calling_thread() -> None:
    """In a new process, where every kernel is at least loaded from the cache."""
    command = [sys.executable, "-c", WITH_ATTRIBUTES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "{'MainThread'}\n"


def test_compiling_ahead_waits_for_the_result_and_ends_with_its_block() -> None:
    with compiling_ahead(quick()) as until_compiled:
        until_compiled(lambda line: None)
        assert not [thread for thread in threading.enumerate() if thread.name == "lorentzrec-warm-up"]
    with pytest.raises(OSError, match="the data"), compiling_ahead(quick()):
        raise OSError("the data cannot be read")
    assert not [thread for thread in threading.enumerate() if thread.name == "lorentzrec-warm-up"]


def test_a_config_that_fails_is_reported_by_training_not_by_compiling_ahead() -> None:
    with compiling_ahead(quick(learning_rate=1e300, initial_width=1e300, initialisation="cube")) as until_compiled:
        until_compiled(lambda line: None)
