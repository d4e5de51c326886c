"""The first look at an application: what is proposed from what it does."""

import json
import re
import sys
from types import SimpleNamespace

import pytest
import yaml

from chaos.apps.trial import COMMITTED, Asked, effect_words, scenario_of, write_scenario
from chaos.drive import look
from chaos.drive.look import Seen, all_committed, proposed
from chaos.drive.written import either_of, of_inputs, per_sample, place_of
from chaos.errors import UsageError
from chaos.kafka.partition import TopicPartition
from chaos.scenario.load import load, parse
from chaos.setup.effects import PerInput
from tests.support.platform import chaos, left_running

IDS = ["7f-shop-1-0", "7f-shop-1-1", 12]


class Record:
    def __init__(self, value=b"", key=None, headers=None):
        self._parts = value, key, headers

    def value(self):
        return self._parts[0]

    def key(self):
        return self._parts[1]

    def headers(self):
        return self._parts[2]


@pytest.mark.parametrize(
    ("records", "place"),
    [
        ([Record(b'{"for": {"id": "7f-shop-1-0"}}'), Record(b'{"for": {"id": "7f-shop-1-1"}}')], "$.for.id"),
        ([Record(b'{"order": 12}', b"12")], "$.order"),
        ([Record(b'{"for": [1, {"order-id": 12}]}')], '$.for[1]."order-id"'),
        ([Record(b'{"ids": [1, 2, 3, 4, 5, 12]}')], None),  # an item that is there by chance
        ([Record(b'{"all": [{"id": 12}]}'), Record(b'{"all": [{"id": 12}, {"id": "7f-shop-1-0"}]}')], "$.all[*].id"),
        ([Record(b'{"all": [{"id": 12}, {"id": "another"}]}')], "$.all[0].id"),
        ([Record(b'{"all": []}'), Record(b'{"all": [{"id": 12}]}')], "$.all[*].id"),
        ([Record(b"[]"), Record(b"[12]")], "$[*]"),
        ([Record(b'{"all": {}}'), Record(b'{"all": [{"id": 12}]}')], None),
        ([Record(b'{"all": []}')], None),
        ([Record(b"\0\0\0\0\7" + b'{"order": 12}')], "$.order"),  # with the id of a schema before it
        ([Record(b"\x00\x01", b"7f-shop-1-1")], "key"),
        ([Record(b"text", None, [("order", b"7f-shop-1-0"), ("none", None)])], "header:order"),
        ([Record(b'{"order": "7f-shop-1-0"}'), Record(b'{"order": "another"}')], None),
        ([Record(None, None)], None),
        ([], None),
    ],
)  # fmt: skip
def test_the_place_of_an_id_is_where_every_record_has_the_id_of_an_input(records, place):
    assert place_of(records, IDS) == place


def batch(ids):
    return Record(json.dumps({"sent": [{"id": one, "by": "me"} for one in ids]}).encode())


def of(*ids):
    return [Record(json.dumps({"id": one}).encode()) for one in ids]


@pytest.mark.parametrize(
    ("records", "samples", "per"),
    [
        (of("a", "b", "c", "d"), 2, (1, 1)),
        (of("a", "b", "c", "d"), 4, (1, 1, 1, 1)),  # each has one: another round would show nothing
        (of("a", "a", "a", "c", "c", "c"), 2, (3, 0)),
        (of("b", "d"), 2, (0, 1)),
        (of("a", "b", "c"), 2, None),  # the second sample has one, and none
        (of("a", "c"), 4, None),  # nothing says whether a sample leads to it, or an input
        (of("a", "x"), 2, None),
        ([*map(batch, ("ab", "c", "d"))], 2, (1, 1)),
        ([*map(batch, ("ab", "cda", "c"))], 2, (2, 1)),
        ([*map(batch, ("ab", "cd", "a"))], 2, None),
        ([Record(b"\x00\x01", b"other")], 2, None),
    ],
)
def test_the_number_of_records_of_an_input_is_believed_if_each_input_of_its_sample_has_it(records, samples, per):
    assert per_sample(records, ["a", "b", "c", "d"], samples) == per


