"""The settings in an answer of a cluster, and its refusals."""

from types import SimpleNamespace

import pytest

from chaos.errors import ClusterError, UsageError
from chaos.kafka.admin import DescribedSetting, broker_settings, topic_settings


class Answers:
    """A cluster that gives one answer, and keeps the requests."""

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def ask(self, broker, message):
        self.asked.append((broker, message))
        return self.answer

    def ask_any(self, message):
        return self.ask(None, message)


def answer(error=0, **configs):
    found = [SimpleNamespace(name=n.replace("_", "."), value=v, config_source=s) for n, (v, s) in configs.items()]
    return SimpleNamespace(results=[SimpleNamespace(error_code=error, configs=found)])


def test_each_value_has_its_level_and_none_is_left_out():
    levels = {"a": ("1", 1), "b": ("2", 2), "c": ("3", 3), "d": ("4", 4), "e_f": ("5", 5)}
    found = topic_settings(Answers(answer(**levels, empty=("", 1), none=(None, 5), later=("x", 9))), "orders", ["a"])
    assert {name: (s.value, s.level) for name, s in found.items()} == {
        "a": ("1", "topic"),
        "b": ("2", "broker"),
        "c": ("3", "all brokers"),
        "d": ("4", "file"),
        "e.f": ("5", "default"),
        "empty": ("", "topic"),
    }


def test_a_broker_is_asked_for_its_own_settings():
    kafka = Answers(answer(a=("1", 4)))
    assert broker_settings(kafka, 7, ["a"]) == {"a": DescribedSetting("1", "file")}
    broker, message = kafka.asked[0]
    resource = message.resources[0]
    assert (broker, resource.resource_type, resource.resource_name) == (7, 4, "7")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (None, ClusterError, "the cluster did not answer for the settings of topic orders"),
        (answer(29), UsageError, "the user needs the right DescribeConfigs"),
        (answer(31), UsageError, "the user needs the right DescribeConfigs"),
        (answer(3), UsageError, "the cluster has no topic orders"),
        (answer(42), ClusterError, "refused the settings of topic orders: InvalidRequest"),
    ],
)
def test_a_refusal_is_one_line(given, error, said):
    with pytest.raises(error, match=said):
        topic_settings(Answers(given), "orders", ["a"])
