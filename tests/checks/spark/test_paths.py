"""Spark and Great Expectations start from any path, with any locale, time zone and home directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
from pathlib import Path

import checks
from checks import pipeline
from chaos.report.html import write_report
from tests.support.fake_runs import FakeRun

here = Path.cwd()
assert Path(checks.__file__).is_relative_to(here), checks.__file__
fake = FakeRun(here / "runs")
fake.write()
spark = pipeline.session("local[2]")
assert spark.sparkContext.parallelize([1, 2], 2).map(lambda n: (__import__("checks"), n)[1] + 1).collect() == [2, 3]
spark.range(5).write.parquet(str(here / "rows"))
assert spark.read.parquet(str(here / "rows")).count() == 5
assert spark._jvm.System.getProperty("java.io.tmpdir").startswith(str(here / "tmp"))
assert pipeline.validate(fake.run)
result = pipeline.report(fake.run)
assert fake.run.report.is_file() and (fake.run.gx / "uncommitted").is_dir()
print("done", result.verdict)
"""


@pytest.mark.nightly(twin="system/test_installed.py::test_a_scenario_runs_from_command_to_verdict")
@pytest.mark.parametrize("locale", ["LANG", "LC_ALL"])
def test_spark_starts_from_a_path_with_spaces_and_umlauts_under_the_c_locale(tmp_path: Path, locale: str) -> None:
    here = tmp_path / "Träge Läufe 1"
    for package in ("chaos", "checks"):
        shutil.copytree(ROOT / package, here / package, ignore=shutil.ignore_patterns("__pycache__"))
    (here / "tmp").mkdir()
    (here / "runs").mkdir()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG")) and k != "PYTHONPATH"},
        locale: "C",
        "PYTHONPATH": f"{here}{os.pathsep}{ROOT}",
        "TMPDIR": str(here / "tmp"),
        "TZ": "Asia/Kathmandu",
        "HOME": "/dev/null/home",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].startswith("done ")
