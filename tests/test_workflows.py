"""The workflows of GitHub run targets that exist, on the Python versions that the package claims."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_there_is(path: Path) -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    for job in read(path)["jobs"].values():
        for command in (step["run"] for step in job["steps"] if "run" in step):
            for target in re.findall(r"\bmake (\w+)", command):
                assert target in targets[1].split()
            for script in re.findall(r"(?<!\S)\.ci/\S+", command):
                assert (ROOT / script).is_file()


def test_the_tests_run_on_every_python_that_is_claimed() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    claimed = [one.rpartition(" ")[2] for one in classifiers if re.search(r"Python :: 3\.\d+$", one)]
    (tests,) = [path for path in WORKFLOWS if path.stem == "tests"]
    assert claimed
    assert set(claimed) <= set(read(tests)["jobs"]["quick"]["strategy"]["matrix"]["python"])


def test_only_the_job_that_publishes_may_ask_for_an_identity() -> None:
    for path in WORKFLOWS:
        workflow = read(path)
        assert workflow["permissions"] == {"contents": "read"}
        assert [name for name, job in workflow["jobs"].items() if "permissions" in job] == (
            ["publish"] if path.stem == "release" else []
        )


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_have_what_github_requires(path: Path) -> None:
    form = read(path)
    if path.stem != "config":
        assert form.keys() >= {"name", "description", "body"}
        assert len({field["id"] for field in form["body"]}) == len(form["body"])
