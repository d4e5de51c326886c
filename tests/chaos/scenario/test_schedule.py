"""`schedule:` of a scenario: values that Airflow accepts are accepted, others are refused with the reason."""

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import parse

SCENARIO = "{title: t, topics: [{name: orders}], producers: [{name: shop, topic: orders}], schedule: %s}"


@pytest.mark.parametrize(
    "text", ["'30 2 * * *'", "'*/5 * * * *'", "'0 0 * * mon-fri'", "'0 0 29 2 *'", "'@daily'", "'@quarterly'", "null"]
)
def test_a_schedule_that_airflow_accepts_is_accepted(text):
    assert parse(SCENARIO % text, "test").schedule == (text.strip("'") if text != "null" else None)


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_another_schedule_is_refused_with_the_reason(text, message):
    with pytest.raises(ScenarioError) as e:
        parse(SCENARIO % text, "mine.yaml")
    assert message in str(e.value) and "mine.yaml" in str(e.value) and "schedule" in str(e.value)


def test_presets_are_those_of_airflow():
    dates = pytest.importorskip("airflow.utils.dates")
    from chaos.setup.model import SCHEDULES

    assert dates.cron_presets == SCHEDULES
