"""Values of the user in a scenario: their files are beside it, and what cannot be sent is refused with its line."""

import json

import pytest

from chaos.clients.protocol import ProducerSpec
from chaos.errors import ScenarioError
from chaos.fleet.specs import SpecBuilder, identities
from chaos.ledger.ids import number_id, text_id
from chaos.ledger.record import run_token
from chaos.run.directory import Run
from chaos.scenario.load import load
from chaos.scenario.resolve import Resolved, resolve

ORDERS = '{"id": "a", "n": 1, "customer": "c"}\n{"id": "b", "n": 2, "customer": "d"}\n'


@pytest.fixture
def scenario(tmp_path):
    """Return a function that loads a scenario with these entries, beside its file of samples."""
    (tmp_path / "orders.jsonl").write_text(ORDERS)

    def loaded(producer: str, topic: str = "", more: str = "", sets: tuple[str, ...] = ()):
        (tmp_path / "mine.yaml").write_text(
            f"title: t\ntopics: [{{name: orders{topic}}}]\nproducers:\n  - name: shop\n    topic: orders\n"
            f"    {producer}\n{more}"
        )
        return load(tmp_path / "mine.yaml", sets)

    return loaded


def resolved(scenario, tmp_path) -> Resolved:
    return resolve(scenario, run_id="r-1", name="t", created_us=1_795_776_000_000_000, seed=1, overrides=[])


def test_paths_begin_at_the_folder_of_the_scenario_and_the_type_of_the_id_is_found(scenario, tmp_path):
    value = scenario("value: {samples: orders.jsonl, id: $.n}").producers[0].value
    assert (value.samples, value.id_type) == (str(tmp_path / "orders.jsonl"), "number")
    assert scenario("value: {samples: orders.jsonl, id: $.id}").producers[0].value.id_type == "text"


