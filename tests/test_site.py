"""The documentation site builds without a warning, its links lead somewhere, and it lists what the code has."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from urllib.parse import unquote

import pytest

import lorentzrec
from lorentzrec import errors
from lorentzrec.base.field_checks import field_texts
from lorentzrec.data.splitting import RULES
from lorentzrec.evaluation.metrics import METRICS
from lorentzrec.ingest.prepare import PrepareConfig
from lorentzrec.ingest.sources import READERS, Source
from lorentzrec.model.config import TrainingConfig
from lorentzrec.serving.settings import ServiceSettings
from tests.test_contract import MEMBERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(folder)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert build.returncode == 0, build.stderr
    return folder


def test_the_reference_lists_every_public_name(site: Path) -> None:
    listed = set(re.findall(r'id="lorentzrec\.(?:errors\.)?(\w+)"', (site / "reference.html").read_text()))
    assert set(lorentzrec.__all__) - listed == {"__version__"}
    ours = {name for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__}
    assert ours - listed == set()


def test_the_reference_lists_every_method_of_the_contract(site: Path) -> None:
    listed = set(re.findall(r'id="lorentzrec\.(?:\w+\.)*(\w+\.\w+)"', (site / "reference.html").read_text()))
    for owner, names in MEMBERS.items():
        methods = {name for name in names.split() if callable(getattr(owner, name, None))}
        assert {f"{owner.__name__}.{name}" for name in methods} - listed == set()


def broken_links(site: Path) -> list[str]:
    """The links between pages of the site that lead to no file, or to no element of it."""
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    ids = {page: set(re.findall(r'\sid="([^"]+)"', text)) for page, text in pages.items()}
    broken = []
    for page, text in pages.items():
        for target in re.findall(r'\s(?:href|src)="([^"]*)"', text):
            if re.match(r"[a-z]+:|//", target):
                continue
            name, _, anchor = unquote(target).partition("#")
            file = (page.parent / name.partition("?")[0]).resolve() if name else page
            if not file.is_file() or (anchor and file in ids and anchor not in ids[file]):
                broken.append(f"{page.relative_to(site)}: {target}")
    return broken


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    assert broken_links(site.resolve()) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="one"><a href="b.html#two"> <a href="#one"> <img src="x.png"> <a href="#no">'
    )
    (tmp_path / "b.html").write_text(
        '<p id="two"><a href="a.html#two"> <a href="https://example.org/"> <a href="c.html">'
    )
    assert sorted(broken_links(tmp_path)) == ["a.html: #no", "a.html: x.png", "b.html: a.html#two", "b.html: c.html"]


def pages_of_the_guide() -> list[Path]:
    """All pages for users that are no reference: the first three parts of the site."""
    parts = re.findall(r":caption: (.*)\n(?::.*\n)*\n((?:.+\n)*)```", (DOCS / "index.md").read_text())
    assert [caption for caption, _ in parts[:4]] == ["Start", "Guide", "In a shop", "Notebooks"]
    return [DOCS / f"{name}.md" for _, part in parts[:3] for name in part.split()]


def test_the_guide_is_short() -> None:
    """Measurements and history are in the lab."""
    pages = pages_of_the_guide()
    assert 10 <= len(pages) <= 16
    assert sum(len(page.read_text().split()) for page in pages) <= 20_000


@pytest.mark.parametrize(("query", "page"), [("custom loss", "extend"), ("latex", "extend"), ("wandb", "extend")])
def test_search_finds(site: Path, query: str, page: str) -> None:
    """Every word of the query is in the index of the page."""
    index = json.loads((site / "searchindex.js").read_text().partition("Search.setIndex(")[2].rpartition(")")[0])
    number = index["docnames"].index(page)
    for word in query.split():
        found = [index[kind].get(word, []) for kind in ("terms", "titleterms")]
        assert any(number in (one if isinstance(one, list) else [one]) for one in found), word


def test_blocks_of_code_have_a_button(site: Path) -> None:
    assert 'src="_static/copy.js' in (site / "quickstart.html").read_text()
    assert (site / "_static" / "copy.js").is_file()


def test_the_notebooks_are_part_of_the_site(site: Path) -> None:
    shown = {page.stem: page.read_text() for page in (site / "notebooks").glob("*.html")}
    assert set(shown) == {notebook.stem for notebook in (ROOT / "examples").glob("*.ipynb")}
    assert all("cell_output" in text for text in shown.values())


def test_generated_pages_are_up_to_date() -> None:
    code = "from generated_pages import *\nfor name, page in PAGES.items(): print(name, page(), sep='\\n', end='\\0')"
    made = subprocess.run([sys.executable, "-c", code], cwd=DOCS, capture_output=True, text=True, check=True).stdout
    for page in made.split("\0")[:-1]:
        name, _, text = page.partition("\n")
        assert text == (DOCS / name).read_text(), "run: python docs/generated_pages.py"


@pytest.mark.parametrize("owner", [TrainingConfig, Source, PrepareConfig, ServiceSettings])
def test_every_setting_says_what_it_is_and_when_to_change_it(owner: type) -> None:
    texts = field_texts(owner)
    for field in fields(owner):
        *meaning, advice = texts[field.name]
        assert meaning, field.name
        assert advice.startswith("Change it "), field.name


BUILT_IN_SPLITS = (*RULES, "given")
"""When tests are collected: examples of the documentation register others."""


def test_pages_list_all_splits_readers_and_metrics() -> None:
    data, metrics = (DOCS / "data.md").read_text(), (DOCS / "metrics.md").read_text()
    assert [name for name in BUILT_IN_SPLITS if f"| `{name}` |" not in data] == []
    family = re.compile(r"movielens-(\w+)")
    named = {found[1]: f"-{found[1]}" for name in READERS if (found := family.fullmatch(name))}
    assert [short for long, short in named.items() if short not in data] == []
    assert [name for name in READERS if not family.fullmatch(name) and name not in data] == []
    assert [name for name in METRICS if f"| `{name}@k` |" not in metrics] == []
