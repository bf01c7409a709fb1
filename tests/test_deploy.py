"""The examples for deployment are valid, and the options, metrics and labels that they name exist."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import lorentzrec
from lorentzrec.daily.config import read_config
from lorentzrec.daily.state import exit_code
from tests.serving.running_service import service_process, shop_store

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def run(*command: str | Path) -> str:
    """The output of a program, which must succeed."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("name", ["Dockerfile.service", "compose.yaml", "kubernetes.yaml", "lorentzrec.service"])
def test_options_of_serve_exist(name: str) -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    known = set(re.findall(r"^\| `(--[a-z-]+)", page.partition("### serve\n")[2].partition("###")[0], re.MULTILINE))
    commands = re.findall(r"lorentzrec[\", ]+serve.*|command: .*|args: .*", (DEPLOY / name).read_text())
    named = {option for command in commands for option in re.findall(r"--[a-z-]+", command)}
    assert named
    assert named - known == set()


def test_the_conda_recipe_requires_what_the_package_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((DEPLOY / "conda" / "recipe.yaml").read_text())
    wanted = {f"python{project['requires-python']}", *project["dependencies"]}
    assert {one.replace(" ", "") for one in recipe["requirements"]["run"]} == wanted
    assert recipe["context"]["version"] == lorentzrec.__version__
    assert recipe["build"]["python"]["entry_points"] == [f"{a} = {b}" for a, b in project["scripts"].items()]
    assert recipe["about"]["license"] == project["license"]


def test_no_secret_is_on_a_command_line() -> None:
    """The store's address, which may contain a password, is a variable, and its value comes from a secret."""
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["service"]
    deployment = next(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    image = (DEPLOY / "Dockerfile.service").read_text()
    defaults = [
        argument
        for _, line in re.findall(r"^(ENTRYPOINT|CMD) (.*)$", image, re.MULTILINE)
        for argument in json.loads(line)
    ]
    (unit,) = re.findall(r"^ExecStart=(.*)$", (DEPLOY / "lorentzrec.service").read_text(), re.MULTILINE)
    for command in (service["command"], container["args"], defaults, unit.split()):
        assert "--api-key-file" in command
        assert not [argument for argument in command if "$" in argument or ":" in argument]
    variables = {one["name"]: one["valueFrom"] for one in container["env"]}
    assert variables["LORENTZREC_STORE"] == {"secretKeyRef": {"name": "lorentzrec", "key": "store"}}
    assert service["environment"]["LORENTZREC_STORE"] == "postgresql://lorentzrec@database/lorentzrec"
    assert service["environment"]["PGPASSWORD"].startswith("${PASSWORD:?")
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {"deploy/.env", "deploy/keys.txt"} <= set(ignored)


@pytest.mark.parametrize("name", ["Dockerfile.service", "Dockerfile.train"])
def test_images_follow_the_rules_of_hadolint_and_do_not_run_as_root(name: str) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    assert run(hadolint, DEPLOY / name) == ""
    assert re.findall(r"^USER (.*)$", (DEPLOY / name).read_text(), re.MULTILINE) == ["10001"]


def test_kernels_in_the_image_do_not_depend_on_the_machine_that_built_it() -> None:
    """numba's key of a cached kernel has the name and the features of the CPU: both must be fixed."""
    (variables,) = re.findall(r"NUMBA_CPU_NAME=\S* NUMBA_CPU_FEATURES=\S*", (DEPLOY / "Dockerfile.train").read_text())
    code = "from numba.core.registry import cpu_target as c; print(c.target_context.codegen().magic_tuple()[1:])"
    assert run("env", *variables.split(" "), sys.executable, "-c", code).strip() == "('x86-64-v3', '')"


def test_the_compose_file_names_files_that_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert (ROOT / compose["services"]["service"]["build"]["dockerfile"]).is_file()
    used = {mount.partition(":")[0] for service in compose["services"].values() for mount in service["volumes"]}
    assert used == set(compose["volumes"])


def test_containers_of_the_compose_file_have_few_rights() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for service in services.values():
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert {"mem_limit", "restart"} <= set(service)
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert (services["service"]["read_only"], services["service"]["cap_drop"]) == (True, ["ALL"])
    assert "--api-key-file" in services["service"]["command"]


def test_manifests_follow_the_schema_of_kubernetes() -> None:
    validate = Path(sys.executable).with_name("kubernetes-validate")
    output = run(validate, "--strict", DEPLOY / "kubernetes.yaml")
    assert re.findall(r"passed for resource (\w+)/", output) == [
        "deployment",
        "service",
        "poddisruptionbudget",
        "horizontalpodautoscaler",
        "networkpolicy",
    ]
    output = run(validate, "--strict", DEPLOY / "daily" / "cronjob.yaml")
    assert re.findall(r"passed for resource (\w+)/", output) == ["cronjob"]


def test_pods_wait_for_a_version_and_have_a_port_for_probes() -> None:
    deployment = next(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    arguments = container["args"]
    assert arguments[arguments.index("--probe-port") + 1] == str(ports["probes"])
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/readyz",
        "readiness": "/readyz",
        "liveness": "/healthz",
    }
    assert {probe["port"] for probe in probes.values()} == {"probes"}
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["probes"])


