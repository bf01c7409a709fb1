"""The examples for deployment: options and metrics that they name exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from lorentzrec.serving.http.metrics import Metrics

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize("name", ["Dockerfile.service", "compose.yaml", "kubernetes.yaml", "lorentzrec.service"])
def test_options_of_serve_exist(name: str) -> None:
    options = (ROOT / "tests" / "cli" / "options.txt").read_text()
    known = set(re.findall(r"^serve (--\S+)", options, re.MULTILINE))
    commands = re.findall(r"lorentzrec[\", ]+serve.*|command: .*|args: .*", (DEPLOY / name).read_text())
    named = {option for command in commands for option in re.findall(r"--[a-z-]+", command)}
    assert named
    assert named - known == set()


def test_yaml_files_are_valid() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert (ROOT / compose["services"]["service"]["build"]["dockerfile"]).is_file()
    kinds = [part["kind"] for part in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())]
    assert kinds == ["Deployment", "Service"]


def test_extras_and_copied_files_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for name in ("Dockerfile.service", "Dockerfile.train"):
        text = (DEPLOY / name).read_text()
        for extra in re.findall(r"'\.\[(.*)\]'", text)[0].split(","):
            assert re.search(rf"^{extra} = ", project, re.MULTILINE)
        for files in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
            assert all((ROOT / file).exists() for file in files.split())


def test_the_dashboard_shows_metrics_of_the_service() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name.removesuffix("_bucket") for query in queries for name in re.findall(r"lorentzrec_\w+", query)}
    known = set(re.findall(r"^# HELP (\w+)", Metrics().text().decode(), re.MULTILINE))
    assert named - known == {"lorentzrec_worker_deaths_total"}, "the parent of the workers counts that one"
