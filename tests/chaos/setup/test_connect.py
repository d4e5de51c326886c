"""Workers of Kafka Connect in a scenario: their files, the groups of their sinks, and mistakes."""

from typing import Any

import pytest
from pydantic import ValidationError

from chaos.setup.apps import App
from chaos.setup.connect import WORKER, Connect

SINK = {"connector.class": "org.example.Sink", "topics": "orders", "tasks.max": 2}
SOURCE = {"connector.class": "org.example.Source", "file": "x"}


def worker(**changes: Any) -> App:
    plain = {"name": "sink", "connect": {"connectors": {"printed": SINK}}, "reads": ["orders"]}
    return App.model_validate(plain | changes)


def files_of(**values: Any) -> dict[str, dict[str, str]]:
    return Connect.model_validate({"connectors": {"printed": SINK}} | values).files("/p")


def test_the_group_of_the_only_sink_is_what_the_drain_waits_for():
    assert worker().group == "connect-printed"
    named = {"connectors": {"printed": {**SINK, "consumer.override.group.id": "mine"}, "read": SOURCE}}
    assert worker(connect=named).group == "mine"
    assert worker(connect={"connectors": {"read": SOURCE}}, reads=[]).group is None
    assert worker(group="another").group == "another"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"connect": {"connectors": {}}}, "at least 1 item"),
        ({"connect": {"connectors": {"a": {"topics": "x"}}}}, "connectors.a: give connector.class"),
        ({"connect": {"connectors": {"a": {**SINK, "name": "b"}}}}, "connectors.a.name: is the name of the entry"),
        ({"connect": {"connectors": {"a": SINK, "b": SINK}}}, "give the group of the sink that reads the inputs"),
        ({"connect": {"connectors": {"a": {**SINK, "table": "${topic}"}}}}, "{topic} is no placeholder"),
        ({"libraries": ["connect-file"]}, "'connect-file' names no release of a library"),
        ({"arguments": ["x"]}, "its settings are in connect.config"),
        ({"command": "x"}, "exactly one of command, program, image, connect, postgres, external"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_give(changes, message):
    with pytest.raises(ValidationError) as refused:
        worker(**changes)
    assert message in str(refused.value)


def test_distributed_workers_get_one_file_and_share_their_topics():
    files = files_of(config={"offset.flush.interval.ms": 500})
    assert list(files) == [WORKER]
    settings = files[WORKER]
    assert settings["plugin.path"] == "/p" and settings["offset.flush.interval.ms"] == "500"
    assert settings["group.id"] == "{app}" and settings["config.storage.topic"] == "{app}-config"


def test_a_standalone_worker_has_its_connectors_in_files_and_its_offsets_in_its_folder():
    files = files_of(mode="standalone")
    assert list(files) == [WORKER, "printed.properties"]
    assert files["printed.properties"] == {"name": "printed", **SINK, "tasks.max": "2"}
    assert files[WORKER]["offset.storage.file.filename"].startswith("{data}/") and "group.id" not in files[WORKER]


def test_a_setting_of_the_user_goes_before_the_own_one():
    files = files_of(config={"value.converter": "org.example.C"})
    assert files[WORKER]["value.converter"] == "org.example.C"
