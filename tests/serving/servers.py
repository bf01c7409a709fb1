"""Real servers for tests: they start on a free port, and stop and start again on the same one."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from lorentzrec_paper import servers
from lorentzrec_paper.servers import free_port
from tests.emulators import CosmosEmulator, MissingServer

COSMOS_KEY = CosmosEmulator.KEY


class Server(servers.Server):
    """A server that tests kill and freeze together with its children, which may be in other process groups."""

    def kill(self) -> None:
        """As a machine does that loses its power."""
        if self.running:
            self._signal_family(signal.SIGKILL)
        super().kill()

    def freeze(self) -> None:
        """It is there, but does not respond until it is thawed."""
        self._signal_family(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_family(signal.SIGCONT)

    def _signal_family(self, number: signal.Signals) -> None:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for process in (self.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, number)


class PostgresServer(Server):
    """A PostgreSQL with data of its own. It refuses to run as root, so there it runs as the user `postgres`."""

    def __init__(self, *, durable: bool = False, language: str | None = None) -> None:
        """`language`: of its messages, such as "de"; English where PostgreSQL has no translations."""
        programs = _postgres_programs()
        folder = Path(tempfile.mkdtemp(prefix="lorentzrec-postgres-"))
        port = free_port()
        become: list[str] = []
        if os.getuid() == 0:
            try:
                entry = pwd.getpwnam("postgres")
            except KeyError:
                raise MissingServer("PostgreSQL does not run as root, and there is no user postgres") from None
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            become = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", "--"]
        data = str(folder / "data")
        options = ["-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        initdb = [*become, str(programs / "initdb"), "-D", data, *options]
        subprocess.run(initdb, check=True, capture_output=True, cwd=folder)
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
        if not durable:
            settings |= {"fsync": "off"}
        if language is not None:
            settings |= {"lc_messages": "C.UTF-8"}
            become = ["env", "-u", "LC_ALL", f"LANGUAGE={language}", *become]
        options = [text for key, value in settings.items() for text in ("-c", f"{key}={value}")]
        super().__init__([*become, str(programs / "postgres"), "-D", data, *options], port, folder)

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

    def _responds(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class CosmosServer(Server, CosmosEmulator):
    """The emulator of Cosmos DB, which can be frozen."""


def _postgres_programs() -> Path:
    """The folder that holds the server: that of `pg_config` or `postgres` on the path, else the newest of Debian."""
    found = [Path(program).resolve().parent for name in ("postgres", "pg_config") if (program := shutil.which(name))]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    for folder in found:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise MissingServer("no PostgreSQL server: install the package postgresql")
