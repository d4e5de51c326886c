"""Relative paths of a scenario that a test describes."""

import json

from chaos.scenario.load import parse
from chaos.testing.paths import placed

SCENARIO = {
    "title": "Orders",
    "topics": [{"name": "orders"}, {"name": "invoices"}],
    "producers": [{"name": "shop", "topic": "orders", "records": 10, "value": {"samples": "o.jsonl", "id": "$.id"}}],
    "apps": [
        {
            "name": "billing",
            "command": ["python", "service.py"],
            "files": {"app.conf": "conf/app.conf"},
            "env": {"A": "{bootstrap}"},
        },
        {"name": "guest", "external": True, "reads": ["orders"], "group": "guests"},
        {"name": "box", "image": "shop/box", "env": {"A": "{bootstrap}"}},
    ],
    "effects": [
        {"name": "invoices", "topic": "invoices", "id": "$.id", "format": {"avro": "a.avsc"}},
        {"name": "rows", "sql": "sqlite:///shop.db", "query": "select id from invoice", "id": "id"},
        {"name": "secret", "sql": "file:url.txt", "query": "select id from invoice", "id": "id"},
        {"name": "out", "files": "out/*.jsonl", "id": "$.id"},
        {"name": "calls", "http": {"path": "/calls"}, "id": "$.id"},
    ],
}


def test_relative_paths_are_those_in_the_folder_and_nothing_else_changes(tmp_path):
    found = placed(SCENARIO, tmp_path)
    assert found["producers"][0]["value"] == {"samples": str(tmp_path / "o.jsonl"), "id": "$.id"}
    billing, guest, box = found["apps"]
    assert (billing["directory"], billing["files"]) == (str(tmp_path), {"app.conf": str(tmp_path / "conf/app.conf")})
    assert billing["command"] == ["python", "service.py"] and billing["env"] == {"A": "{bootstrap}"}
    assert (guest, box) == tuple(SCENARIO["apps"][1:])
    invoices, rows, secret, out, calls = found["effects"]
    assert invoices == SCENARIO["effects"][0] | {"format": {"avro": str(tmp_path / "a.avsc")}}
    assert rows["sql"] == f"sqlite:///{tmp_path}/shop.db" and secret["sql"] == f"file:{tmp_path}/url.txt"
    assert out["files"] == f"{tmp_path}/out/*.jsonl" and calls == SCENARIO["effects"][4]
    assert found["topics"] == SCENARIO["topics"] and SCENARIO["apps"][0]["files"] == {"app.conf": "conf/app.conf"}


def test_a_scenario_means_the_same_as_its_file_in_the_folder(tmp_path, monkeypatch):
    (tmp_path / "o.jsonl").write_text('{"id": "x"}\n')
    (tmp_path / "a.avsc").write_text('{"type": "record", "name": "I", "fields": [{"name": "id", "type": "string"}]}')
    in_its_folder = parse(json.dumps(SCENARIO), str(tmp_path / "s.yaml"))
    monkeypatch.chdir("/")
    assert parse(json.dumps(placed(SCENARIO, tmp_path)), "elsewhere") == in_its_folder


def test_an_invalid_part_is_left_to_the_loader(tmp_path):
    wrong = {
        "producers": [{"value": {"samples": 3}}, "x"],
        "apps": {"name": "a"},
        "effects": [{"files": "a", "sql": 1}],
    }
    assert placed(wrong, tmp_path) == wrong