@pytest.mark.parametrize(
    ("uneven", "found"),
    [
        ({"one": of("a"), "two": of("b", "c", "d")}, [("two", "one")]),  # by a hash of the id
        ({"one": of("a"), "two": of("b", "c")}, []),  # nothing for an input from the second sample
        ({"one": of("a", "b"), "two": of("b", "c", "d")}, []),  # one input leads to both
        ({"log": of("b"), "one": of("a", "c"), "two": of("b", "d")}, [("one", "two")]),
        (
            {"one": of("a"), "two": of("b", "c", "d"), "x": of("a", "b", "c"), "y": of("d")},
            [("two", "one"), ("x", "y")],
        ),
        ({"one": of("a"), "two": of("c")}, [("one", "two")]),  # a filter by the sample before a router by the id
        ({"one": of("a")}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_topics_that_have_one_record_for_each_input_together_are_one_effect(uneven, found):
    assert [*either_of(uneven, ["a", "b", "c", "d"], 2)] == found


def test_records_for_inputs_of_other_topics_do_not_count():
    """Each topic gets other ids, as in the run that follows: what joins two topics by the id finds no pair there."""
    own, other, none = of("a", "b", "?")
    both = Record(b'{"left": "a", "right": "b"}')
    written = {"joined": [other], "bills": [own, other, both, none]}
    assert of_inputs(written, ["a"], ["b"]) == {"bills": [own, both, none]}
    assert of_inputs(written, ["a"], []) == written


@pytest.mark.parametrize(
    ("batches", "samples", "why"),
    [
        ([b'{"id": "a"}'] * 3, 1, "3 records for 2 inputs, another number each time for the same sample"),
        ([b'{"id": "a"}'] * 3, 5_000, "3 records for 2 inputs, more than the"),
    ],
)
def test_a_topic_that_is_no_effect_is_named_with_its_reason(batches, samples, why):
    one = SimpleNamespace(_asked=SimpleNamespace(app="a"), _together=lambda written, *_: written)
    written = {"batches": list(map(Record, batches)), "bills": of("a", "b")}
    seen = look._Look._judged(one, ("orders",), written, ["a", "b"], samples)
    assert re.match(why, seen.others["batches"])
    assert samples > 1 or list(seen.writes) == ["bills"]


@pytest.mark.parametrize("receipts", [("b",), ("a", "b"), ("?",)])
def test_a_topic_with_records_for_inputs_of_other_topics_only_is_named(tmp_path, receipts):
    (tmp_path / "s").write_text('{"id": "x"}\n')
    asked = Asked(["a.py"], ["orders", "payments"], [], tmp_path / "s", "$.id", tmp_path)
    written = {"invoices": [of("a")[0]], "receipts": list(of(*receipts))}
    one = SimpleNamespace(
        _asked=asked,
        _send=lambda *_: (["a"], ["b"]),
        _writes=lambda *_: written,
        _judged=lambda reads, *_: Seen(reads, None),
    )
    found = look._Look._effects(one, None, ("orders", "payments"), [])
    assert found.apart == (["receipts"] if receipts == ("b",) else [])


def test_the_number_of_records_of_an_input_is_in_the_scenario(tmp_path):
    (tmp_path / "s").write_text('{"id": "x"}\n{"id": "y"}\n')
    writes, per = {"all": "$.id", "some": "$.id", "parts": "$.id"}, {"some": (1, 0), "parts": (3, 3)}
    asked = Asked(["a.py"], ["in"], [], tmp_path / "s", "$.id", tmp_path)
    made = scenario_of(proposed(asked, Seen(("in",), None, writes, per)))
    found = {effect.name: effect.per for effect in parse(json.dumps(made), "x").effects}
    write_scenario(made, tmp_path / "s.yaml")
    assert "samples: [1, 0]" in (tmp_path / "s.yaml").read_text()
    assert found == {"all": PerInput(), "some": PerInput(samples=(1, 0)), "parts": PerInput(input=3)}


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (None, "one record in out for each input, with its id at key"),
        ((3, 3), "3 records in out for each input, with its id at key"),
        ((1, 0, 2), "0 to 2 records in out for an input, as its sample says (none for 1 of 3: 2), with its id at key"),
        (
            (0,) * 7 + (1,),
            "0 to 1 records in out for an input, as its sample says (none for 7 of 8: 1, 2, 3, 4, 5, 2 m",
        ),
        ((1, 2), "1 to 2 records in out for an input, as its sample says, with its id at key"),
    ],
)
def test_the_user_learns_which_samples_lead_to_nothing(tmp_path, numbers, words):
    per = {"out": numbers} if numbers else {}
    asked = Asked(["a.py"], ["in"], ["out"], tmp_path, "$.id", tmp_path, places={"out": "key"}, per=per)
    assert effect_words(asked, "out").startswith(words)


def test_what_the_user_names_is_not_replaced_by_what_was_seen(tmp_path):
    asked = Asked(["a.py"], ["mine"], [], tmp_path / "s", "$.id", tmp_path, group="own")
    found = proposed(asked, Seen(("seen",), "other", {"out": "key"}))
    assert (found.reads, found.group, found.writes) == (["mine"], "own", ("out",))
    (effect,) = scenario_of(found)["effects"]
    assert (effect["topic"], effect["id"], effect["of"]) == ("out", "key", "mine")


SERVICE = """
import json, os
from confluent_kafka import Consumer, Producer

address = {{"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP"]}}
consumer = Consumer({{**address, "group.id": "billing", "auto.offset.reset": "earliest"}})
producer = Producer(address)
topics = {reads}
{before}
{subscribe}
while True:
    for message in consumer.consume(10, 0.1):
        if message.error():
            raise SystemExit(message.error())
        order = json.loads(message.value())
        {work}
    producer.flush()
"""


def init(tmp_path, work, *options, reads=("orders",), before="", subscribe="consumer.subscribe(topics)"):
    """Run `init` with a service that does this for each order; return how it ended, and where it writes."""
    indented = "\n        ".join(work.strip().splitlines())
    (tmp_path / "service.py").write_text(
        SERVICE.format(work=indented, reads=list(reads), before=before, subscribe=subscribe)
    )
    (tmp_path / "orders.jsonl").write_text('{"order_id": "x", "amount": 3}\n{"order_id": "y", "amount": 40}\n')
    save, runs = tmp_path / "mine.yaml", tmp_path / "runs"
    asked = ["--samples", tmp_path / "orders.jsonl", "--save", save, "--runs-dir", runs, *options]
    ended = chaos("init", *asked, "--", sys.executable, tmp_path / "service.py")
    assert ended.code == 0, ended.err
    return ended, save, runs


BILLING = """
producer.produce("invoices", json.dumps({"invoice": {"for": order["order_id"]}}))
if order["amount"] > 10:
    producer.produce("audits", message.value())
producer.produce("totals", json.dumps({"last": order["amount"]}))
"""


KIP_848 = """
consumer = Consumer({**address, "group.id": "billing", "auto.offset.reset": "earliest", "group.protocol": "consumer"})
"""


LATEST = """
import time
class Slow(Consumer):
    def subscribe(self, topics):
        super().subscribe(topics, on_assign=lambda consumer, partitions: time.sleep(0.7))
consumer = Slow({**address, "group.id": "billing"})
"""
"""Between its assignment and the look at the latest offsets, it takes some time."""


@pytest.mark.kafka
@pytest.mark.parametrize("before", ["", KIP_848, LATEST], ids=["classic", "consumer", "latest"])
def test_init_writes_the_topics_the_group_and_the_place_of_the_id(tmp_path, before):
    ended, save, runs = init(tmp_path, BILLING, before=before)
    made = yaml.safe_load(save.read_text())
    assert [topic["name"] for topic in made["topics"]] == ["orders", "audits", "invoices"]
    assert (made["apps"][0]["reads"], made["apps"][0]["group"]) == (["orders"], "billing")
    assert [(effect["topic"], effect["id"]) for effect in made["effects"]] == [
        ("audits", "$.order_id"),
        ("invoices", "$.invoice.for"),
    ]
    assert [effect.get("per") for effect in made["effects"]] == [{"samples": [0, 1]}, None]
    assert "effect: 0 to 1 records in audits for an input, as its sample says (none for 1 of 2: 1)" in ended.err
    assert "no effect: totals, no place in its records has the id of an input" in ended.err
    assert "# What is broken, one after another" in save.read_text()
    assert left_running(runs) == [] and not list(runs.glob("look-*"))
    again = chaos("init", "--samples", tmp_path / "orders.jsonl", "--save", save, "--runs-dir", runs, "--", "x")
    assert again.code == 2 and f"{save} exists" in again.err


FILTER = """
if order["amount"] > 10:
    producer.produce("large", json.dumps({"of": order["order_id"]}))
producer.produce("totals", json.dumps({"last": order["amount"]}))
producer.flush()
consumer.commit(message, asynchronous=False)
"""


ROUTER = """
where = "com.acme.orders.priced.v1" if zlib.crc32(order["order_id"].encode()) % 3 else "dead-letters"
producer.produce(where, json.dumps({"of": order["order_id"]}))
producer.produce("audits", message.value())
producer.flush()
consumer.commit(message, asynchronous=False)
"""


@pytest.mark.kafka
@pytest.mark.landing
@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(
            ("--writes", "dead-letters,com.acme.orders.priced.v1", "--writes", "audits"),
            marks=pytest.mark.nightly(
                twin="chaos/drive/test_look.py::test_a_router_writes_each_input_to_any_one_of_its_topics[options0]"
            ),
        ),
    ],
)
def test_a_router_writes_each_input_to_any_one_of_its_topics(tmp_path, options):
    ended, save, _ = init(tmp_path, "import zlib\n" + ROUTER, *options)
    topics = ["dead-letters", "com.acme.orders.priced.v1"] if options else ["com.acme.orders.priced.v1", "dead-letters"]
    effects = {tuple(effect.topics): effect.id for effect in load(save).effects}
    assert effects == {("audits",): "$.order_id", tuple(topics): "$.of"}
    assert f"effect: one record in {' or '.join(topics)} for each input, with its id at $.of" in ended.err