def test_a_run_is_read_again_without_the_files(scenario, tmp_path):
    run = resolved(scenario("value: {samples: orders.jsonl, id: $.n}"), tmp_path)
    (tmp_path / "orders.jsonl").unlink()
    again = Resolved.model_validate_json(run.model_dump_json()).scenario
    assert again == run.scenario
    with pytest.raises(ScenarioError, match=r"producers\.shop\.value\.samples: there is no /.*orders\.jsonl"):
        resolved(again, tmp_path)


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        ("value: {samples: nowhere.jsonl}", "mine.yaml:6: producers[0].value.samples: "),
        ("value:\n      samples: orders.jsonl\n      id: $.order", "mine.yaml:8: producers[0].value.id: "),
        ("value: {samples: orders.jsonl, key: $.order}", "orders.jsonl:1 has no $.order"),
        ("value: {samples: orders.jsonl, ident: $.id}", "producers[0].value.ident: unknown key (did you mean id"),
        ("value: {}", "give exactly one of samples, template"),
        ("value: {samples: orders.jsonl, id: id}", "producers[0].value.id: 'id'"),
        ("keys: 9\n    value: {samples: orders.jsonl}", "keys: does not go with value; use value.key"),
        ("value_size: 200\n    value: {samples: orders.jsonl}", "value_size: does not go with value; use value.sizes"),
        ("tombstone_every: 9\n    value: {samples: orders.jsonl}", "tombstone_every: does not go with value"),
        (
            "partitioner: by_key_number\n    value: {samples: orders.jsonl, key: $.customer}",
            "by_key_number needs keys, and value has its own",
        ),
        (
            "client: java\n    value: {samples: orders.jsonl}",
            "has no values of the user: its programs write and read only Aftershock's own values",
        ),
        ("records: 70000000\n    value: {samples: orders.jsonl, id: $.n}", "producers[0].records: 70,000,000 records"),
        (
            "value: {samples: orders.jsonl, id: $.id, sizes: {field: $.customer, fixed: 2MiB}}",
            "producers[0].value.sizes: a payload has 2,097,152 bytes",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused(scenario, producer, expected):
    with pytest.raises(ScenarioError) as refused:
        scenario(producer)
    assert expected in str(refused.value)


def test_two_mistakes_are_two_lines(scenario):
    second = "  - {name: till, topic: orders, value: {samples: nowhere.jsonl}}\n"
    with pytest.raises(ScenarioError) as refused:
        scenario("value: {samples: orders.jsonl, id: $.x}", more=second)
    assert "mine.yaml:6: producers[0].value.id: " in str(refused.value)
    assert "mine.yaml:7: producers[1].value.samples: " in str(refused.value)


def test_an_option_that_names_no_file_is_the_origin(scenario):
    with pytest.raises(ScenarioError, match=r"--set producers\.shop\.value\.samples: producers"):
        scenario("value: {samples: orders.jsonl}", sets=("producers.shop.value.samples=none.jsonl",))


TOO_LONG = "config: {message.max.bytes: 1100}\n    value: {template: '{filler}', sizes: {fixed: 1001}}"


@pytest.mark.parametrize(
    ("topic", "producer"),
    [
        (", config: {max.message.bytes: 120}", "value: {samples: orders.jsonl}"),
        (", config: {max.message.bytes: 2000000}", TOO_LONG),
    ],
)
def test_a_record_that_nothing_takes_is_refused_and_one_that_fits_is_not(scenario, topic, producer):
    with pytest.raises(ScenarioError, match="takes records of"):
        scenario(producer, topic)
    compressed = producer.replace("config: {", "config: {compression.type: gzip, ")
    if "config" not in producer:
        compressed = f"config: {{compression.type: gzip}}\n    {producer}"
    assert scenario(compressed, topic)
    assert scenario("value: {template: '{filler}', sizes: {fixed: 1000}}", ", config: {max.message.bytes: 1100}")


def test_a_record_that_its_topic_takes_once_a_fault_has_raised_the_limit_is_not_refused(scenario):
    fault = "{name: f, kind: topic.config, settings: {max.message.bytes: %d}, target: {topic: orders}, when: {at: 1s}}"
    value, topic = "value: {template: '{filler}', sizes: {fixed: 1000}}", ", config: {max.message.bytes: 200}"
    assert scenario(value, topic, more=f"faults: [{fault % 2000}]\n")
    with pytest.raises(ScenarioError, match="takes records of 300 bytes"):
        scenario(value, topic, more=f"faults: [{fault % 300}]\n")


def test_a_consumer_that_cannot_read_the_header_is_refused(scenario):
    java = "consumers: [{mode: subscribe, name: billing, group: g, topics: [orders], client: java}]\n"
    with pytest.raises(ScenarioError, match=r"consumers\[0\]\.topics: the runtime java.* has no values of the user"):
        scenario("value: {samples: orders.jsonl}", more=java)
    assert scenario("value: {samples: orders.jsonl}", more=java.replace("java", "kafka-python"))


@pytest.mark.parametrize("kind", ["producer.crash", "producer.leave", "producer.fence"])
def test_without_a_mark_a_producer_has_one_incarnation(scenario, kind):
    extra = ", transactions: {records: 9}" if kind == "producer.fence" else ""
    fault = f"faults: [{{name: f, kind: {kind}, target: {{member: shop/1}}, when: {{acked: 9}}}}]\n"
    marked = f"value: {{samples: orders.jsonl, id: $.id}}{extra.replace(', ', chr(10) + '    ')}"
    assert scenario(marked, more=fault)
    with pytest.raises(ScenarioError, match="use mark: header"):
        scenario(marked.replace("$.id}", "$.id, mark: none}"), more=fault)


def test_a_compacted_topic_needs_a_key_of_value(scenario):
    compacted = ", config: {cleanup.policy: compact}"
    with pytest.raises(ScenarioError, match=r"producers\[0\]\.value\.key: orders is compacted"):
        scenario("value: {samples: orders.jsonl}", compacted)
    assert scenario("value: {samples: orders.jsonl, key: $.customer}", compacted)


def test_the_specs_of_clients_have_ids_in_turn(scenario, tmp_path):
    more = (
        "  - {name: plain, topic: orders, records: 9}\n  - {name: till, topic: orders, records: 70, value: {samples: "
    )
    more += "orders.jsonl, id: $.n, mark: none}}\n"
    run = resolved(
        scenario("count: 2\n    records: 50\n    value: {samples: orders.jsonl, id: $.id}", more=more), tmp_path
    )
    assert dict(run.ids.first) == {"shop/1": 0, "shop/2": 50, "till/1": 100}
    assert run.ids.most == 170
    builder = SpecBuilder(Run(tmp_path), run, lambda client: "127.0.0.1:9092")
    till, plain = (
        builder.build(run.scenario.producers[i], f"{run.scenario.producers[i].name}/1", 1, 0) for i in (2, 1)
    )
    assert isinstance(till, ProducerSpec) and isinstance(plain, ProducerSpec)
    assert till.number_from == number_id(run.created_us, 100, 0)
    assert plain.value is None
    assert run.ids.of("shop/2", 7, "text") == text_id(run_token("r-1"), "shop/2", 7)
    found = identities(run)
    assert found is not None
    assert (found.in_headers, list(found.unmarked)) == (["orders"], ["orders"])
    assert json.loads(found.model_dump_json())["most"] == 170


def test_without_values_specs_say_nothing_of_identities(scenario, tmp_path):
    assert identities(resolved(scenario("records: 9"), tmp_path)) is None
