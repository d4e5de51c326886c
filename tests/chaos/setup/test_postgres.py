"""Standbys of a scenario: what they follow, and what is refused."""

import re

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import of_mapping
from chaos.setup.postgres import READY, Postgres


def scenario(**servers):
    return {
        "title": "t",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "shop", "topic": "orders", "value": {"template": '{"id": "{id}"}'}}],
        "effects": [{"name": "rows", "sql": "app:reserve", "query": "select id from orders"}],
        "apps": [{"name": name, "postgres": server} for name, server in servers.items()],
    }


def test_a_standby_follows_another_server_of_the_scenario():
    loaded = of_mapping(scenario(db={"setup": ["select 1"]}, reserve={"standby_of": "db"}), "t.yaml")
    assert [app.postgres.standby_of for app in loaded.apps] == [None, "db"]


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ({"reserve": {"standby_of": "db"}}, "apps[0].postgres.standby_of: 'db' is no other application with postgres"),
        ({"db": {"standby_of": "db"}}, "apps[0].postgres.standby_of: 'db' is no other application with postgres"),
        (
            {"db": {}, "a": {"standby_of": "db"}, "b": {"standby_of": "a"}},
            "apps[2].postgres.standby_of: a is a standby too; give db",
        ),
        (
            {"db": {"database": "books"}, "a": {"standby_of": "db"}},
            "db has release 17.5.0 and database books; give both here too",
        ),
        ({"db": {}, "a": {"standby_of": "db", "setup": ["select 1"]}}, "a standby has what db has; leave setup out"),
    ],
)
def test_what_a_standby_cannot_follow_is_refused(servers, message):
    with pytest.raises(ScenarioError) as refused:
        of_mapping(scenario(**servers), "t.yaml")
    assert message in str(refused.value)


def test_a_standby_is_ready_when_it_answers_queries():
    for line in ("read-only connections", "connections"):
        assert re.search(READY, f"LOG:  database system is ready to accept {line}")
    assert not re.search(READY, "LOG:  database system is shut down")
    assert Postgres(database="shop").url(1) == "postgresql+psycopg2://aftershock@127.0.0.1:1/shop"