@pytest.mark.kafka
@pytest.mark.landing
def test_a_topic_that_the_user_names_is_counted_too(tmp_path):
    ended, save, _ = init(tmp_path, FILTER, "--writes", "large", "--writes", "totals")
    made = yaml.safe_load(save.read_text())
    assert made["faults"][0]["when"] == {"wire": {"app": "service", **COMMITTED}}
    effects = made["effects"]
    assert [(effect["topic"], effect["id"], effect.get("per")) for effect in effects] == [
        ("large", "$.of", {"samples": [0, 1]}),
        ("totals", "$.order_id", None),
    ]
    assert "because --writes names it; in the first run: no place in its records has the id of an input" in ended.err


@pytest.mark.kafka
@pytest.mark.landing
def test_a_program_that_calls_a_receiver_gets_its_address_in_the_first_run(tmp_path):
    before = 'import os\nassert os.environ["SINK"].startswith("http://127.0.0.1:")'
    effect = ("--effect", "http=/bulk $[*].order_id", "--env", "SINK={http.bulk}")
    _, save, runs = init(tmp_path, "consumer.commit(message)", *effect, before=before)
    made = load(save)
    assert made.topics[0].name == "orders" and made.effects[0].id == "$[*].order_id"
    assert made.faults[0].when.wire.latest and not list(runs.glob("look-*"))


