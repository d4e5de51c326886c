"""The environment of Airflow: its times allow for a slow machine."""

from itertools import pairwise

import pytest
import yaml

from chaos.errors import UsageError
from chaos.install import airflow
from chaos.install.airflow import PARSING, airflow_environment
from tests.support.platform import ROOT

NAMES = (
    "CORE__DAGBAG_IMPORT_TIMEOUT",
    "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL",
    "DAG_PROCESSOR__STALE_DAG_THRESHOLD",
)


def test_no_dag_is_deactivated_after_two_parses_that_took_too_long():
    (compose,) = [part["environment"] for name, part in _compose().items() if name == "x-airflow"]
    for env in (PARSING, compose):
        imports, limit, interval, stale = (int(env[f"AIRFLOW__{name}"]) for name in NAMES)
        good, *bad = (n * (interval + limit) for n in range(3))
        assert imports < limit
        assert bad[-1] - good < stale, "the second bad parse ends before the DAGs count as stale"
        assert all(b - a < stale for a, b in pairwise((good, *bad)))


def _compose():
    return yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))


def test_without_airflow_the_line_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    assert airflow_environment()["AIRFLOW_HOME"] == str(tmp_path / "home")
    monkeypatch.setattr(airflow, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'aftershock\[airflow\]'"):
        airflow_environment()
