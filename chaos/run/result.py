"""Typed models of `result.json`, the order of verdicts, and the rendering of anomaly counts.

`Result` is the whole file, and `Comparison` the file of an A/B scenario. `RunSummary` and `RunOutcome` are the parts
that the history, the catalogue, the gate and replays read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel

from chaos.anomalies import METRICS
from chaos.errors import FAIL, INCONCLUSIVE, PASS
from chaos.run.directory import Run, read_model

Verdict = Literal["pass", "fail", "inconclusive"]
WORST_FIRST: tuple[Verdict, ...] = ("fail", "inconclusive", "pass")
NOT_APPLICABLE: Final = "not applicable"
"""In place of a verdict: an expectation about what the scenario does not contain. It counts nowhere."""
EFFECTS, EFFECT_READ = "effects", "effect_read"
"""Checks of effects: numbers of a kind, and whether an effect was read."""
NO_INPUT_ID = "no id of an input"
"""What `EFFECT_READ` saw if no effect leads to an input: the place of the id is wrong, and nothing is known."""
EFFECT_KINDS = ("missing", "duplicate", "unexpected", "wrong")
OF_EFFECT = "effect_"
"""How the names of kinds of effects begin among the names of anomalies, such as `effect_missing invoices`."""
FOLLOWS = "follows from "
"""How the reason of an expectation begins that is not decided because clients died, the drive ended before the first
send, or all sends failed."""
EXIT_CODES: dict[Verdict, int] = {"pass": PASS, "fail": FAIL, "inconclusive": INCONCLUSIVE}


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict (fail > inconclusive > pass); `inconclusive` if there is none."""
    return min(verdicts, key=WORST_FIRST.index, default="inconclusive")


def anomaly_name(check: str, split: str) -> str:
    """Return a kind of anomaly and its split as one name, such as `duplicate_delivery legal`."""
    return f"{check} {split}" if split else check


def effect_anomaly(kind: str, effect: str) -> str:
    """Return the name of a kind of an effect among anomalies, such as `effect_missing invoices`."""
    return anomaly_name(f"{OF_EFFECT}{kind}", effect)