RETRIES = """
attempt = len(message.headers() or ())
where = "invoices" if order["amount"] > 10 else "orders-retry" if attempt < 2 else "orders-dlt"
producer.produce(where, message.value(), headers=[("attempt", b"")] * (attempt + 1))
producer.flush()
consumer.commit(message, asynchronous=False)
"""


@pytest.mark.kafka
@pytest.mark.landing
def test_an_application_that_needs_brokers_and_topics_from_its_start_on_is_looked_at_again(tmp_path):
    before = """
assert len(consumer.list_topics(timeout=10).brokers) >= 3, "too few brokers"
if consumer.list_topics("orders-retry", 10).topics["orders-retry"].error:  # as if it learned of a new one later only
    topics.remove("orders-retry")
"""
    ended, save, runs = init(tmp_path, RETRIES, "--reads", "orders", reads=["orders", "orders-retry"], before=before)
    assert "looking again with 3 brokers, because service may need several" in ended.err
    assert "looking again: service asked for orders-retry, too, before that was there" in ended.err
    assert {effect.topics[0]: effect.per.samples for effect in load(save).effects} == {
        "invoices": (0, 1),
        "orders-retry": (2, 0),
        "orders-dlt": (1, 0),
    }
    assert left_running(runs) == [] and not list(runs.glob("look-*"))


