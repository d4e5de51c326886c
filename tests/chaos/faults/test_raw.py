"""Produce requests without a client library: their requests, their rows, their proofs, and what is refused at load."""

from types import SimpleNamespace

import pytest

from chaos.errors import FaultError, ScenarioError
from chaos.faults import FAULTS, raw
from chaos.kafka.raw_producer import Appended
from chaos.ledger.record import parse as identity_of
from chaos.ledger.record import run_token
from chaos.ledger.schemas import TABLES
from chaos.ledger.stream import StreamEnd, read_stream
from chaos.run.directory import Run
from chaos.scenario.load import parse

SCENARIO = """
title: t
cluster: {{brokers: 3}}
topics: [{{name: orders, partitions: 2}}, {{name: latest, config: {{cleanup.policy: compact}}}}]
producers: [{{name: shop, topic: orders}}]
faults: [{{name: {name}, kind: wire.produce, sends: {sends}, target: {{partition: {partition}}}, when: {{acked: 1}}}}]
{expect}
"""


def scenario(sends="after_abort", name="late", partition="orders/1", expect="expect: {}"):
    return parse(SCENARIO.format(sends=sends, name=name, partition=partition, expect=expect), "t.yaml")


class Producer:
    """A producer that keeps what it does. answers: to its records; then each is taken."""

    def __init__(self, *answers):
        self.answers, self.acts, self.values, self.epoch = list(answers), [], [], -1

    def begin(self):
        self.epoch += 1
        self.acts.append(f"begin {self.epoch}")

    def add_partition(self):
        self.acts.append("add")

    def abort(self):
        self.acts.append("abort")

    def produce(self, value, sequence, epoch=None):
        self.acts.append(f"sequence {sequence} in epoch {self.epoch if epoch is None else epoch}")
        self.values.append(value)
        return self.answers.pop(0) if self.answers else Appended("", 40 + sequence)


@pytest.fixture
def world(tmp_path):
    return SimpleNamespace(kafka=None, run=Run.create(tmp_path, "run"))


def inject(monkeypatch, world, sends, *answers):
    """Return the fault after its injection, and its producer."""
    producer, made = Producer(*answers), []

    def build(kafka, partition, transactional_id):
        made.append((str(partition), transactional_id))
        return producer

    monkeypatch.setattr("chaos.kafka.raw_producer.RawProducer", build)
    spec = scenario(sends).faults[0]
    fault = FAULTS[spec.kind](spec)
    assert fault.proof(world) is None
    fault.inject(world)
    assert made == [("orders/1", "aftershock-run-late" if spec.in_transaction else None)]
    return fault, producer


def rows(world, table):
    path = world.run.ledger / table / "late-1.1.arrows"
    return [row for batch in read_stream(path, TABLES[table], StreamEnd()) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("sends", "acts"),
    [
        ("after_abort", ["begin 0", "add", "abort", "sequence 0 in epoch 0"]),
        ("old_epoch", ["begin 0", "add", "sequence 0 in epoch 0", "begin 1", "sequence 1 in epoch 0"]),
        ("sequence_gap", ["begin 0", "sequence 0 in epoch 0", "sequence 5 in epoch 0"]),
    ],
)
def test_the_last_record_is_what_no_library_sends_and_the_ledger_knows_all(monkeypatch, world, sends, acts):
    taken = sum(act.startswith("sequence") for act in acts) - 1
    fault, producer = inject(monkeypatch, world, sends, *[Appended("", 7)] * taken, Appended("INVALID_PRODUCER_EPOCH"))
    assert producer.acts == acts
    sent = rows(world, "sends")
    assert [row["outcome"] for row in sent] == ["ok"] * (len(sent) - 1) + ["fail"]
    assert [(row["offset"], row["error"]) for row in sent][-1] == (None, "INVALID_PRODUCER_EPOCH")
    identities = [identity_of(value) for value in producer.values]
    assert [(i.run, i.producer, i.incarnation, i.seq) for i in identities] == [
        (run_token("run"), row["producer"], row["incarnation"], row["seq"]) for row in sent
    ]
    ends = rows(world, "transactions")
    assert [(row["txn"], row["outcome"]) for row in ends] == ([] if sends == "sequence_gap" else [(0, "aborted")])
    assert {row["txn"] for row in sent} == ({None} if sends == "sequence_gap" else {0})
    assert fault.proof(world).endswith(": refused with INVALID_PRODUCER_EPOCH")
    assert fault.heal(world) == fault.heal(world) == "orders/1: what the broker took stays in the log"


@pytest.mark.parametrize(
    ("answer", "outcome", "error", "offset"),
    [
        (Appended("", 40), "ok", None, 40),
        (Appended("INVALID_TXN_STATE", -1), "fail", "INVALID_TXN_STATE", None),
        (Appended("NOT_LEADER_OR_FOLLOWER", -1), "unknown", "NOT_LEADER_OR_FOLLOWER", None),
        (Appended("NOT_ENOUGH_REPLICAS_AFTER_APPEND", -1), "unknown", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", None),
        (Appended(None), "unknown", "no answer", None),
    ],
)
def test_an_answer_is_a_proof_and_only_a_refusal_before_the_append_a_failure(
    monkeypatch, world, answer, outcome, error, offset
):
    fault, _ = inject(monkeypatch, world, "after_abort", answer)
    (row,) = rows(world, "sends")
    assert (row["outcome"], row["error"], row["offset"]) == (outcome, error, offset)
    proof = fault.proof(world)
    assert proof is None if answer.error is None else proof.endswith(answer.describe())


def test_a_record_before_it_that_is_not_taken_ends_the_fault_without_a_proof(monkeypatch, world):
    producer = Producer(Appended("NOT_LEADER_OR_FOLLOWER", -1))
    monkeypatch.setattr("chaos.kafka.raw_producer.RawProducer", lambda *_: producer)
    spec = scenario("sequence_gap").faults[0]
    fault = FAULTS[spec.kind](spec)
    with pytest.raises(FaultError, match="did not take the record before: refused with NOT_LEADER_OR_FOLLOWER"):
        fault.inject(world)
    assert fault.proof(world) is None
    assert [row["outcome"] for row in rows(world, "sends")] == ["unknown"], "the record may be in the log"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": "shop"}, "shop is a client entry; the producer of the fault needs another name"),
        ({"name": "a-very-long-name-xx"}, "at most 18 characters"),
        ({"partition": "latest/0"}, "latest is compacted, and the records of wire.produce have no key"),
        ({"partition": "orders/2"}, "orders has partitions 0 to 1, not 2"),
        ({"sends": "nonsense"}, "after_abort"),
        ({"expect": ""}, "no rule says what settings promise then; give expect with bounds"),
    ],
)
def test_what_does_not_fit_is_refused_at_load(change, problem):
    with pytest.raises(ScenarioError, match=problem):
        scenario(**change)


def test_only_records_of_transactions_make_a_scenario_transactional():
    found = {sends: scenario(sends, name="a-name-of-18-chars").transactional for sends in raw.RECORDS}
    assert found == {"after_abort": True, "old_epoch": True, "sequence_gap": False}
