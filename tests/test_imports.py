"""Imports point one way: dags to chaos and checks, checks to a few parts of chaos, chaos to neither."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED_TO_CHECKS = {
    "databases",
    "anomalies",
    "clients.choice",
    "clients.streams.traits",
    "compare.model",
    "compare.rounds",
    "effects",
    "errors",
    "faults",
    "guarantees.contract",
    "install.cache",
    "install.jars",
    "install.java",
    "install.locations",
    "kafka.offsets_log",
    "kafka.partition",
    "kafka.security",
    "kafka.settings",
    "ledger",
    "relay.log_capture",
    "report",
    "run",
    "scenario",
    "setup",
    "units",
    "values",
    "wait",
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _allowed(part):
    return any(part == name or part.startswith(f"{name}.") for name in ALLOWED_TO_CHECKS)


def modules(folder):
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", modules("chaos"), ids=str)
def test_chaos_imports_neither_half_above_it_nor_airflow_spark_or_gx(path):
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"checks", "dags", "airflow", "pyspark", "great_expectations"}


@pytest.mark.parametrize("path", modules("checks"), ids=str)
def test_checks_imports_only_the_contracts_of_chaos(path):
    names = set(imported(path))
    assert not {n.split(".")[0] for n in names} & {"dags", "airflow"}
    foreign = {n for n in names if n.startswith("chaos.") and not _allowed(n.removeprefix("chaos."))}
    assert foreign == set()


def test_no_module_outside_a_client_library_imports_more_of_it_than_its_traits():
    libraries = [path.parent for path in (ROOT / "chaos" / "clients").glob("*/runtime.py")]
    assert libraries
    for path in [*modules("chaos"), *modules("checks"), *modules("dags")]:
        foreign = tuple(f"chaos.clients.{library.name}." for library in libraries if library not in path.parents)
        names = [name.removeprefix("chaos.clients.").split(".") for name in imported(path) if name.startswith(foreign)]
        assert not [name for name in names if name[1] != "traits"], path


def test_the_docker_folder_never_hides_the_docker_sdk():
    assert not (ROOT / "docker" / "__init__.py").exists()


@pytest.mark.parametrize("path", [*modules("chaos"), *modules("checks"), *modules("dags")], ids=str)
def test_a_module_fits_one_reading(path):
    assert len(path.read_text().splitlines()) <= 600
    assert path.stem != "utils"


def named(path):
    """Return the dotted name of a module of this tree."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {named(path): path for folder in ("chaos", "checks") for path in sorted((ROOT / folder).rglob("*.py"))}


def children(package):
    """Return, for each direct child of a package, the siblings that its modules import, lazily or not."""
    below = {name: path for name, path in MODULES.items() if name.startswith(f"{package}.")}
    graph: dict[str, set[str]] = {}
    for name, path in below.items():
        child = name.removeprefix(f"{package}.").partition(".")[0]
        targets = {t for t in imported(path) if t.startswith(f"{package}.") and t in MODULES}
        siblings = {t.removeprefix(f"{package}.").partition(".")[0] for t in targets}
        graph.setdefault(child, set()).update(siblings - {child})
    return graph


PACKAGES = sorted({"chaos", "checks"} | {name for name, path in MODULES.items() if path.name == "__init__.py"})


@pytest.mark.parametrize("package", PACKAGES)
def test_the_children_of_a_package_import_each_other_one_way(package):
    try:
        TopologicalSorter(children(package)).prepare()
    except CycleError as e:
        pytest.fail(f"an import cycle in {package}: {' -> '.join(e.args[1])}")


def test_to_load_a_scenario_imports_no_client_of_kafka():
    """Each Spark worker of an audit loads one, and each command: faults import what speaks to brokers when they act."""
    asked = "import sys; import checks.audit.rules.registry, chaos.scenario.load; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    clients = {"kafka", "confluent_kafka", "docker", "chaos.kafka.client", "chaos.relay.rules", "cryptography"}
    assert clients & set(loaded.split()) == set()


def test_a_look_at_the_history_loads_no_scenario():
    asked = "import sys; import chaos.history.recording, chaos.history.store, chaos.history.trends; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"chaos.scenario.model", "chaos.faults"} & set(loaded.split()) == set()


@pytest.mark.slow
def test_a_process_without_a_main_file_survives_the_import_of_great_expectations():
    """PySpark ends such a process, with exit code 0, if packages of its extra `connect` are missing."""
    asked = "import checks.expectations.validate; print('survived')"
    ended = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("survived\n"), ended.stderr[-400:]