def describe_anomalies(counts: Mapping[str, int]) -> str:
    """Return `lost_write 812, duplicate_delivery legal 40`, or `none` if there is no anomaly."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"


class ResultFile(BaseModel):
    """Content of `result.json`, or a part of it. content, next_step: the parts of the error of `read`."""

    content: ClassVar[str] = "result of a run"
    next_step: ClassVar[str] = "`python -m chaos audit {}` writes it again"

    @classmethod
    def read(cls, run: Run, content: str = "") -> Self:
        """Read `result.json` of a run. Raises `RunDirError` if it is missing, damaged or has other content."""
        return read_model(run.result, cls, content or cls.content, cls.next_step.format(run.path))


class AnomalyCount(BaseModel):
    """Exact count of one kind of anomaly in one scope."""

    check: str
    split: str = ""
    count: int


class EffectNumbers(BaseModel):
    """How many effects of an application are wrong in which way, by kind (`EFFECT_KINDS`)."""

    name: str
    counts: dict[str, int] = {}


def count_anomalies(totals: Iterable[AnomalyCount], effects: Iterable[EffectNumbers] = ()) -> dict[str, int]:
    """Return the anomalies that occurred, by name, summed over all scopes; then the kinds of each effect."""
    sums: Counter[str] = Counter()
    for total in totals:
        sums[anomaly_name(total.check, total.split)] += total.count
    for effect in effects:
        sums.update({effect_anomaly(kind, effect.name): n for kind, n in effect.counts.items()})
    return {name: count for name, count in sums.items() if count}


class Expectation(BaseModel):
    """One expectation: the expected value, the observed value (`seen`), and the verdict.

    An expectation that had nothing to examine has no verdict but is not applicable, with the reason in `why`.
    check is an anomaly kind, a metric, `groups`, or a check of the platform (`fault_proof`, `ledger_complete`,
    `clients_lived`, `log_read_back`, `something_happened`); split and scope narrow it.
    """

    name: str
    check: str
    split: str = ""
    scope: str = ""
    expected: str
    seen: str
    verdict: Verdict | Literal["not applicable"]
    why: str = ""

    @property
    def applies(self) -> bool:
        """Whether it counts."""
        return self.verdict != NOT_APPLICABLE

    @property
    def follows(self) -> bool:
        """Whether it is not decided because of something else, which `why` names."""
        return self.why.startswith(FOLLOWS)


def applicable(expectations: Iterable[Expectation]) -> tuple[list[Expectation], list[Expectation]]:
    """Return the expectations that count, the worst first, and the expectations that are not applicable."""
    each = list(expectations)
    counting = [(WORST_FIRST.index(e.verdict), e) for e in each if e.verdict != NOT_APPLICABLE]
    return [e for _, e in sorted(counting, key=lambda pair: pair[0])], [e for e in each if not e.applies]


def count_held(expectations: Iterable[Expectation]) -> str:
    """Return `30 of 30 expectations held, 20 not applicable`."""
    counting, others = applicable(expectations)
    held = sum(e.verdict == "pass" for e in counting)
    return f"{held} of {len(counting)} expectations held" + (f", {len(others)} not applicable" if others else "")


class FaultOutcome(BaseModel):
    """One injected fault: target as written and as resolved, times of its phases in us, the proof as a sentence.

    error: why the injection failed. heal_error: why the first heal failed; with `healed_us`, a later one succeeded.
    left_out: what it follows from that the fault has no proof, if that is no matter of the fault.
    sends: how many sends were acknowledged, if its trigger counts them and some were not.
    overdue: why its trigger did not come, or was not waited for any more, and what to change.
    begun_us: when its injection began. drive_broke_off: whether the drive failed or was killed.
    """

    name: str
    kind: str
    trigger: str
    target: str
    resolved: str = ""
    begun_us: int | None = None
    injected_us: int | None = None
    proven_us: int | None = None
    healed_us: int | None = None
    proof: str = ""
    error: str = ""
    heal_error: str = ""
    left_out: str = ""
    sends: str = ""
    overdue: str = ""
    drive_broke_off: bool = False
    produce_unavailability_us: int | None = None
    consume_unavailability_us: int | None = None

    @property
    def in_progress(self) -> str:
        """Its state if it was in progress when the drive broke off; empty if it had not begun, or was healed."""
        if not self.drive_broke_off or self.heal_error or self.begun_us is None or self.healed_us is not None:
            return ""
        if self.injected_us is None:
            return "its injection had begun"
        hit = f"injected on {self.resolved}" if self.resolved else "injected"
        return f"{hit}, {'proven and ' if self.proven_us is not None else 'not yet proven, '}not healed"

    @property
    def shortcoming(self) -> str:
        """Why it proves nothing, or was never healed, and what to change; empty if neither is so."""
        if self.left_out:
            return f"{'no proof' if self.injected_us else 'never injected'}: it {self.left_out}"
        if self.error:
            return f"{self.error}; look at logs/ and at the fault's target"
        if state := self.in_progress:
            return f"fault {self.name} was in progress when the drive ended ({state}); run again"
        if self.drive_broke_off and self.injected_us is None:
            return (
                f"fault {self.name} was not injected: the drive ended before its trigger ({self.trigger}) came; "
                "run again"
            )
        if self.drive_broke_off and self.proven_us is None:
            return (
                f"fault {self.name} was injected, but the drive ended before an effect was seen from outside; run again"
            )
        if self.injected_us is None and self.overdue:
            return f"fault {self.name} was never injected: {self.overdue}"
        if self.injected_us is None:
            why, advice = (f": {self.sends}", "mend the sends, or ") if self.sends else ("", "")
            return (
                f"fault {self.name} was never injected: its trigger ({self.trigger}) did not come{why}; "
                f"{advice}set it earlier or raise limits.drive"
            )
        if self.proven_us is None:
            hit = f" on {self.resolved}" if self.resolved else ""
            return (
                f"fault {self.name} was injected{hit}, but no effect was seen from outside; raise limits.proof, "
                "keep the load running for longer after it, or aim it at something that the load depends on"
            )
        if self.heal_error and self.healed_us is None:
            return f"fault {self.name} took effect, but was not healed: {self.heal_error}; look at logs/"
        return ""

    @property
    def is_late(self) -> bool:
        """Whether a heal failed, such as by its limit, and a later one succeeded."""
        return bool(self.heal_error) and self.healed_us is not None

    @property
    def proof_text(self) -> str:
        """The proof, and with it why the fault was healed late, if it was."""
        return f"{self.proof}; healed late: {self.heal_error}" if self.is_late else self.proof


class Finding(BaseModel):
    """One anomaly with its coordinates. The number of findings is capped; the counts (`totals`) are exact."""

    check: str
    split: str = ""
    scope: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    producer: str | None = None
    incarnation: int | None = None
    seq: int | None = None
    consumer: str | None = None
    at_us: int | None = None
    evidence: dict[str, Any] = {}
    mechanism: str = "not determined"


class Frame(BaseModel):
    """A frame on the wire between an instance and a broker; `target` is empty for an event of an instance."""

    at_us: int
    source: str
    target: str
    label: str


class EffectStory(BaseModel):
    """The findings of a kind with one cause, by the first of them.

    cause: the reason as text, empty if the wire does not show it. number: listed findings with this cause. sentence:
    the first finding. prevents: what prevents it for `library`, as announced on the wire.
    """

    kind: str
    cause: str
    number: int
    sentence: str
    prevents: str = ""
    library: str = ""
    frames: list[Frame] = []


class EffectCount(EffectNumbers):
    """What an application did. error: why it could not be read.

    undecided: how many more of a kind there may be. late_us: the longest possible time of each statistic. findings:
    the first ones of each kind, as sentences. stories: one for each kind and cause.
    """

    source: str
    inputs: int = 0
    effects: int = 0
    undecided: dict[str, int] = {}
    late_us: dict[str, int] = {}
    findings: dict[str, list[str]] = {}
    stories: list[EffectStory] = []
    error: str = ""

    def number(self, kind: str) -> str:
        """Return the number of a kind as text, as a range if some are undecided; empty if it was not counted."""
        if kind not in self.counts:
            return ""
        least, more = self.counts[kind], self.undecided.get(kind, 0)
        return f"{least:,} to {least + more:,}" if more else f"{least:,}"


class ReaderCount(BaseModel):
    """Delivered rows and distinct records of one reader: a consumer group or an assign-mode consumer."""

    reader: str
    mode: str
    delivered: int
    distinct: int


class Counts(BaseModel):
    """Numbers of records. rows_read = rows_audited + rows_unreadable, else the run is inconclusive.

    inserted: rows that producers wrote in place of records. gone: acknowledged records of topics that were deleted.
    evicted: those below the log start, which retention or a fault deleted; evicted_by: the timestamps that let
    retention delete them early. refused_timestamps: sends that brokers refused for their timestamps. superseded,
    expired_tombstones: records that compaction removed. commits_unknown: offset commits of unknown outcome.
    commits_by_log_ok, commits_by_log_fail: commits of unknown outcome that the log of `__consumer_offsets` decides.
    commits_left_out: the others, by the reason for which they are undecided. rebalances: of each group with subscribe
    members, as far as observed.
    """

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    in_log: int = 0
    inserted: int = 0
    gone: int = 0
    evicted: int = 0
    evicted_by: str = ""
    refused_timestamps: int = 0
    superseded: int = 0
    expired_tombstones: int = 0
    commits_unknown: int = 0
    commits_by_log_ok: int = 0
    commits_by_log_fail: int = 0
    commits_left_out: dict[str, int] = {}
    readers: list[ReaderCount] = []
    rebalances: dict[str, int] = {}
    rows_read: int = 0
    rows_audited: int = 0
    torn_bytes: int = 0

    @property
    def commits_by_log(self) -> int:
        """The number of commits that the log decides."""
        return self.commits_by_log_ok + self.commits_by_log_fail


class Count(AnomalyCount):
    """Exact count of one check in one scope, with the number of examined rows."""

    scope: str
    examined: int


class MetricKey(BaseModel):
    """Identity of a measured time: a statistic (count, p50, p95, p99, max) of a metric in a scope.

    fault: the fault after which the time was measured; empty for a time of the whole run.
    """

    metric: str
    scope: str
    fault: str = ""
    stat: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Metric, scope, fault and statistic."""
        return self.metric, self.scope, self.fault, self.stat

    @property
    def label(self) -> str:
        """Text for people: `produce unavailability max of orders after leader-kill`."""
        after = f" after {self.fault}" if self.fault else ""
        return f"{self.metric.replace('_', ' ')} {self.stat} of {self.scope}{after}"


