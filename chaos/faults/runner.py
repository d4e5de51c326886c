"""Running one fault: intent on record before the act, the outcome after it, proof as soon as it shows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from chaos.errors import AftershockError
from chaos.faults.fault import Fault
from chaos.faults.world import World
from chaos.ledger.writer import TableWriter
from chaos.run.events import EventLog, now_us
from chaos.scenario.faults import FaultSpec
from chaos.scenario.triggers import PHASES, Phase

PROOF_EVERY_S = 0.1


class FaultRun:
    """One fault of a run. `inject` and `heal` return at once; `phases` tells what has come to pass, and when.

    Times in `phases` are `time.monotonic()`. The proof is looked for in a thread of its own from the injection until it
    is found, the time-out passes, or the run ends; healing does not stop the search.
    """

    def __init__(
        self,
        fault: Fault,
        spec: FaultSpec,
        kind: str,
        world: World,
        writer: TableWriter,
        events: EventLog,
        proof_timeout_s: float,
    ) -> None:
        self.spec = spec
        self.phases: dict[str, float] = {}
        self.errors: list[str] = []
        self._fault, self._kind, self._world = fault, kind, world
        self._writer, self._events = writer, events
        self._proof_timeout_s = proof_timeout_s
        self._acting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._ending = threading.Event()

    @property
    def busy(self) -> bool:
        """Whether an injection, a heal or a search for proof is under way."""
        return any(thread.is_alive() for thread in self._threads)

    @property
    def lost(self) -> set[tuple[str, Phase]]:
        """The phases that were to come and cannot any more: an act failed, or no proof was found in time."""
        if self.busy or "injecting" not in self.phases:
            return set()
        attempted = PHASES if "healing" in self.phases else PHASES[:2]
        return {(self.spec.name, phase) for phase in attempted if phase not in self.phases}

    def inject(self) -> None:
        """Begin the injection."""
        self._start(self._inject)

    def heal(self) -> None:
        """Begin the heal."""
        self._start(self._heal)

    def finish(self, timeout_s: float) -> None:
        """Heal what is not healed and wait for it; called once, before the drain and at every way out."""
        self._ending.set()
        self._join(timeout_s)
        if "injecting" in self.phases and "healed" not in self.phases:
            self._heal()

    def _start(self, act: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                act()
            except Exception as e:  # noqa: BLE001 - a bug in a fault must show in its row, not die with its thread
                self._fail(act.__name__.strip("_"), e)

        thread = threading.Thread(target=guarded, daemon=True, name=f"fault-{self.spec.name}-{act.__name__}")
        self._threads.append(thread)
        thread.start()

    def _join(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _inject(self) -> None:
        with self._acting:
            self._enter("injecting", self.spec.target.words())
            try:
                words = self._fault.inject(self._world)
            except AftershockError as e:
                self._fail("injection", e)
                return
            self._enter("injected", words)
        self._search_proof()

    def _search_proof(self) -> None:
        deadline = time.monotonic() + self._proof_timeout_s
        while time.monotonic() < deadline and not self._ending.is_set():
            words = self._fault.proof(self._world)
            if words:
                self._enter("proven", words)
                return
            time.sleep(PROOF_EVERY_S)

    def _heal(self) -> None:
        with self._acting:
            if "healed" in self.phases:
                return
            self._enter("healing", "")
            try:
                words = self._fault.heal(self._world)
            except AftershockError as e:
                self._fail("heal", e)
                return
            self._enter("healed", words)

    def _fail(self, what: str, error: Exception) -> None:
        self.errors.append(f"{what} of {self.spec.name} failed: {error or type(error).__name__}")
        self._enter("failed", self.errors[-1])

    def _enter(self, phase: str, words: str) -> None:
        self.phases[phase] = time.monotonic()
        evidence = {"words": words, "resolved": self._fault.resolved, **getattr(self._fault, "told", {})}
        row = {
            "fault": self.spec.name,
            "kind": self._kind,
            "target": self.spec.target.words(),
            "phase": phase,
            "evidence": json.dumps(evidence),
            "at_us": now_us(),
        }
        try:
            self._writer.append_rows([row])
        except OSError as e:  # a full disk must not keep a fault from being healed; without its row it has no proof
            self.errors.append(f"{phase} of {self.spec.name} is not on record: {e}")
        self._events.emit("fault", fault=self.spec.name, phase=phase, words=words)
