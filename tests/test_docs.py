"""The documentation is true: every Python block runs, and every link leads somewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from lorentzrec import datasets
from tests.datasets.film_archives import write_folder

ROOT = Path(__file__).parents[1]
ELSEWHERE = ("clients/typescript/README.md", "examples/shop/README.md")
COPIES = {ROOT / "docs" / "architecture.md", ROOT / "docs" / "contributing.md"}
"""Written by the build of the site."""

OWN = set((ROOT / "docs").rglob("*.md")) - COPIES
PAGES = sorted([*ROOT.glob("*.md"), *OWN, *(ROOT / name for name in ELSEWHERE)])
FENCE = re.compile(r"^```(?P<language>.*)\n(?P<body>(?:.*\n)*?)```$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)[^)]*\)")


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The ```python blocks of a page, each with the number of lines before its body."""
    fences = [match for match in FENCE.finditer(text) if match["language"].split()[:1] == ["python"]]
    return [(text.count("\n", 0, match.start("body")), match["body"]) for match in fences]


def broken_links(page: Path) -> list[str]:
    """The relative links of a page that name no file, or no heading of the file they name."""
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = unquote(target).partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (heading and heading not in anchors(file.read_text())):
            broken.append(target)
    return broken


def anchors(text: str) -> set[str]:
    """What a page's headings are called in links: small letters, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def use_films(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated films with the layout of MovieLens 100K, so that nothing is downloaded."""
    films = write_folder(folder / "data" / "ml-100k")
    monkeypatch.setenv(datasets.VARIABLE, str(films.parent))
    known = datasets.SOURCES["movielens-100k"]
    monkeypatch.setitem(datasets.SOURCES, "movielens-100k", replace(known, events=1_000))


WITH_CODE = [page for page in PAGES if python_blocks(page.read_text())]


@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # of Keras, when it exports to ONNX
@pytest.mark.parametrize("page", WITH_CODE, ids=names(WITH_CODE))
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace a page, as a reader would paste them; a traceback shows the page and its line."""
    monkeypatch.chdir(tmp_path)
    if page.name == "films.md":
        use_films(tmp_path, monkeypatch)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for lines_before, body in python_blocks(page.read_text()):
        exec(compile("\n" * lines_before + body, str(page), "exec", dont_inherit=True), namespace)


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_the_map_names_no_file_that_is_gone() -> None:
    named = set(re.findall(r"\w+\.py\b", (ROOT / "ARCHITECTURE.md").read_text()))
    there = {path.name for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert named - there == set()


def test_blocks_are_found_where_they_stand() -> None:
    text = "# Title\n\n```python\na = 1\n\nb = 2\n```\n\n```text\nno\n```\n\n```python\nc = a\n```\n"
    assert python_blocks(text) == [(3, "a = 1\n\nb = 2\n"), (13, "c = a\n")]


def test_broken_links_are_seen(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# What we do, and why\n\n```text\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md) [b](other.md#what-we-do-and-why) [c](#here) [d](https://example.org/x)\n"
        '[e](gone.md) [f](other.md#no-heading) [g](#gone) ![h](gone.png "title")\n```text\n[i](gone.md)\n```\n'
    )
    assert broken_links(page) == ["gone.md", "other.md#no-heading", "#gone", "gone.png"]