class Metric(MetricKey):
    """One measured time in microseconds; with the statistic `count`, the number of measurements."""

    value_us: int


EntryKind = Literal["producer", "consumer", "processor"]


class EntryUsage(BaseModel):
    """CPU time and memory of the client processes of one entry; killed processes are included.

    processes: incarnations. records: acknowledged to a producer, else processed. start_cpu_us: until the clients had
    started. cpu_us: from then on, with the writing of the ledger. peak_rss_bytes: of the largest process.
    """

    entry: str
    kind: EntryKind
    processes: int = 0
    records: int = 0
    start_cpu_us: int = 0
    cpu_us: int = 0
    peak_rss_bytes: int = 0


class Load(BaseModel):
    """What the clients did and needed. The rates are those from the first to the last row; None without two rows."""

    acked_per_s: float | None = None
    delivered_per_s: float | None = None
    entries: list[EntryUsage] = []


class Judged(ResultFile):
    """Identity, verdict and reproducing command of a run or of a comparison of variants."""

    run_id: str
    run_dir: str
    scenario: str
    title: str
    verdict: Verdict
    sentence: str
    seed: int
    command: str


class Result(Judged):
    """`result.json` of a run."""

    versions: dict[str, str]
    began_us: int
    ended_us: int
    stages_s: dict[str, float] = {}
    counts: Counts = Counts()
    expectations: list[Expectation] = []
    faults: list[FaultOutcome] = []
    totals: list[Count] = []
    findings: list[Finding] = []
    effects: list[EffectCount] = []
    metrics: list[Metric] = []
    load: Load = Load()
    tolerated: list[str] = []
    problems: list[str] = []


