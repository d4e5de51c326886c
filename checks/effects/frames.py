"""The frames of a finding: what instances and brokers said about an input, as arrows and clauses of a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from kafka.errors import for_code

from chaos.anomalies.causes import OF_SHARES
from checks.audit.facts.offset_changes import OffsetChange
from checks.effects.seen import ACCEPT, REJECT, RELEASE, Facts, Life, Replaced, Row

HOW = {ACCEPT: "accept", RELEASE: "release", REJECT: "reject"}


class Story:
    """The frames of one finding."""

    def result(self, ending: str, cause: str) -> Row:
        """Return the columns of the story."""
        self.frames.sort(key=lambda frame: frame["at_us"])
        library = next((self.facts.libraries[n] for n in self.instances if self.facts.libraries.get(n)), "")
        cause = OF_SHARES.get(cause, cause) if self.shared else cause
        return {"frames": self.frames, "ending": ending, "cause": cause, "library": library}

    def __init__(self, finding: Row, facts: Facts, outputs: Sequence[str]) -> None:
        self.finding, self.facts, self.outputs, self.at = finding, facts, outputs, finding["offset"]
        self.frames: list[Row] = []
        self.instances: list[str] = []
        self.shared = False

    def _add(self, at_us: int | None, source: str, target: str, label: str, words: str = "") -> None:
        if at_us is not None:
            self.frames.append({"at_us": at_us, "source": source, "target": target, "label": label, "words": words})

    def _call(self, row: Row, peer: str, asked: str, answered: str, words: str, by_answer: bool) -> None:
        """Add a request and its answer; the words belong to one of them."""
        self.instances.append(row["instance"])
        self.shared = self.shared or is_shared(row)
        self._add(row["asked_us"], row["instance"], peer, asked, "" if by_answer else words)
        self._add(row["answered_us"], peer, row["instance"], answered, words if by_answer else "")

    def fetch(self, row: Row, words: str) -> None:
        """Add a Fetch with its answer; of a member of a share group, a ShareFetch."""
        if is_shared(row):
            answer = f"with {self.at:,}, delivery {row['delivery_count']}"
            self._call(row, f"broker {row['broker']}", "ShareFetch", answer, words, True)
            return
        start = f" from {row['asked_offset']:,}" if row["asked_offset"] is not None else ""
        answer = f"with {self.at:,}" + (", changed by a fault" if row.get("made") else "")
        self._call(row, f"broker {row['broker']}", f"Fetch{start}", answer, words, True)

    def all_fetches(self, rows: Sequence[Row]) -> None:
        """Add the first fetch, and the last one if there are several."""
        self.fetch(rows[0], f"fetched by {rows[0]['instance']}")
        if len(rows) > 1:
            again, times = rows[-1], f" (the last of {len(rows)} fetches)" if len(rows) > 2 else ""
            self.fetch(again, f"fetched again by {again['instance']}{times}")

    def commit(self, row: Row, words: str = "") -> None:
        """Add a commit; of a member of a share group, its acknowledgement."""
        known = self.instances and self.instances[-1] == row["instance"]
        passed = "accepted" if is_shared(row) else "committed past"
        words = words or passed + ("" if known else f" by {row['instance']}")
        words += " (no answer)" if row["state"] == "open" and "answer" not in words else ""
        answer = {"ok": "ok", "aborted": "aborted"}.get(row["state"], error(row["error"]) if row["error"] else "ok")
        if is_shared(row):
            self._call(row, f"broker {row['broker']}", f"{HOW[row['type']]} {self.at:,}", answer, words, False)
            return
        asked = f"{'TxnOffsetCommit' if row.get('transactional_id') else 'OffsetCommit'} {row['offset']:,}"
        self._call(row, f"coordinator (broker {row['broker']})", asked, answer, words, False)

    def write(self, row: Row, words: str) -> None:
        """Add a Produce of an effect."""
        ok = row.get("outcome", "fail") == "ok"
        answer = f"ok, offset {row['written']:,}" if ok else error(row.get("error"))
        asked = f"Produce {row['topic']}/{row['partition']}"
        self._call(row, f"broker {row['broker']}", asked, answer, words, row["answered_us"] is not None)

    def end(self, instance: str, at_us: int, more: str = "") -> Life | None:
        """Add the end of an instance, if it ended before the run did, and return it."""
        life = self.facts.end(instance, at_us)
        if life:
            self._add(life.end_us, instance, "", life.how, f"{instance} {life.how}{more}")
        return life

    def change(self, change: OffsetChange) -> None:
        """Add that a fault set the committed offset of the group."""
        offset = change.offset(self.finding["topic"], self.finding["partition"])
        label = "delete the offset" if offset is None else f"set the offset {offset:,}"
        did = "deleted the offset" if offset is None else "set the offset"
        words = f"{change.fault} {did} of group {change.group}" + ("" if offset is None else f" to {offset:,}")
        self._add(change.to_us, f"fault {change.fault}", "coordinator", label, words)

    def replace(self, replaced: Replaced) -> None:
        """Add that a standby took the place of a database."""
        words = f"{replaced.standby} took the place of {replaced.former}"
        self._add(replaced.at_us, f"fault {replaced.fault}", replaced.standby, "promote", words)

    def leave(self, row: Row) -> None:
        """Add that an instance left its group."""
        coordinator = f"coordinator (broker {row['broker']})"
        self._add(row["asked_us"], row["instance"], coordinator, "LeaveGroup", f"{row['instance']} left the group")


def is_shared(row: Row) -> bool:
    """Return whether a fetch or a commit is a delivery to a member of a share group, or its acknowledgement."""
    return (row.get("delivery_count") or row.get("type")) is not None


def error(code: int | None) -> str:
    """Return the name of Kafka's error; that there was no answer, if there is none."""
    if code is None:
        return "no answer"
    return str(for_code(code).message)
