"""A user's mistake is one clear line with the documented exit code, no traceback, and nothing left running."""

import json
import os

import pytest

from tests.support.platform import chaos, left_running

pytestmark = pytest.mark.slow

RF_TOO_HIGH = """
title: impossible
cluster: {brokers: 2}
topics: [{name: orders, replication_factor: 3}]
producers: [{name: shop, topic: orders}]
"""


def refused(tmp_path, *arguments, env=None):
    ended = chaos(*arguments, env=env)
    assert ended.code == 2, ended.err
    assert "Traceback" not in ended.err
    assert left_running(tmp_path) == []
    return " ".join(ended.err.split())


def test_an_unknown_scenario_is_answered_with_the_nearest(tmp_path):
    assert "did you mean leader-kill" in refused(tmp_path, "run", "leader-kil", "--runs-dir", tmp_path)


def test_a_missing_file_is_named(tmp_path):
    assert "there is no scenario file" in refused(tmp_path, "run", tmp_path / "none.yaml", "--runs-dir", tmp_path)


def test_invalid_yaml_is_named_with_its_line(tmp_path):
    file = tmp_path / "broken.yaml"
    file.write_text("title: x\ntopics: [\n")
    assert "broken.yaml:3:1 is not valid YAML" in refused(tmp_path, "run", file, "--runs-dir", tmp_path)


def test_an_unknown_key_is_answered_with_the_nearest(tmp_path):
    said = refused(tmp_path, "run", "leader-kill", "--set", "producers.shop.recrods=1", "--runs-dir", tmp_path)
    assert "producers[0].recrods: unknown key (did you mean records?)" in said


def test_an_impossible_value_is_refused_before_anything_starts(tmp_path):
    file = tmp_path / "impossible.yaml"
    file.write_text(RF_TOO_HIGH)
    assert "3 replicas do not fit on 2 brokers" in refused(tmp_path, "run", file, "--runs-dir", tmp_path)


def test_a_kafka_release_that_does_not_exist_is_refused(tmp_path):
    said = refused(tmp_path, "run", "clean-run", "--kafka", "4.99.0", "--runs-dir", tmp_path)
    assert "4.99.0" in said


def test_a_machine_without_java_gets_the_package_to_install(tmp_path):
    env = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""}
    assert "there is no java on PATH" in refused(tmp_path, "run", "clean-run", "--runs-dir", tmp_path, env=env)


def test_a_taken_port_is_named(tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        listeners = f"cluster.config.listeners=PLAINTEXT://127.0.0.1:{port}"
        said = refused(tmp_path, "run", "clean-run", "--set", listeners, "--runs-dir", tmp_path)
    assert str(port) in said


def test_a_runs_dir_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot create" in refused(tmp_path, "run", "clean-run", "--runs-dir", tmp_path / "file" / "runs")


@pytest.mark.parametrize("content", [None, {}, {"resolved.json": "{"}, {"resolved.json": "{}"}])
def test_a_path_that_is_no_run_directory_is_refused(tmp_path, content):
    directory = tmp_path / "run"
    if content is not None:
        directory.mkdir()
        for name, text in content.items():
            (directory / name).write_text(text)
    assert str(directory) in refused(tmp_path, "audit", directory)


def test_usage_errors_exit_with_2(tmp_path):
    assert "No such option" in refused(tmp_path, "run", "clean-run", "--sed", "1")
    assert refused(tmp_path, "fly")
    wrong = refused(tmp_path, "run", "clean-run", "--seed", "abc")
    assert "error: Invalid value for '--seed': " in wrong and "─" not in wrong  # a line, and no box


def test_help_gives_an_example_for_every_command():
    for command in ("run", "audit", "list", "show", "schema", "up", "down", "ps", "gc", "dag", "java"):
        ended = chaos(command, "--help")
        assert ended.code == 0
        assert f"python -m chaos {command}" in " ".join(ended.out.split())


def test_list_show_and_schema_serve_scripts():
    assert "leader-kill" in json.loads(chaos("list", "--json").out)
    shown = json.loads(chaos("show", "leader-kill", "--json").out)
    assert shown["cluster"]["heap"] == "256MiB"
    assert json.loads(chaos("schema").out)["title"] == "Scenario"
