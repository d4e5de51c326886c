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
    group = "─ Commands ─" in done.output  # the examples of a group are those of its commands
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