ASSIGNED = """
known = consumer.list_topics("orders", 10).topics["orders"].partitions
consumer.assign([TopicPartition("orders", number, 0) for number in known])
"""


@pytest.mark.kafka
@pytest.mark.landing
def test_a_program_that_assigns_the_partitions_which_it_found_at_its_start_is_looked_at_again(tmp_path):
    before = "from confluent_kafka import TopicPartition\n" + ASSIGNED
    ended, save, _ = init(tmp_path, BILLING, before=before, subscribe="")
    assert "looking again: service asked for orders, too, before that was there" in ended.err
    assert "no consumer group" in ended.err and load(save).topics[0].name == "orders"


@pytest.mark.parametrize(
    ("restarts", "past", "words"),
    [
        (0, [], "a wrote nothing; it said last: hm; see /l/a.log, and name it with --writes TOPIC"),
        (
            2,
            [],
            "a wrote nothing; it was started 3 times, because it ended; see logs/a.log; name it with --writes TOPIC",
        ),
        (0, ["a/1 is elsewhere"], "a wrote nothing; a/1 is elsewhere; it said last: hm; see /l/a.log"),
    ],
)
def test_what_is_not_seen_is_said_with_what_to_do_once(restarts, past, words):
    instance = SimpleNamespace(
        restarts=restarts, log="/l/a.log", last_words=lambda: "hm", describe_exit=lambda: "it ended; see logs/a.log"
    )
    apps = SimpleNamespace(of=lambda app: [instance], strangers=lambda: past)
    one = SimpleNamespace(_asked=SimpleNamespace(app="a"))
    assert str(look._Look._unseen(one, apps, "wrote nothing", "--writes TOPIC")) == words


@pytest.mark.parametrize(
    ("asked", "found", "produced", "known", "inputs"),
    [
        ((), {"orders"}, set(), (), ("orders",)),
        ((), {"orders", "orders-retry", "__consumer_offsets"}, {"orders-retry"}, (), ("orders",)),
        ((), {"orders"}, {"orders"}, ("orders",), ("orders",)),  # it puts back what failed
        (("orders",), {"orders", "payments"}, set(), (), ("orders",)),
        ((), {"orders", "payments"}, set(), (), "a reads orders, payments; name"),
        ((), {"orders", "payments"}, set(), ("payments",), "a reads orders, payments; name"),  # it began late
        ((), {"orders"}, {"orders"}, (), "a reads only what it writes; name"),
    ],
)
def test_an_application_with_several_inputs_is_not_looked_at_by_half(asked, found, produced, known, inputs):
    one = SimpleNamespace(_asked=SimpleNamespace(app="a", reads=asked), _wire=SimpleNamespace(produced=produced))
    if isinstance(inputs, tuple):
        assert look._Look._inputs(one, found, known) == inputs
        return
    with pytest.raises(UsageError, match=inputs):
        look._Look._inputs(one, found, known)


class _Offsets:
    """A cluster with two partitions of `orders`, and one of another topic."""

    def __init__(self, ends, done):
        self._ends = {TopicPartition("orders", number): end for number, end in enumerate(ends)}
        self._done = {group: dict(zip(self._ends, offsets, strict=True)) for group, offsets in done.items()}

    def metadata(self):
        return SimpleNamespace(partitions={*self._ends, TopicPartition("invoices", 0)})

    def end_offsets(self, partitions):
        return {partition: self._ends[partition] for partition in partitions}

    def done(self, group, partitions):
        known = self._done.get(group)
        return known and {p: known[p] for p in partitions if known[p] is not None}


@pytest.mark.parametrize(
    ("ends", "done", "committed"),
    [
        ((12, 8), {"billing": (12, 8)}, True),
        ((12, 8), {"billing": (12, 7)}, False),
        ((12, 8), {"billing": (12, None)}, False),
        ((20, 0), {"billing": (20, None)}, True),  # a partition without an input has nothing to commit
        ((0, 0), {"billing": (None, None)}, False),
        ((12, 8), {"other": (None, None), "billing": (12, 8)}, True),
        ((12, 8), {}, False),
    ],
)
def test_writing_is_complete_early_only_once_a_group_has_committed_every_input(ends, done, committed):
    groups = [*done] or ["unknown"]
    assert all_committed(_Offsets(ends, done), ["orders"], groups) is committed
