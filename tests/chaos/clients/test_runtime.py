"""The client libraries, found by their folders."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from chaos import clients
from chaos.clients.protocol import PROGRAMS, GroupConsumerSpec, ProducerSpec
from chaos.clients.runtime import DEFAULT, runtime
from chaos.errors import ClientError
from chaos.install.cache import silent

FOLDERS = sorted(path.parent.name for path in Path(clients.__path__[0]).glob("*/runtime.py"))
COMMON = {"run_id": "r", "run_token": "7f3a91c0", "ledger": "x", "client": "a/1", "bootstrap": "127.0.0.1:1"}


def test_the_default_library_has_a_folder_and_every_program() -> None:
    assert DEFAULT in FOLDERS
    assert set(runtime().programs) == set(PROGRAMS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_library_needs_no_installation_of_its_installed_release(folder: str) -> None:
    found = runtime(folder)
    assert found.prepare(None, silent) == found.prepare(found.installed_release(), silent) == {}
    assert found.consumer_defaults(None) == found.consumer_defaults(found.installed_release())


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_program_in_python_exists_and_gets_its_spec_as_the_last_argument(folder: str) -> None:
    spec = ProducerSpec.model_validate({**COMMON, "topic": "t", "records": 1, "value_size": 128})
    command = runtime(folder).command(spec, Path("spec.json"))
    assert command[-1] == "spec.json"
    assert "-m" not in command or find_spec(command[command.index("-m") + 1])


def test_a_library_without_a_program_for_a_spec_is_refused_with_both_names(monkeypatch: pytest.MonkeyPatch) -> None:
    never = {"when": "never", "kind": "sync"}
    spec = GroupConsumerSpec.model_validate({**COMMON, "topics": ["t"], "group": "g", "commit": never})
    monkeypatch.delitem(runtime().programs, "group_consumer")  # type: ignore[arg-type]
    with pytest.raises(ClientError, match="a/1 cannot run: confluent-kafka has no program for a group_consumer"):
        runtime().command(spec, Path("spec.json"))
