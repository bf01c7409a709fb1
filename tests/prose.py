"""Words and phrases that plain technical English does not need, each with what to write instead.

`make check` searches code, comments, documentation and messages for them. This does not replace reading: it only keeps
known mannerisms from coming back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPLACEMENTS = {
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix",
    r"beside": "next to, compared with, in addition to",
    r"(?:is|are|was|were|be|been) told": "is passed, receives, is reported",
    r"tells? of": "describes, contains",
    r"so many": "N, this many, the number of",
    r"by heart": "overfitted",
    r"no such thing": "not found",
    r"scribbl(?:e|es|ed|ing)": "scratch buffer",
    r"chance (?:hardly|explains)": "significant, not significant (p = ...)",
    r"shops? that (?:does|do) not exist": "synthetic shop",
    r"grow(?:s|n|ing)? (?:a|the|two|synthetic) shops?": "generate a shop",
    r"(?:goes|went|going) on": "continues, resumes",
    r"in silence": "silently",
    r"one a (?:line|request|customer|user)": "one per line, per request, per customer",
    r"(?:customers?|users?|they|who|whom) (?:has|have|had) touched": "interacted with",
    r"untouched items?": "items without interactions",
    r"whole or not at all": "atomically",
    r"by the word": "literally",
}
"""Pattern of a word or phrase -> what to write instead. Case does not matter."""

SUFFIXES = {".py", ".md", ".js", ".ts", ".css", ".html", ".toml", ".cff", ".sh", ".txt", ".yaml", ".service", ""}
SKIPPED = {"node_modules", "dist", "schema.ts", "formats", "__pycache__", "prose.py", "test_prose.py", "LICENSE"}
"""Names of folders and files that are not searched: the work of others, and those that quote the words."""

_NEXT_LINE = re.compile(r"\n[ \t]*(?:#|//|\*|<!--)?[ \t]*")
_PATTERNS = "|".join(f"(?P<p{n}>{pattern})" for n, pattern in enumerate(REPLACEMENTS)).replace(" ", r"\s+")
_BANNED = re.compile(rf"\b(?:{_PATTERNS})\b", re.IGNORECASE)


class Finding(NamedTuple):
    path: Path
    line: int
    found: str
    instead: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.found}": write {self.instead}'


def text_files(root: Path) -> Iterator[Path]:
    """The project's own text files: at the top level, and below the folders of code and documentation."""
    paths = [path for path in root.iterdir() if not path.name.startswith(".")]
    for name in (".ci", "src", "tests", "benchmarks", "clients", "examples", "deploy", "docs"):
        paths.extend((root / name).rglob("*"))
    for path in sorted(paths):
        if path.is_file() and path.suffix in SUFFIXES and not SKIPPED & set(path.relative_to(root).parts):
            yield path


def find_mannerisms(root: Path) -> list[Finding]:
    """All banned words in the text files below `root`, names in code included. Phrases may span two lines."""
    found = []
    for path in text_files(root):
        text = path.read_text(encoding="utf-8")
        joined = _NEXT_LINE.sub(lambda gap: " " * len(gap[0]), text).replace("_", " ")
        for match in _BANNED.finditer(joined):
            instead = list(REPLACEMENTS.values())[int(str(match.lastgroup)[1:])]
            line = text.count("\n", 0, match.start()) + 1
            found.append(Finding(path.relative_to(root), line, " ".join(match[0].split()), instead))
    return found