def test_the_unit_is_accepted_by_systemd(tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "lorentzrec.service"
    program = "/opt/lorentzrec/bin/lorentzrec"
    text = (DEPLOY / "lorentzrec.service").read_text()
    assert f"ExecStart={program} " in text
    unit.write_text(text.replace(program, sys.executable))
    assert "lorentzrec.service" not in run(systemd, "verify", unit)


def test_the_daily_unit_and_its_timer_are_accepted_by_systemd(tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "daily/lorentzrec-daily.service").read_text()
    (tmp_path / "lorentzrec-daily.service").write_text(text.replace("/opt/lorentzrec/bin/lorentzrec", sys.executable))
    shutil.copy(DEPLOY / "daily/lorentzrec-daily.timer", tmp_path)
    for unit in ("lorentzrec-daily.service", "lorentzrec-daily.timer"):
        assert "lorentzrec-daily" not in run(systemd, "verify", tmp_path / unit)
    assert "Next elapse" in run(
        systemd, "calendar", *re.findall(r"^OnCalendar=(.*)$", (tmp_path / unit).read_text(), re.M)
    )


def test_examples_of_the_daily_job_run_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("lorentzrec-daily.service", "crontab", "airflow_dag.py"):
        assert re.search(
            r"(lorentzrec|\$LORENTZREC) daily /var/lib/lorentzrec/daily\.toml", (DEPLOY / "daily" / name).read_text()
        )
    job = yaml.safe_load((DEPLOY / "daily/cronjob.yaml").read_text())["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert container["args"][0] == "daily"
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["values"] == [2, exit_code("check"), exit_code("publish")]
    ast.parse((DEPLOY / "daily/airflow_dag.py").read_text())
    (entry,) = re.findall(r"^[\d*].*$", (DEPLOY / "daily/crontab").read_text(), re.MULTILINE)
    assert re.fullmatch(r"(?:[\d*/,-]+ ){5}\S.*", entry)
    (tmp_path / "store.txt").write_text("file:/somewhere\n")
    (tmp_path / "daily.toml").write_text((DEPLOY / "daily/daily.toml").read_text())
    monkeypatch.chdir(tmp_path)
    assert read_config(tmp_path / "daily.toml").store == "file:/somewhere"


def test_each_alert_has_a_section_in_the_runbook_and_metrics_that_exist() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert all(set(rule) <= {"alert", "expr", "for", "labels", "annotations"} for rule in alerts)
    assert all(re.fullmatch(r"\d+[mh]", rule.get("for", "1m")) for rule in alerts)
    assert {rule["labels"]["severity"] for rule in alerts} == {"page", "ticket"}
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in alerts]
    for rule in alerts:
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["expr"].count("(") == rule["expr"].count(")")
    source = (ROOT / "src/lorentzrec/serving/worker/metrics.py").read_text()
    known = set(re.findall(r'"(lorentzrec_\w+)"', source)) | {"lorentzrec_request_seconds_bucket"}
    reported = (ROOT / "src/lorentzrec/daily/report.py").read_text()
    known |= {f"lorentzrec_daily_{name}" for name in re.findall(r'^ +\(?"(\w+)",', reported, re.MULTILINE)}
    known |= {f"lorentzrec_daily_{name}" for name in re.findall(r'\("(\w+)", "', reported)}
    named = {metric for rule in alerts for metric in re.findall(r"lorentzrec_\w+", rule["expr"])}
    assert named - known == set()


def test_alert_rules_are_accepted_by_prometheus_and_fire_when_they_should() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    assert "SUCCESS" in run(promtool, "check", "rules", DEPLOY / "prometheus-rules.yaml")
    assert "SUCCESS" in run(promtool, "test", "rules", ROOT / "tests/prometheus-rules-test.yaml")


def test_extras_and_copied_files_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for name in ("Dockerfile.service", "Dockerfile.train"):
        text = (DEPLOY / name).read_text()
        for extra in re.findall(r"'\.\[(.*)\]'", text)[0].split(","):
            assert re.search(rf"^{extra} = ", project, re.MULTILINE)
        for files in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
            assert all((ROOT / file).exists() for file in files.split())


def test_the_dashboard_shows_metrics_and_labels_of_a_running_service(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path) as service:
        service.http.get("/v1/users/nobody/recommendations")  # a fallback
        service.http.post("/v1/events", json={"user": "ann", "item": "i1"})
        families = list(text_string_to_metric_families(service.http.get("/metrics").text))
    store.close()
    known: dict[str, set[str]] = {}
    for sample in (sample for family in families for sample in family.samples):
        known.setdefault(sample.name, set()).update(sample.labels)
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert not [query for query in queries if "request_seconds" in query and 'route=~"/v1/.*"' not in query], (
        "no probes"
    )
    for query in queries:
        (metric,) = re.findall(r"lorentzrec_\w+", query)
        labels = re.findall(r"\b(\w+)=~?\"", query) + re.findall(r"by \((\w+)\)", query)
        assert set(labels) <= known[metric], query
