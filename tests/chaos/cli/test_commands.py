"""The list of commands, which the help shows without importing any of them."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from chaos.cli import COMMANDS, app, main

HEAVY = ("pydantic", "yaml", "confluent_kafka", "kafka", "pyarrow", "numpy", "sqlalchemy", "docker")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_an_example(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    group = "─ Commands ─" in done.output  # a group has the examples of its commands
    assert group or f"Example: python -m chaos {name}" in done.output


def test_the_help_lists_each_command_with_its_summary() -> None:
    said = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "300"}).output.split())
    for name, (_, summary) in COMMANDS.items():
        assert f"{name} {summary}" in said


def test_an_unknown_command_is_named_with_the_nearest_one() -> None:
    done = CliRunner().invoke(app, ["catalog"])
    assert done.exit_code == 2
    assert "Did you mean 'catalogue'" in done.output


@pytest.mark.parametrize(("argument", "light"), [("--help", HEAVY), ("list", HEAVY[2:])])
def test_a_light_command_imports_nothing_heavy(argument: str, light: tuple[str, ...]) -> None:
    code = f"import sys; sys.argv = ['chaos', {argument!r}]\ntry:\n import chaos.__main__\nexcept SystemExit: pass\n"
    code += f"print('loaded', [m for m in {list(light)!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_ctrl_c_ends_with_one_line_that_nothing_is_left(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("chaos.scenario.shipped.titles", interrupted)
    monkeypatch.setattr("sys.argv", ["chaos", "list", "--json"])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted; everything of the run was ended, and nothing is left running\n"


TWICE = """
import os, signal, sys, chaos.scenario.shipped

def interrupted():
    try:
        os.kill(os.getpid(), FIRST)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        print("ended all", flush=True)

chaos.scenario.shipped.titles = interrupted
sys.argv = ["chaos", "list", "--json"]
import chaos.__main__
"""


@pytest.mark.parametrize("first", ["SIGINT", "SIGTERM"])
def test_a_second_ctrl_c_does_not_break_off_the_end_of_what_runs(first):
    code = TWICE.replace("FIRST", f"signal.{first}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "ended all\n"), done.stderr
    *patient, last = done.stderr.splitlines()
    assert patient == ["still ending everything of the run"] * 2
    assert last == "interrupted; everything of the run was ended, and nothing is left running"


def test_ctrl_c_during_the_import_is_one_line():
    code = "import sys\nclass Stop:\n def find_spec(self, name, *a):\n  if name == 'typer': raise KeyboardInterrupt\n"
    code += "sys.meta_path.insert(0, Stop())\nimport chaos.__main__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted; nothing was started\n")
