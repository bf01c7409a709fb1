"""Archives with the layout of MovieLens, made of generated films, and a server that has them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lorentzrec import datasets
from lorentzrec.synthetic.shop import synthetic_shop


def film_texts(customers: int = 120, films: int = 40, events: int = 1_000) -> tuple[str, str]:
    """Events and films as in ml-100k: u.data and u.item."""
    shop = synthetic_shop(customers=customers, items=films, interactions=events)
    rows = [
        f"{int(one['user'][1:]) + 1}\t{int(one['item'][1:]) + 1}\t4\t{one['time']}"
        for one in shop.events.iter_rows(named=True)
    ]
    numbers = range(1, films + 2)
    genres = "|".join(["0"] * 19)
    return (
        "\n".join(rows) + "\n",
        "".join(
            f"{number}|Film {number}, caf\u00e9 (1995)|01-Jan-1995||http://x/{number}|{genres}\n" for number in numbers
        ),
    )


def write_folder(folder: Path, **counts: int) -> Path:
    """u.data and u.item."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(("u.data", "u.item"), film_texts(**counts), strict=True):
        (folder / name).write_bytes(text.encode("latin-1"))
    return folder


def write_archive(folder: Path, files: tuple[str, ...] = ("u.data", "u.item"), **counts: int) -> Path:
    """ml-100k.zip, with a file that nobody needs."""
    archive = folder / "ml-100k.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("ml-100k/README", "terms")
        for name, text in zip(("u.data", "u.item"), film_texts(**counts), strict=True):
            if name in files:
                made.writestr(f"ml-100k/{name}", text.encode("latin-1"))
    return archive


class QuietHandler(SimpleHTTPRequestHandler):
    asked: list[str]

    def __init__(self, *arguments: Any, asked: list[str], **options: Any) -> None:
        self.asked = asked
        super().__init__(*arguments, **options)

    def log_message(self, format: str, *arguments: Any) -> None:
        self.asked.append(self.path)


@contextmanager
def file_server(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a server of the files of a folder, and the paths that were requested."""
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder), asked=asked))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def use_source(monkeypatch: pytest.MonkeyPatch, url: str, archive: Path, events: int = 1_000) -> None:
    """movielens-100k comes from this address, and is this archive."""
    md5 = hashlib.md5(archive.read_bytes()).hexdigest()
    known = datasets.SOURCES["movielens-100k"]
    monkeypatch.setitem(datasets.SOURCES, "movielens-100k", replace(known, url=url, md5=md5, events=events))
