"""The points for programs that write: producers, with and without transactions, and processors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chaos.clients.protocol import FENCED, ProcessorSpec, ProducerSpec
from chaos.conformance.bench import (
    SESSION_MS,
    STEP_S,
    VALUE_SIZE,
    Bench,
    Row,
    crash,
    eventually,
    orphan,
    refuse,
    require,
    rubbish,
    stop,
    within,
)
from chaos.fleet.roster import ClientState

RECORDS = 200
Steps = Iterator[tuple[str, Callable[[], None]]]
"""Points in order: a name, and a function that raises `Broken`."""


def producer(bench: Bench) -> Steps:
    """A producer without transactions, from its start to a crash and the next incarnation."""
    topic = bench.topic()
    client, crashing = "shop/1", "till/1"
    config = bench.known({"acks": "all", "enable.idempotence": True})
    shared = {"topic": topic, "value_size": VALUE_SIZE, "config": config}
    spec = ProducerSpec.model_validate({**bench.common(client), **shared, "records": RECORDS, "hold": True, "keys": 5})
    state: list[ClientState] = []

    yield "starts, and names its library in the row started", lambda: _start(bench, spec, state)
    yield "sends nothing before the order to start", lambda: _holds(bench, state[0], topic)
    yield "reports and ignores orders that are none", lambda: rubbish(state[0])
    yield "sends every record once, with identity, key and CRC", lambda: _sends(bench, state[0], topic, client)
    yield "stops by order, with event, row and exit code 0", lambda: _stops(bench, state[0], client)
    yield "has one row for each record, equal to the log", lambda: _rows(bench, topic, client, RECORDS)
    yield "records the offset of each record", lambda: _offsets(bench, topic, client)

    def killed() -> None:
        many = ProducerSpec.model_validate(
            {**bench.common(crashing), **shared, "records": 10**6, "rate": 2000, "seed": 1}
        )
        running = bench.start(many)
        eventually(lambda: running.count("acked") >= RECORDS, "no progress with acked records")
        crash(running)
        sent = {r.identity.seq for r in bench.log(topic) if r.identity and r.identity.producer == crashing}
        rows = bench.rows("sends", crashing)
        require(bool(rows), "no row is left after a SIGKILL: rows have to be written while it runs")
        foreign = [r for r in rows if r["outcome"] == "ok" and r["seq"] not in sent]
        require(not foreign, f"{len(foreign)} acknowledged rows are not in the log, such as {foreign[:1]}")

    def next_incarnation() -> None:
        first = max(row["seq"] for row in bench.rows("sends", crashing)) + 1
        again = {**bench.common(crashing, 2), **shared, "records": first + 10, "first_seq": first}
        running = bench.start(ProducerSpec.model_validate(again))
        eventually(lambda: running.progress().get("done"), "it does not report done")
        stop(running)
        seqs = sorted(row["seq"] for row in bench.rows("sends", crashing, 2))
        require(seqs == list(range(first, first + 10)), f"seqs {seqs[:3]}... instead of {first} to {first + 9}")

    yield "leaves readable rows and no process after a SIGKILL", killed
    yield "continues at first_seq in the next incarnation", next_incarnation
    held = ProducerSpec.model_validate({**bench.common("left/1"), **shared, "records": 1, "hold": True})
    yield "ends when stdin ends", lambda: orphan(bench.start(held))
    setting = "no.such.setting"
    odd = ProducerSpec.model_validate({**bench.common("odd/1"), **shared, "records": 1, "config": {setting: 1}})
    yield "refuses a setting that its library does not know", lambda: refuse(bench, odd, setting)


def transactions(bench: Bench) -> Steps:
    """A producer with transactions: rows before the end, aborted records, a fenced incarnation."""
    topic, client = bench.topic(), "bank/1"
    shared = {
        "topic": topic,
        "value_size": VALUE_SIZE,
        "config": {"acks": "all"},
        "transactions": {"id": bench.named("bank"), "records": 20, "abort_every": 4},
    }
    spec = ProducerSpec.model_validate({**bench.common(client), **shared, "records": RECORDS})

    def ends() -> None:
        running = bench.start(spec)
        eventually(lambda: running.progress().get("done"), "it does not report done")
        stop(running)
        rows = bench.rows("transactions", client)
        outcomes = [row["outcome"] for row in sorted(rows, key=lambda r: r["txn"])]
        expected = ["aborted" if n % 4 == 0 else "committed" for n in range(1, 11)]
        require(outcomes == expected, f"the transactions ended as {outcomes}, not as {expected}")

    def rows() -> None:
        _rows(bench, topic, client, RECORDS)
        _offsets(bench, topic, client)
        sends, txns = bench.rows("sends", client), {r["txn"]: r for r in bench.rows("transactions", client)}
        late = [s for s in sends if s["txn"] not in txns or s["completed_us"] > txns[s["txn"]]["ended_us"]]
        require(not late, f"{len(late)} sends have no transaction that ends after their answer")
        committed = {s["seq"] for s in sends if txns[s["txn"]]["outcome"] == "committed"}
        eventually(  # the coordinator answers before it has written the markers
            lambda: {r.identity.seq for r in bench.log(topic, "read_committed") if r.identity} == committed,
            "the committed records in the log are not the records of committed transactions",
        )

    def fenced() -> None:
        many = {**bench.common("rich/1"), **shared, "records": 10**6, "rate": 200}
        many["transactions"] = {"id": bench.named("rich"), "records": 20}
        first = bench.start(ProducerSpec.model_validate(many))
        eventually(lambda: first.count("acked") >= 40, "no progress with acked records")
        second = bench.start(ProducerSpec.model_validate({**many, "incarnation": 2}))
        require(first.gone.wait(60), "the earlier incarnation does not end although it is fenced")
        require(first.exit_code != 0, "exit code 0 of an incarnation that was fenced")
        names = [e for e in first.errors if any(name in e.upper() for name in FENCED)]
        require(bool(names), f"no error event names one of {', '.join(FENCED)}: {first.errors[:3]}")
        eventually(lambda: second.count("acked") >= 20, "the next incarnation does not continue")
        stop(second)
        seqs = [seq for n in (1, 2) for seq in _committed(bench, "rich/1", n)]
        require(len(seqs) == len(set(seqs)), "two incarnations committed the same seq")

    yield "ends its transactions as the spec says", ends
    yield "writes the rows of a transaction before it ends", rows
    yield "fences its earlier incarnation, which ends with an error", fenced


def processor(bench: Bench) -> Steps:
    """A processor: one output for each input, in transactions, and again after a crash."""
    source, target, client, group = bench.topic(), bench.topic(), "bill/1", bench.named("bill")
    spec = {
        **bench.common(client),
        "topic": target,
        "topics": [source],
        "group": group,
        "value_size": VALUE_SIZE,
        "config": {},
        "consumer_config": {
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_MS,
        },
        "transactions": {"id": bench.named("bill"), "records": 30},
    }

    def transforms() -> None:
        bench.fill(source, RECORDS)
        running = bench.start(ProcessorSpec.model_validate(spec))
        eventually(lambda: _total(bench.committed(group, source)) >= RECORDS // 2, "it commits no input offsets")
        crash(running)
        again = ProcessorSpec.model_validate({**spec, "incarnation": 2, "first_seq": _next_seq(bench, client)})
        running = bench.start(again)
        eventually(lambda: _total(bench.committed(group, source)) == RECORDS, "it does not commit all input offsets")
        stop(running)
        within(STEP_S, lambda: len(bench.log(target, "read_committed")) >= RECORDS)
        visible = bench.log(target, "read_committed")
        require(len(visible) == RECORDS, f"{len(visible)} committed outputs of {RECORDS} inputs")
        require(all(r.identity and r.intact for r in visible), "outputs without identity or with a wrong CRC")

    def recorded() -> None:
        commits = [r for n in (1, 2) for r in bench.rows("commits", client, n)]
        kinds = {row["kind"] for row in commits}
        require(kinds == {"transaction"}, f"commits of the kinds {sorted(kinds)}, not transaction")
        ok = {row["partition"]: row["offset"] for row in commits if row["outcome"] == "ok"}
        require(ok == bench.committed(group, source), "the last commits with outcome ok are not the committed offsets")
        read = {(r["partition"], r["offset"]) for n in (1, 2) for r in bench.rows("deliveries", client, n)}
        require(len(read) == RECORDS, f"deliveries of {len(read)} of {RECORDS} inputs")

    yield "writes one committed output for each input, across a crash", transforms
    yield "records deliveries and commits of the kind transaction", recorded


def _start(bench: Bench, spec: ProducerSpec, state: list[ClientState]) -> None:
    state.append(bench.start(spec))
    details = bench.details(spec.client, "started")
    require(len(details) == 1, f"{len(details)} rows with event started")
    names = [key for key, value in details[0].items() if isinstance(value, str)]
    require(bool(names), f"the detail of started names no library and release: {details[0]}")


def _holds(bench: Bench, state: ClientState, topic: str) -> None:
    within(1.0, lambda: state.count("sent") > 0)
    require(not bench.log(topic), "records are in the log before the order to start")


def _sends(bench: Bench, state: ClientState, topic: str, client: str) -> None:
    state.order({"do": "start"})
    eventually(lambda: state.progress().get("done"), lambda: f"no progress with done: {state.progress()}")
    counts = {name: state.count(name) for name in ("sent", "acked", "failed", "unknown")}
    expected = {"sent": RECORDS, "acked": RECORDS, "failed": 0, "unknown": 0}
    require(counts == expected, f"progress counts {counts}, not {expected}")
    records = bench.log(topic)
    require(all(r.intact for r in records), "a CRC does not match key and value")
    seqs = sorted(r.identity.seq for r in records if r.identity and r.identity.producer == client)
    require(seqs == list(range(RECORDS)), f"{len(seqs)} records with identity of {RECORDS}, or seqs that are not 0, 1…")
    keys = {r.key for r in records}
    require(keys == {f"k{n}".encode() for n in range(5)}, f"keys {sorted(map(str, keys))[:6]}, not k0 to k4")


def _stops(bench: Bench, state: ClientState, client: str) -> None:
    stop(state)
    require(len(bench.details(client, "stopped")) == 1, "no row with event stopped")


def _rows(bench: Bench, topic: str, client: str, records: int) -> None:
    rows: list[Row] = bench.rows("sends", client)
    require(len(rows) == records, f"{len(rows)} rows of {records} records")
    log = {r.identity.seq: r.key for r in bench.log(topic) if r.identity}
    for row in rows:
        where = f"row of seq {row['seq']}"
        require(row["producer"] == client and row["incarnation"] == 1, f"{where} names another client")
        require(row["outcome"] == "ok" and row["error"] is None, f"{where} has outcome {row['outcome']}")
        require(row["invoked_us"] <= row["completed_us"], f"{where} is completed before it is invoked")
        require(row["seq"] in log, f"{where} is of a record that is not in the log")
        key = log[row["seq"]]
        text = None if key is None else key.decode()
        require(row["key"] == text, f"{where} has key {row['key']}, the log {text}")


def _offsets(bench: Bench, topic: str, client: str) -> None:
    log = {(r.partition, r.offset): r.identity.seq for r in bench.log(topic) if r.identity}
    for row in bench.rows("sends", client):
        seq = log.get((row["partition"], row["offset"]))
        require(seq == row["seq"], f"row of seq {row['seq']} has an offset at which the log has seq {seq}")


def _committed(bench: Bench, client: str, incarnation: int) -> list[int]:
    """Return the seqs in committed transactions. The next incarnation sends again what is not committed."""
    ends = {row["txn"]: row["outcome"] for row in bench.rows("transactions", client, incarnation)}
    return [s["seq"] for s in bench.rows("sends", client, incarnation) if ends.get(s["txn"]) == "committed"]


def _total(offsets: dict[int, int]) -> int:
    return sum(offsets.values())


def _next_seq(bench: Bench, client: str) -> int:
    return max((row["seq"] for row in bench.rows("sends", client)), default=-1) + 1
