"""The client libraries, found by their folders."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from chaos import clients
from chaos.clients.choice import DEFAULT, RUNTIMES, Client
from chaos.clients.protocol import PROGRAMS, GroupConsumerSpec, ProducerSpec
from chaos.clients.runtime import Installed, prepare, runtime
from chaos.errors import ClientError
from chaos.install.cache import silent

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
