"""The run of one fault: intent on record before the act, the outcome after it, and the proof when it appears."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from chaos.errors import AftershockError, FaultError
from chaos.faults.base import Fault, World
from chaos.ledger.stream import TableWriter
from chaos.run.events import EventLog, now_us
from chaos.setup.triggers import PHASES, Phase

PROOF_INTERVAL_S = 0.1
Act = Literal["injection", "heal"]


@dataclass(eq=False)
class FaultRun:
    """One fault of a run. `inject` and `heal` return at once; `phases` holds the phases that have come, and when.

    Times in `phases` are `time.monotonic()`. A separate thread looks for the proof from the injection until the proof
    is found, the time-out passes, or the run ends. A heal does not stop the search.
    """

    fault: Fault[Any]
    world: World
    writer: TableWriter
    events: EventLog
    proof_timeout_s: float
    look: Callable[[World], World] = lambda world: world
    """What completes the world directly before the injection. Raises `FaultError`."""
    phases: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    _acting: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _given_up: bool = False

    @property
    def busy(self) -> bool:
        """Whether an injection, a heal or a search for proof is running."""
        return any(thread.is_alive() for thread in self._threads)

    @property
    def lost(self) -> set[tuple[str, Phase]]:
        """The phases that cannot come any more: the injection or heal failed, or no proof was found in time."""
        if self.busy or "injecting" not in self.phases:
            return set()
        attempted = PHASES if "healing" in self.phases else PHASES[:2]
        return {(self.fault.spec.name, phase) for phase in attempted if phase not in self.phases}

    def inject(self) -> None:
        """Start the injection."""
        self._start("injection", self._inject)

    def heal(self) -> None:
        """Start the heal."""
        self._start("heal", self._heal)

    def finish(self, timeout_s: float) -> None:
        """Heal the fault if it is not healed, and wait for it. Call it before the drain and whenever a run ends.

        What runs already has this time, and so has the heal. A heal that takes longer is a problem of the run; a heal
        that waits for an injection follows when the injection ends.
        """
        if self._given_up:
            return
        self._ending.set()
        self._wait(timeout_s)
        if "injecting" not in self.phases or "healed" in self.phases:
            return
        if not self._healing:
            self.heal()
            self._wait(timeout_s)
        if self._healing and "healed" not in self.phases:
            self._given_up = True
            act: Act = "heal" if "healing" in self.phases else "injection"
            self._fail("heal", FaultError(f"the {act} did not end within {timeout_s:g} s; what it changed may remain"))
            self.events.problem(self.errors[-1])

    @property
    def _healing(self) -> bool:
        """Whether a heal is running, or waits for the injection."""
        return any(thread.is_alive() for thread in self._threads if thread.name.endswith("-heal"))

    def _wait(self, timeout_s: float) -> None:
        """Wait for what is running; once the fault is healed, not for the search for a proof."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline and "healed" not in self.phases:
                thread.join(PROOF_INTERVAL_S)

    def _start(self, name: Act, act: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                act()
            except Exception as e:  # noqa: BLE001 - a bug in a fault must appear in its row
                self._fail(name, e)

        thread = threading.Thread(target=guarded, daemon=True, name=f"fault-{self.fault.spec.name}-{name}")
        self._threads.append(thread)
        thread.start()

    def _inject(self) -> None:
        self._act("injection", self._injected, ("injecting", "injected"), self.fault.spec.aimed_at)
        while "injected" in self.phases and self._searched_s() < self.proof_timeout_s and not self._ending.is_set():
            if proof := self.fault.proof(self.world):
                self._enter("proven", proof)
                return
            time.sleep(PROOF_INTERVAL_S)

    def _injected(self, world: World) -> str:
        """Inject the fault; return the outcome, with what waited on the wire if the fault waited for that."""
        world = self.world = self.look(world)
        outcome = self.fault.inject(world)
        wire = self.fault.spec.when.wire
        if wire is None or world.moment is None:
            return outcome
        way = "to" if wire.side == "request" else "from"
        spoken = f"{wire.api} {wire.side} {way} broker {world.moment.broker}"
        return f"{outcome} while the {spoken} of {world.moment.front} was on the wire"

    def _searched_s(self) -> float:
        """Return for how long a proof was looked for, less the heal: some effects show when brokers are back."""
        now = time.monotonic()
        healing_s = self.phases.get("healed", self.phases.get("failed", now)) - self.phases.get("healing", now)
        return now - self.phases["injected"] - max(0.0, healing_s)

    def _heal(self) -> None:
        self._act("heal", self.fault.heal, ("healing", "healed"), "")

    def _act(self, name: Act, act: Callable[[World], str], phases: tuple[str, str], intent: str) -> None:
        """Record the intent, act, and record the outcome or the error, unless the last phase has come already."""
        before, after = phases
        with self._acting:
            if after in self.phases:
                return
            self._enter(before, intent)
            try:
                outcome = act(self.world)
            except AftershockError as e:
                self._fail(name, e)
            else:
                self._enter(after, outcome)

    def _fail(self, act: Act, error: Exception) -> None:
        self.errors.append(f"{act} of {self.fault.spec.name} failed: {error or type(error).__name__}")
        self._enter("failed", self.errors[-1], act=act)

    def _enter(self, phase: str, outcome: str, **more: str) -> None:
        self.phases[phase] = time.monotonic()
        if outcome and self.fault.spec.elsewhere:
            outcome = f"cluster {self.fault.spec.cluster}: {outcome}"
        evidence = {"words": outcome, "resolved": self.fault.resolved, **self.fault.evidence, **more}
        row = {
            "fault": self.fault.spec.name,
            "kind": self.fault.spec.kind,
            "target": self.fault.spec.aimed_at,
            "phase": phase,
            "evidence": json.dumps(evidence),
            "at_us": now_us(),
        }
        try:
            self.writer.append_rows([row])
        except OSError as e:  # a full disk must not prevent the heal; without its row the fault has no proof
            self.errors.append(f"{phase} of {self.fault.spec.name} was not recorded: {e}")
        self.events.emit("fault", fault=self.fault.spec.name, phase=phase, words=outcome)