class RunSummary(ResultFile):
    """The fields of `result.json` that the history and gates store."""

    run_id: str
    scenario: str
    title: str
    verdict: str
    sentence: str
    seed: int
    command: str
    versions: dict[str, str]
    began_us: int
    ended_us: int
    totals: list[AnomalyCount] = []
    effects: list[EffectNumbers] = []
    metrics: list[Metric] = []
    load: Load = Load()


def exceeding(metric: str) -> str:
    """Return the name of what a run shows if a measured time exceeds its bound."""
    return f"{metric} above its bound"


class RunOutcome(BaseModel):
    """Verdict, sentence, and the count of each kind of anomaly by name; kinds that did not occur are left out.

    exceeded: the number of bounds of the scenario that measured times exceed, by `exceeding` of the metric.
    """

    verdict: Verdict
    sentence: str
    anomalies: dict[str, int]
    exceeded: dict[str, int] = {}

    @classmethod
    def read(cls, run: Run) -> RunOutcome:
        """Read the outcome of a run. Raises `RunDirError` if `result.json` is missing, damaged or not of a run."""
        raw = _Outcome.read(run)
        exceeded = Counter(exceeding(e.check) for e in raw.expectations if e.check in METRICS and e.verdict == "fail")
        anomalies = count_anomalies(raw.totals, raw.effects)
        return cls(verdict=raw.verdict, sentence=raw.sentence, anomalies=anomalies, exceeded=exceeded)

    @classmethod
    def missing(cls, reason: str) -> RunOutcome:
        """Return the outcome of a run that has no `result.json`."""
        return cls(verdict="inconclusive", sentence=reason, anomalies={})

    @property
    def conclusive(self) -> bool:
        """Whether the run has a verdict other than `inconclusive`."""
        return self.verdict != "inconclusive"

    @property
    def exit_code(self) -> int:
        """The exit code of the verdict."""
        return EXIT_CODES[self.verdict]

    def count(self, kind: str) -> int:
        """Return the count of a kind of anomaly, or of exceeded bounds (`exceeding`).

        A kind without a split includes all its splits.
        """
        found = [n for name, n in self.anomalies.items() if name == kind or name.split(" ")[0] == kind]
        return sum(found) + self.exceeded.get(kind, 0)

    def describe(self) -> str:
        """Return the anomalies as text."""
        return describe_anomalies(self.anomalies)

    @property
    def shown(self) -> str:
        """The anomalies as text; of an inconclusive run, or one that failed without any, why it did."""
        by_anomalies = self.verdict == "pass" or (self.conclusive and any(self.anomalies.values()))
        return self.describe() if by_anomalies else self.sentence


class _Outcome(ResultFile):
    verdict: Verdict
    sentence: str
    totals: list[AnomalyCount]
    effects: list[EffectNumbers] = []
    expectations: list[Expectation] = []
