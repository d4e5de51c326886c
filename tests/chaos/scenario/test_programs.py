"""The programs of applications that a run records: the files of their commands, without what they write."""

import sqlite3

from chaos.scenario.inputs import programs_notes, programs_of, programs_problems
from chaos.scenario.load import load

SCENARIO = """
title: Billing
topics: [{name: orders}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
apps:
  - {name: a, command: [cat, service.py, b.db, out/a.jsonl, rules.jsonl], env: {K: "{bootstrap}"}, reads: [orders]}
effects:
  - {name: lines, files: 'out/*.jsonl', id: $.id}
"""


def test_what_an_application_writes_is_none_of_its_programs(tmp_path):
    (tmp_path / "out").mkdir()
    for name in ("service.py", "out/a.jsonl", "rules.jsonl"):
        (tmp_path / name).write_text("{}")
    with sqlite3.connect(tmp_path / "b.db") as db:
        db.execute("create table invoice (id)")
    (tmp_path / "mine.yaml").write_text(SCENARIO)
    scenario = load(tmp_path / "mine.yaml")
    then = programs_of(scenario)
    assert then["a"].keys() == {"service.py", "rules.jsonl"}
    (tmp_path / "rules.jsonl").write_text("other")
    for written in ("b.db", "out/a.jsonl"):
        (tmp_path / written).unlink()
    assert programs_notes(scenario, then) == ["apps.a: rules.jsonl is another file than it was then"]
    assert list(programs_problems(scenario, then)) == []
