"""The client libraries, found by their folders."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from chaos import clients
from chaos.clients.choice import DEFAULT, RUNTIMES, Client
from chaos.clients.protocol import PROGRAMS, GroupConsumerSpec, ProducerSpec
from chaos.clients.runtime import Installed, prepare, runtime
from chaos.errors import ClientError, ScenarioError, UsageError
from chaos.install.cache import silent
from chaos.scenario.load import load
from chaos.scenario.resolve import check_programs, resolve

FOLDERS = sorted(path.parent.name for path in Path(clients.__path__[0]).glob("*/runtime.py"))
COMMON = {"run_id": "r", "run_token": "7f3a91c0", "ledger": "x", "client": "a/1", "bootstrap": "127.0.0.1:1"}


def test_each_runtime_of_a_scenario_has_a_folder_and_the_other_way_round() -> None:
    assert sorted(name.replace("-", "_") for name in RUNTIMES) == FOLDERS
    assert all(runtime(name).traits is traits for name, traits in RUNTIMES.items())


def test_the_default_library_needs_no_installation_and_has_every_program() -> None:
    installed = prepare(Client(), silent)
    assert installed == prepare(Client(release=runtime().default_release()), silent)
    assert set(installed.programs) == set(PROGRAMS)
    assert not installed.env


@pytest.mark.parametrize("name", FOLDERS)
def test_a_library_has_the_same_consumer_defaults_in_the_release_that_runs_by_default(name: str) -> None:
    found = runtime(name)
    assert found.consumer_defaults(None) == found.consumer_defaults(found.default_release())


def test_each_program_in_python_exists_and_gets_its_spec_as_the_last_argument() -> None:
    spec = ProducerSpec.model_validate({**COMMON, "topic": "t", "records": 1, "value_size": 128})
    installed = prepare(Client(runtime=DEFAULT), silent)
    command = installed.command(spec, Path("spec.json"))
    assert command[-1] == "spec.json"
    assert find_spec(command[command.index("-m") + 1])


def test_a_library_without_a_program_for_a_spec_is_refused_with_both_names() -> None:
    never = {"when": "never", "kind": "sync"}
    spec = GroupConsumerSpec.model_validate({**COMMON, "topics": ["t"], "group": "g", "commit": never})
    with pytest.raises(ClientError, match="a/1 cannot run: confluent-kafka has no program for a group_consumer"):
        Installed("confluent-kafka", {}).command(spec, Path("spec.json"))


def own(tmp_path: Path, **client: Any) -> Path:
    """Return the file of a scenario with a client of the user."""
    file = tmp_path / "own.yaml"
    producer = {"name": "shop", "topic": "orders", "client": client}
    file.write_text(json.dumps({"title": "t", "topics": [{"name": "orders"}], "producers": [producer]}))
    return file


def test_a_program_of_the_user_runs_every_program_of_an_entry_from_the_folder_of_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text("pass")
    scenario = load(own(tmp_path, command="env -i client.py --fast"))
    (client,) = scenario.client_libraries
    assert client.command == ("env", "-i", str(tmp_path / "client.py"), "--fast")
    assert client.describe() == "client.py"
    assert prepare(client, silent).programs["producer"] == client.command
    assert "client.py" not in resolve(scenario, run_id="r", name="own", created_us=1, seed=1, overrides=[]).versions, (
        "the release of an own program is not known"
    )


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ({"command": "a 'b"}, "cannot be split into words"),
        ({"command": []}, "at least 1"),
        ({"command": "a", "runtime": "java", "heap": "96MiB"}, "a program of your own has no heap"),
    ],
)
def test_a_program_of_the_user_that_cannot_be_is_refused(tmp_path: Path, client: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load(own(tmp_path, **client))


def test_a_program_of_the_user_that_is_missing_is_named_before_the_start(tmp_path: Path) -> None:
    file = own(tmp_path, command="no-such-client")
    with pytest.raises(UsageError, match=r"own.yaml:1: producers.shop.client.command: .* 'no-such-client'"):
        check_programs(load(file), file)
