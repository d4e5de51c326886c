"""`schedule:` of a scenario: what Airflow understands is taken as it is, all else is refused with the reason."""

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse

SCENARIO = "{title: t, topics: [{name: orders}], producers: [{name: shop, topic: orders}], schedule: %s}"


@pytest.mark.parametrize(
    "given", ["'30 2 * * *'", "'*/5 * * * *'", "'0 0 * * mon-fri'", "'0 0 29 2 *'", "'@daily'", "'@quarterly'", "null"]
)
def test_what_airflow_understands_is_taken(given):
    assert parse(SCENARIO % given, "test").schedule == (given.strip("'") if given != "null" else None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("'61 * * * *'", "'61 * * * *' is no cron expression"),
        ("'0 0 30 2 *'", "one that never fires"),
        ("'* * * *'", "has 4 fields and a cron expression five"),
        ("'* * * * * *'", "has 6 fields"),
        ("''", "has 0 fields"),
        ("'R 2 * * *'", "H and R are not supported"),
        ("'@nightly'", "is no preset; there are @hourly, @daily"),
        ("'@once'", "is no preset"),
        ("5", "schedule"),
    ],
)
def test_what_it_does_not_is_refused_with_the_reason(given, words):
    with pytest.raises(ScenarioError) as e:
        parse(SCENARIO % given, "mine.yaml")
    assert words in str(e.value) and "mine.yaml" in str(e.value) and "schedule" in str(e.value)


def test_presets_are_airflows_own():
    dates = pytest.importorskip("airflow.utils.dates")
    from chaos.scenario.schedule import PRESETS

    assert dates.cron_presets == PRESETS
