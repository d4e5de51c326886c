"""Clients that die, as fake processes without a broker: each wait ends at once, with the client's own error."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from chaos.drive.drive import wait_formed
from chaos.errors import ClientError
from chaos.fleet import process
from chaos.fleet.fleet import Fleet
from chaos.fleet.roster import last_words
from chaos.run.directory import Run
from chaos.scenario.load import parse
from chaos.scenario.resolve import resolve

LIMIT_S = 60.0
WORDS = "no committed offset for orders/0, and auto.offset.reset is error"
SCENARIO = """
title: t
topics: [{name: orders, partitions: 2}]
producers: [{name: shop, topic: orders, records: 10}]
consumers:
  - {mode: subscribe, name: billing, group: g, topics: [orders]}
  - {mode: assign, name: none, topics: [orders]}
"""
PROGRAM = """
import json, sys, time
say = lambda event, **fields: print(json.dumps({"event": event, **fields}), flush=True)
say("error", detail="an error after which the client goes on")
STARTED
say("error", detail="ClientError: " + sys.argv[1])
sys.exit(1)
"""
RUNS = PROGRAM.replace("STARTED", 'say("started"); time.sleep(3600)')
DIES = PROGRAM.replace("STARTED", 'say("started"); time.sleep(0.3)')
DIES_AT_ONCE = PROGRAM.replace("STARTED", "")


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Return a function that starts the fleet of a scenario with these programs by entry."""
    fleets = []

    def start(programs, scenario=SCENARIO):
        run = Run.create(tmp_path, "run")
        spawn = process.spawn

        def fake(command, **how):
            entry = how["role"].split()[-1].rpartition("/")[0]
            return spawn([sys.executable, "-c", programs.get(entry, RUNS), WORDS], **how)

        monkeypatch.setattr(process, "spawn", fake)
        scenario = parse(scenario, "x")
        resolved = resolve(scenario, run_id="run", name="x", created_us=0, seed=1, overrides=[])
        fleet = Fleet(run, resolved, "127.0.0.1:1").__enter__()
        fleets.append(fleet)
        fleet.start_consumers()
        return fleet

    yield start
    for fleet in fleets:
        fleet.__exit__()


def formed(fleet):
    observer = SimpleNamespace(groups={}, unchanged_s=lambda group: 0)
    wait_formed(fleet._scenario, observer, LIMIT_S, fleet.check)


@pytest.mark.parametrize("wait", [lambda f: f.wait_assigned(LIMIT_S), formed], ids=["assigned", "formed"])
def test_each_wait_ends_at_once_with_the_last_error_of_the_client(started, wait):
    fleet = started({"none": DIES})
    began = time.monotonic()
    with pytest.raises(ClientError, match=rf"^none/1 died: {WORDS}; see logs/none-1\.log$"):
        wait(fleet)
    assert time.monotonic() - began < LIMIT_S / 2


def test_a_start_ends_with_the_error_of_a_client_that_never_ran_or_of_another_one(started):
    with pytest.raises(ClientError, match=f"^shop/1 died: {WORDS}; see"):
        started({"shop": DIES_AT_ONCE})


LEAKS = """
import sys
print('{"event": "started"}', flush=True)
sys.stdin.readline()
print("order of Jane Doe", flush=True)
print("order of Jane Doe", file=sys.stderr)
sys.exit(4)
"""
HIDING = SCENARIO.replace("{mode: assign, name: none,", "{mode: assign, name: none, client: {command: mine},")


@pytest.mark.parametrize(("payloads", "said"), [("none", "exit code 4"), ("needed", "order of Jane Doe")])
def test_no_output_of_a_program_of_the_user_is_shown_if_payloads_are_hidden(started, tmp_path, payloads, said):
    fleet = started({"none": LEAKS}, f"{HIDING}capture: {{payloads: {payloads}}}\n")
    fleet.order("none/1", {"do": "stop"})
    with pytest.raises(ClientError) as died:
        fleet.wait_assigned(LIMIT_S)
    assert str(died.value) == f"none/1 died: {said}; see logs/none-1.log"
    (ended,) = fleet.unexpected_exits()
    shown = [*ended.exit_lines, *ended.errors]
    assert any("Jane" in text for text in shown) == (payloads != "none")
    assert "Jane" in ended.log.read_text()


def test_a_wait_for_one_client_ends_when_another_one_dies(started):
    silent = PROGRAM.replace("STARTED", "time.sleep(3600)")  # it never reports that it runs
    with pytest.raises(ClientError, match=r"^billing/1 died"):
        started({"billing": DIES, "shop": silent})


def test_a_client_may_end_with_an_error_that_the_scenario_demands(started):
    fleet = started({"none": DIES}, SCENARIO + "expect: {client_errors: {none: {no committed offset: 1}}}\n")
    assert fleet.state("none/1").gone.wait(LIMIT_S)
    fleet.check()
    assert [died.client for died in fleet.unexpected_exits()] == ["none/1"] and fleet.deaths() == []


def test_a_client_that_a_fault_kills_ends_no_wait(started):
    fleet = started({})
    fleet.crash("none/1")
    fleet.check()


@pytest.mark.parametrize(
    ("errors", "log", "words"),
    [
        (["IllegalStateException: no committed offset for a/0"], [], "no committed offset for a/0"),
        ([f"ClientError: {WORDS}"], ["Traceback (most recent call last):"], WORDS),
        (
            ['KafkaException: KafkaError{code=_INVALID_ARG,val=-186,str="No such configuration property: "x.y""}'],
            [],
            'No such configuration property: "x.y"',
        ),
        (
            ["ProducerFencedException: there is a newer producer\n\tat org.apache.X.y(X.java:1)"],
            [],
            "ProducerFencedException: there",
        ),
        (
            [],
            ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "    f()", "ValueError: no x"],
            "no x",
        ),
        (
            [],
            [
                'Exception in thread "main" org.apache.kafka.common.KafkaException: Failed to construct kafka producer',
                "\tat org.apache.kafka.clients.producer.KafkaProducer.<init>(KafkaProducer.java:1)",
                "Caused by: org.apache.kafka.common.config.ConfigException: Invalid value x for acks",
                "\t... 4 more",
            ],
            "ConfigException: Invalid value x for acks",
        ),
        ([], ["panic: kafka: client has run out of brokers", "", "goroutine 1 [running]:", "main.main()"], "kafka: "),
        (["commit failed"], ["Terminating due to java.lang.OutOfMemoryError: Java heap space"], "Terminating due to"),
        (['bad sasl.jaas.config: X required username="u" password="hunter2";'], [], "bad sasl.jaas.config"),
        ([], ["1763697600000000 the disk is full", "    at x"], "the disk is full"),
        ([], [], ""),
    ],
)
def test_the_last_words_are_one_line_of_the_library_without_frames_and_secrets(errors, log, words):
    found = last_words(errors, log)
    assert found.lower().startswith(words.lower()) and "\n" not in found
    assert "hunter2" not in found and ".java" not in found and "File" not in found
