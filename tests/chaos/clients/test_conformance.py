"""The conformance suite: the shipped runtimes keep every point, and broken programs do not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from chaos import clients
from chaos.cli import machine
from chaos.clients.choice import RUNTIMES, Client
from chaos.clients.protocol import PROGRAMS, ProducerSpec, Program
from chaos.clients.runtime import prepare
from chaos.conformance.bench import Bench
from chaos.conformance.suite import CASES, NEEDS, all_schemas, chosen_cases, points
from chaos.errors import UsageError
from chaos.install.cache import silent
from chaos.run.directory import Run

kafka = pytest.mark.kafka


@pytest.fixture
def bench(run: Run, bootstrap: str) -> Iterator[Bench]:
    made = Bench(run, bootstrap, lambda program: [])
    yield made
    made.end()


def lacks(runtime: str, name: str) -> str:
    """Return why a runtime is not asked for a case or a point; empty if it is."""
    return Client(runtime=runtime).missing(NEEDS[name]) if name in NEEDS else ""


def lane(runtime: str, case: str) -> Sequence[pytest.MarkDecorator]:
    """Return the mark of a case that the standard lane leaves to others: it has librdkafka, the default.

    The tests of a runtime's folder run in the standard lane or the landing lane; of libraries without one, aiokafka has
    a case.
    """
    if twin := TWINS.get(runtime):
        return [pytest.mark.nightly(twin=f"chaos/clients/{twin}")]
    if runtime == "aiokafka" and case != "group_consumer":
        return [pytest.mark.nightly(twin=f"chaos/clients/{AIOKAFKA}")]
    return [] if runtime == "confluent" else [pytest.mark.landing]


AIOKAFKA = "test_conformance.py::test_a_shipped_runtime_keeps_every_point[aiokafka-group_consumer]"
FLINK = "flink/test_flink.py::test_a_flink_job_that_writes_restores_its_checkpoint_and_its_rows_agree"
TWINS = {
    "flink": FLINK,
    "flink-legacy": FLINK,
    "franz-go": AIOKAFKA,
    "java": "java/test_java.py",
    "kafka-python": AIOKAFKA,
    "sarama": "golang/test_clients.py::test_clients_write_read_and_restart_and_their_rows_agree",
    "spark": FLINK,
    "streams": "streams/test_streams.py",
}
"""Tests of the other lanes by runtime."""


@kafka
@pytest.mark.parametrize(
    ("runtime", "case"),
    [
        pytest.param(runtime, case, marks=lane(runtime, case))
        for runtime in RUNTIMES
        for case in CASES
        if not lacks(runtime, case)
    ],
)
def test_a_shipped_runtime_keeps_every_point(bench: Bench, runtime: str, case: str) -> None:
    client = Client(runtime=runtime)
    installed = prepare(client, silent)

    def command(program: Program) -> Sequence[str]:
        return ["env", *(f"{k}={v}" for k, v in installed.env.items()), *installed.programs[program]]

    bench._command = command
    found = list(points(case, bench, client.missing))
    assert [(p.name, p.reason) for p in found if not p.holds and not p.lacks] == []
    assert {p.name for p in found if p.lacks} == {p.name for p in found if lacks(runtime, p.name)}


def test_only_what_a_runtime_lacks_is_not_asked_of_it() -> None:
    assert {name for name in NEEDS if lacks("sarama", name)} == {"processor", "obeys the order seek"}
    assert {name for name in NEEDS if lacks("franz-go", name)} == {"processor"}
    by_flink = {
        "transactions",
        "processor",
        "group_consumer",
        "obeys the order seek",
        "records the offset of each record",
    }
    assert {name for name in NEEDS if lacks("flink", name)} == by_flink
    assert {name for name in NEEDS if lacks("kafka-python", name)} == {"processor"}
    assert {name for name in NEEDS if lacks("aiokafka", name)} == {"processor"}
    assert {name for name in NEEDS if lacks("flink-legacy", name)} == {*by_flink, "producer"}
    assert {name for name in CASES if not lacks("spark", name)} == {"assign_consumer"}
    assert lacks("spark", "starts at the committed offsets of a group").startswith("a query never asks for committed")
    assert {name for name in CASES if not lacks("streams", name)} == {"processor"}
    assert not any(lacks(runtime, name) for runtime in ("confluent", "java") for name in NEEDS)


@kafka
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('no such setting')", "it exited; the last lines of its log: no such setting"),
        ("print('{}'); import os; os.close(1); print('x')", "it exited"),
        ("import sys, time\nfor i in range(10**5): print('rubbish', i)\nsys.exit('done')", "it exited"),
        (
            'import sys, time\nprint(\'{"event": "started"}\', flush=True)\ntime.sleep(100)',
            "0 rows with event started",
        ),
    ],
    ids=["dies", "closes stdout", "floods stdout", "writes nothing"],
)
def test_a_broken_program_keeps_no_point_and_the_reason_is_one_line(
    bench: Bench, tmp_path: Path, script: str, reason: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(script)
    bench._command = lambda _: [sys.executable, str(program)]
    found = list(points("producer", bench))
    assert reason in found[0].reason
    assert "\n" not in found[0].reason
    assert not any(p.reached for p in found[1:])
    assert len(found) == len(list(CASES["producer"](bench)))


@pytest.mark.nightly(
    twin="chaos/clients/test_conformance.py::test_a_shipped_runtime_keeps_every_point[confluent-producer]"
)
@kafka
def test_the_example_of_the_page_keeps_every_point_of_a_producer(bench: Bench, tmp_path: Path) -> None:
    page = (Path(clients.__file__).parent / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```js\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (package,) = re.findall(r"^npm install (kafkajs@\S+)$", page, re.MULTILINE)
    program = tmp_path / "producer.js"
    program.write_text(code, encoding="utf-8")
    npm, node = shutil.which("npm"), shutil.which("node")
    assert npm and node, "install Node.js 20.15 or newer, and npm: this test runs the example of the page"
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), package], check=True)
    bench._command = lambda _: [node, str(program)]
    assert [(p.name, p.reason) for p in points("producer", bench) if not p.holds] == []


def test_an_unknown_case_is_refused() -> None:
    assert chosen_cases([]) == list(CASES)
    assert chosen_cases(["processor", "producer"]) == ["producer", "processor"]
    with pytest.raises(UsageError, match="--only prodcer: there is no such case; the cases are producer,"):
        chosen_cases(["prodcer"])


@pytest.mark.parametrize(
    ("command", "client", "reason"),
    [
        ([], None, "client-check needs a program, as in: client-check -- ./my-client; or --client java"),
        (["./mine"], "java", "client-check needs a program"),
        (["/no/such/program"], None, "there is no program /no/such/program"),
        ([], "java:9.9.9", "--client java:9.9.9: release: kafka-clients 9.9.9 is not supported; choose 2.8.2 to"),
        ([], "jva", "--client jva: there is no runtime 'jva' (did you mean java?)"),
    ],
)
def test_a_program_or_runtime_that_does_not_exist_is_refused(
    command: list[str], client: str | None, reason: str
) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(reason)}"):
        machine._program(command, client, silent)


def test_the_schemas_are_json_schemas() -> None:
    schemas = all_schemas()
    for schema in (*schemas["specs"].values(), schemas["header"], *schemas["lines"].values()):
        Draft202012Validator.check_schema(schema)
    assert set(schemas["specs"]) == {*PROGRAMS, "share_consumer"}
    spec = ProducerSpec.model_validate(
        {
            **{"run_id": "r", "run_token": "7f3a91c0", "ledger": "x", "client": "a/1", "bootstrap": "h:1"},
            **{"topic": "t", "records": 1, "value_size": 128},
        }
    )
    Draft202012Validator(schemas["specs"]["producer"]).validate(spec.model_dump(mode="json"))
