"""Producers of rows: what they need, what they refuse, and what names them."""

import pytest

from chaos.drive.stages import _database_warnings
from chaos.effects.before import warnings
from chaos.errors import ScenarioError, UsageError
from chaos.scenario.effect_rules import input_topic
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve
from chaos.setup.names import prefixed

SCENARIO = """
title: Rows
topics: [{{name: changes}}]
producers:
  - {{name: shop, rows: {rows}, value: {value}{more}}}
apps: [{app}]
effects: [{{name: found, topic: changes, id: $.id{effect}}}]
"""
DATABASE = "{name: db, postgres: {}}"
TABLE = "{sql: 'app:db', insert: 'insert into t values (:id)'}"
VALUE = """{template: '{{"id": "{{id}}"}}'}""".replace("{{", "{").replace("}}", "}")


def scenario(rows=TABLE, value=VALUE, more="", app=DATABASE, effect=""):
    return parse(SCENARIO.format(rows=rows, value=value, more=more, app=app, effect=effect), "rows.yaml")


def test_rows_are_inputs_that_effects_name_by_their_producer():
    (shop,) = scenario(effect=", of: shop").producers
    assert (shop.written, shop.inputs) == ([], ["shop"])
    assert shop.rows is not None and shop.rows.app == "db"
    assert scenario().client_libraries == []


def test_a_file_is_named_by_its_producer():
    command = "{name: tail, command: [cat, '{rows.shop}', '{bootstrap}']}"
    (shop,) = scenario(rows="{file: orders}", app=command).producers
    assert shop.rows is not None and shop.rows.app is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": "{}"}, "exactly one of sql, file"),
        ({"rows": "{sql: 'app:db'}"}, "insert: goes with sql"),
        ({"rows": "{file: a, insert: 'insert :id'}"}, "insert: goes with sql"),
        ({"rows": "{sql: 'jdbc:postgresql://h/d', insert: 'insert into t values (:id)'}"}, "through SQLAlchemy"),
        ({"rows": "{sql: 'postgresql://me:pw@h/d', insert: 'insert into t values (:id)'}"}, "a login is not written"),
        ({"rows": "{sql: 'app:db', insert: \"insert into t values ('x'::text)\"}"}, "names no field of the value"),
        ({"rows": "{sql: 'app:other', insert: 'insert into t values (:id)'}"}, "no application 'other' of the run"),
        ({"value": "{template: x}"}, "each has an id"),
        ({"more": ", keys: 4"}, "keys: is for records of a topic"),
        ({"more": ", transactions: {records: 4}"}, "transactions: is for records of a topic"),
        ({"more": ", client: 'java:4.3.1'"}, "client: is for records of a topic"),
        ({"more": ", config: {linger.ms: 5}"}, "config: is for records of a topic"),
        ({"more": ", topic: changes"}, "exactly one of topic, topics, rows"),
        ({"effect": ", equals: $.id"}, "the values of rows are not compared"),
        (
            {"effect": "}, {name: e, sql: 'app:x', query: q, of: shop"},
            "effects[1].sql: no application 'x' of the run",
        ),
        ({"effect": ", of: changes"}, "no producer writes inputs with ids to changes"),
        (
            {"app": "{name: x, command: [cat, '{port.y}', '{bootstrap}']}"},
            "apps[0].command[1]: 'y' is not one of the apps",
        ),
        ({"app": "{name: x, command: [cat, '{rows.shop}', '{bootstrap}']}"}, "no producer 'shop' has rows.file"),
        ({"app": "{name: db, postgres: {}, instances: 2}"}, "postgres: is one instance"),
        ({"app": "{name: db, postgres: {database: 'a; drop'}}"}, "postgres.database"),
    ],
)
def test_a_mistake_is_one_line(changes, message):
    with pytest.raises(ScenarioError) as refused:
        scenario(**changes)
    assert message in str(refused.value), refused.value


def test_a_producer_of_rows_has_another_name_than_a_topic():
    given = SCENARIO.format(rows=TABLE, value=VALUE, more="", app=DATABASE, effect="").replace("changes", "shop")
    with pytest.raises(ScenarioError, match="shop is a topic, too"):
        parse(given, "rows.yaml")


def test_on_an_existing_cluster_a_producer_of_rows_has_no_prefix():
    found = scenario(effect=", of: shop")
    with_prefix = prefixed(found, "aftershock-r-0a1b2c-")
    (effect,) = with_prefix.effects
    assert effect.topics == ("aftershock-r-0a1b2c-changes",)
    assert input_topic(with_prefix, effect) == input_topic(found, found.effects[0]) == "shop"


def test_a_reference_to_no_database_ends_a_run_before_it_begins(monkeypatch):
    monkeypatch.delenv("SHOP_DB", raising=False)
    with pytest.raises(UsageError, match=r"producers: shop: rows\.sql: the environment variable SHOP_DB is not set"):
        _database_warnings(scenario(rows="{sql: 'env:SHOP_DB', insert: 'insert into t values (:id)'}"))


def test_an_effect_may_be_a_row_of_a_database_of_the_run():
    found = scenario(effect="}, {name: rows, sql: 'app:db', query: select id from t, of: shop")
    resolved = resolve(found, run_id="r", name="rows", created_us=1, seed=1, overrides=[])
    first, second = resolved.with_databases({"db": "sqlite:///x.db"}).scenario.effects
    assert (first.sql, second.sql, found.effects[1].app) == (None, "sqlite:///x.db", "db")
    assert warnings(found.effects, hidden=False) == []  # it has not been started yet
