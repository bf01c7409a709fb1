"""Real servers for tests: they start on a free port, and stop and start again on the same one."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

COSMOS_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
"""The key that every emulator of Cosmos DB has; it opens nothing else."""
COSMOS_SCRIPT = Path(__file__).parents[1] / "cosmos" / "node_modules" / "@vercel" / "cosmosdb-server" / "lib" / "cli.js"


class Missing(Exception):  # noqa: N818 - what a test prints as its reason to skip
    """The server is not installed here."""


class Server:
    """A process that listens on a port of this machine."""

    def __init__(self, command: Sequence[str], port: int, folder: Path) -> None:
        self.port = port
        self._command = command
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when the server answers."""
        assert not self.running
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self._command[0]} does not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a machine does that loses its power: its children, which may be in other groups, go with it."""
        if self.running:
            self._signal_family(signal.SIGKILL)
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """It is there, but says nothing until it is thawed."""
        self._signal_family(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_family(signal.SIGCONT)

    def _signal_family(self, number: signal.Signals) -> None:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for process in (self.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)
            self._process.wait(timeout=60)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


class PostgresServer(Server):
    """A PostgreSQL with data of its own. It refuses to run as root, so there it runs as the user `postgres`."""

    def __init__(self, *, durable: bool = False) -> None:
        programs = _postgres_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="lorentzrec-postgres-"))
        port = free_port()
        become: list[str] = []
        if os.getuid() == 0:
            try:
                entry = pwd.getpwnam("postgres")
            except KeyError:
                raise Missing("PostgreSQL does not run as root, and there is no user postgres") from None
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
            become = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]
        data = str(self.folder / "data")
        options = ["-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        initdb = [*become, str(programs / "initdb"), "-D", data, *options]
        subprocess.run(initdb, check=True, capture_output=True, cwd=self.folder)
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
        if not durable:
            settings |= {"fsync": "off"}
        options = [text for key, value in settings.items() for text in ("-c", f"{key}={value}")]
        super().__init__([*become, str(programs / "postgres"), "-D", data, *options], port, self.folder)

    def address(self, database: str) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, encoding: str = "UTF8") -> str:
        """The address of a new, empty database."""
        self.run(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
        return self.address(name)

    def run(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def sessions(self, database: str) -> int:
        """How many clients a database has."""
        import psycopg

        with psycopg.connect(self.address("postgres")) as connection:
            found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (database,))
            return int(found.fetchall()[0][0])

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class CosmosServer(Server):
    """The emulator of Cosmos DB from npm. It keeps everything in memory: after a restart it is empty."""

    def __init__(self) -> None:
        node = shutil.which("node")
        if node is None or not COSMOS_SCRIPT.is_file():
            raise Missing("no emulator of Cosmos DB: run npm ci in tests/cosmos")
        self.folder = Path(tempfile.mkdtemp(prefix="lorentzrec-cosmos-"))
        port = free_port()
        command = [node, str(COSMOS_SCRIPT), "--host", "127.0.0.1", "--port", str(port), "--no-ssl"]
        super().__init__(command, port, self.folder)

    def address(self, database: str) -> str:
        return f"cosmos+http://127.0.0.1:{self.port}/{database}"

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _postgres_programs() -> Path:
    """The folder that holds the server: that of `pg_config` or `postgres` on the path, else the newest of Debian."""
    found = [Path(program).resolve().parent for name in ("postgres", "pg_config") if (program := shutil.which(name))]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    for folder in found:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise Missing("no PostgreSQL server: install the package postgresql")
