"""The applications of a run: starts their instances, restarts those that end by themselves, and stops them all.

A thread for each instance starts it, waits for its end, writes rows of the ledger table `apps`, and does what its
restart policy says. Faults ask for an end; the thread then knows that it was asked for.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from chaos.apps import postgres, readiness
from chaos.apps.instance import KEPT_OF_LOG, LOG_LIMIT, Instance
from chaos.apps.outside import Outside
from chaos.apps.processes import connected, ends_of, find_image
from chaos.apps.values import Values
from chaos.cluster.teardown import remove_secret_files
from chaos.errors import AftershockError, ClientError, WaitTimeout
from chaos.install.cache import Progress, silent
from chaos.install.programs import Built, build, build_postgres, build_worker
from chaos.kafka.client import Kafka
from chaos.kafka.partition import TopicPartition
from chaos.kafka.security import Access, Endpoint
from chaos.ledger.stream import TableWriter
from chaos.processes.process import ProcessId
from chaos.processes.scrub import Scrubber
from chaos.run.directory import Run
from chaos.run.events import EventLog, now_us
from chaos.scenario.resolve import Resolved
from chaos.setup.apps import App
from chaos.setup.names import PRIMARY
from chaos.wait import wait_until

if TYPE_CHECKING:
    from docker import DockerClient

STABLE_S = 10.0
"""An incarnation that ran so long ended for a new reason: the next delay is the first one again."""
LONGEST_DELAY_S = 30.0
KILL_TIMEOUT_S = 10.0
LOOK_S, SHORTEN_S = 1.0, 0.25
LONGEST_LOG = 2 << 30
"""Bytes of a log that is an effect, so that nothing of it may be left out."""
LEAST_START_S, SLOWER = 10.0, 2.0
"""An instance that comes back gets this time to start, or so many times what a start took before."""
ALONE = (
    "; {} runs: if no other instance can run beside it, as with a lock file or a port of its choice, one is enough "
    "(`instances: 1`, --instances 1)"
)
CONNECTED_S = 5.0
"""An instance that ran so long has connected to its address, or never does."""


def prepare(apps: Iterable[App], on_progress: Callable[[str], None]) -> None:
    """Build the programs of applications, and pull the images that are missing.

    Raises `MachineError`, and `ResolveError` if a library is not available or a program does not compile.
    """
    apps = list(apps)
    for app in apps:
        _build(app, on_progress)
    images = sorted({app.image for app in apps if app.image is not None})
    if images:
        engine = _engine()
        for image in images:
            find_image(engine, image, on_progress)


def _build(app: App, on_progress: Progress = silent) -> Built | None:
    """Build the program of an application, or the class path of its workers; None if there is nothing to build."""
    if app.connect is not None:
        return build_worker(app.connect.release, app.connect.distributed, app.libraries, on_progress)
    if app.postgres is not None:
        programs = build_postgres(app.postgres.release, on_progress)
        return Built((sys.executable, postgres.__file__), folder=str(programs))
    return build(Path(app.program), app.libraries, on_progress) if app.program is not None else None


def _engine() -> DockerClient:
    from chaos.cluster.docker.engine import connect  # on use: its import takes a third of a second

    return connect()


class Applications:
    """The applications of one run. Leaving the context kills every instance that still runs.

    addresses: returns the bootstrap servers of an instance, such as `billing/1`. access: how it logs in. kafka: a
    connection that nothing else uses. partitions: returns the partitions of the run's topics. receivers: addresses for
    calls, by the name of the effect. during: called in each wait; it may raise. used: returns the instances with a
    connection to their addresses so far; None if nothing sees that. brokers: returns the addresses of the brokers, to
    which an instance is not to connect. beside: other clusters by name. ports: of first instances.
    begins: called with the name of an instance before each of its processes starts. superuser: how one that is to do
    anything logs in.
    Methods that take an instance raise `ClientError` if it does not exist or is gone.
    """

    def __init__(
        self,
        run: Run,
        resolved: Resolved,
        addresses: Callable[[str], str],
        access: Access | None,
        events: EventLog,
        kafka: Kafka,
        partitions: Callable[[], Collection[TopicPartition]],
        receivers: Mapping[str, str] | None = None,
        during: Callable[[], None] = lambda: None,
        used: Callable[[], Collection[str]] | None = None,
        brokers: Callable[[], Collection[tuple[str, int]]] = lambda: (),
        beside: Mapping[str, Endpoint] | None = None,
        ports: Mapping[str, int] | None = None,
        begins: Callable[[str], None] = lambda _: None,
        superuser: Access | None = None,
    ) -> None:
        self._begins = begins
        logins = {PRIMARY: (access, superuser)}
        for name, other in (beside or {}).items():
            logins[name] = (Access.of(other.clients), Access.of(other.platform))
        at = {name: other.bootstrap for name, other in (beside or {}).items()}
        self._values = Values(run, resolved, addresses, logins, receivers or {}, at, ports or {})
        self._outside = Outside(run.path, self._values.given)
        self._used, self._brokers = used, brokers
        self._start_s: dict[str, float] = {}
        """The longest time that an instance of an application took until it was ready."""
        self._past: dict[str, set[str]] = defaultdict(set)
        """Addresses of brokers to which instances connected past the relay."""
        self._run, self._scenario = run, resolved.scenario
        self._addresses, self._events = addresses, events
        self._kafka, self._partitions, self._during = kafka, partitions, during
        self._owner = ProcessId.current()
        self._scrubber = Scrubber(self._values.secrets)
        self._apps = {app.name: app for app in self._scenario.apps}
        self._built = {app.name: _build(app) for app in self._apps.values()}
        self._writer = TableWriter(run.ledger, "apps", "drive") if self._apps else None
        self._engine = _engine() if any(app.image for app in self._apps.values()) else None
        self._instances: dict[str, Instance] = {}
        self._threads: list[threading.Thread] = []
        self._ending = threading.Event()
        self._asking = threading.Lock()
        self._found_groups: dict[str, str] = {}
        self._broken = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        for instance in self._instances.values():
            with instance.changed:
                instance.wanted, instance.asked = False, instance.asked or "the run was ended"
                instance.kill()
                instance.changed.notify_all()
        for thread in self._threads:
            thread.join(KILL_TIMEOUT_S)
        remove_secret_files(self._run.path)
        if self._writer:
            self._writer.close()

    def start(self) -> None:
        """Start all instances, and wait until each application is ready. Raises `ClientError`."""
        if self._used is not None and self._apps:
            looking = threading.Thread(target=self._look, name="connections of apps", daemon=True)
            self._threads.append(looking)
            looking.start()
        bounding = threading.Thread(target=self._bound_logs, name="logs of apps", daemon=True)
        self._threads.append(bounding)
        bounding.start()
        for problem in filter(None, (readiness.taken(app) for app in self._apps.values() if not app.external)):
            raise ClientError(problem)
        for app in self._apps.values():
            if app.external:
                address = self._addresses(f"{app.name}/1")
                self._events.note(f"start {app.name} now, with the brokers at {address}{self._values.use(app)}")
            for number in range(1, app.instances + 1) if not app.external else ():
                self._launch(app, number)
        for name in self._apps:
            self.wait_ready(name)

    def _look(self) -> None:
        """Note connections of instances past their addresses, and what they use outside, until the run ends."""
        while not self._ending.wait(LOOK_S):
            brokers = ends_of(self._brokers())
            for instance in list(self._instances.values()):
                if instance.pid is not None:
                    self._past[instance.name].update(connected(instance.pid, brokers))
                    self._outside.look(instance.name, instance.pid)

    def outside(self) -> list[str]:
        """Return a sentence for each instance that uses what the same instance of another run would use, too."""
        return self._outside.sentences()

    def _bound_logs(self) -> None:
        """Keep logs short, until the run ends: an application may write gigabytes. A log that is an effect ends it."""
        whole = {effect.log.app for effect in self._scenario.effects if effect.log}
        while not self._ending.wait(SHORTEN_S):
            for instance in list(self._instances.values()):
                name, log = instance.name, instance.log
                if instance.app.name not in whole:
                    if instance.shorten_log():
                        self._events.note(
                            f"{name} wrote more than {LOG_LIMIT >> 20} MiB of logs: logs/{log.name} has their first "
                            f"and last {KEPT_OF_LOG >> 20} MiB; log less, or into a file in {{data}}"
                        )
                elif log.exists() and log.stat().st_size > LONGEST_LOG:
                    self._broken = (
                        f"{name} wrote more than {LONGEST_LOG >> 30} GiB into logs/{log.name}, where its effects are, "
                        "so nothing can be left out; log less beside the effects"
                    )

    def _launch(self, app: App, number: int) -> Instance:
        """Begin to supervise an instance."""
        name = f"{app.name}/{number}"
        folder = self._run.path / "apps" / f"{app.name}-{number}"
        log = self._run.logs / f"{app.name}-{number}.log"
        built, hidden = self._built.get(app.name), self._scenario.hides_payloads
        instance = Instance(app, number, self._values.of(app, number, folder), folder, log, built, hidden)
        self._instances[name] = instance
        thread = threading.Thread(target=self._supervise, args=(instance,), name=f"app {name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return instance

    def _supervise(self, instance: Instance) -> None:
        """Run incarnations of an instance until the run ends."""
        delay_s = instance.app.restart.delay
        while not self._ending.is_set():
            with instance.changed:
                instance.changed.wait_for(lambda: instance.wanted or self._ending.is_set())
            if self._ending.is_set():
                return
            try:
                self._begins(instance.name)
                began_us = now_us()  # what the program does may come before this thread goes on
                instance.start(self._run, self._owner, self._scrubber, self._engine)
                self._note(instance, "started", began_us, pid=instance.pid)
                with instance.changed:
                    instance.changed.notify_all()
                again = self._wait_end(instance)
            except (AftershockError, OSError) as e:
                self._broken = str(e) if isinstance(e, AftershockError) else f"{instance.name}: {e}"
                with instance.changed:
                    instance.running = None
                    instance.changed.notify_all()
                return
            if not again:
                continue
            delay_s = instance.app.restart.delay if time.monotonic() - instance.since >= STABLE_S else delay_s
            with instance.changed:
                instance.changed.wait_for(lambda: not instance.wanted or self._ending.is_set(), delay_s)
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)
            instance.restarts += 1

    def _wait_end(self, instance: Instance) -> bool:
        """Wait for the end of an incarnation, and record it; return whether the supervisor starts it again."""
        running = instance.running
        assert running is not None  # it was just started
        code = running.wait()
        policy = instance.app.restart.policy
        with instance.changed:
            instance.exit_code, instance.left, instance.running = code, running.left, None
            asked = instance.asked
            instance.attempts = 0 if asked else instance.attempts
            again = policy == "always" or (policy == "on_failure" and code != 0)
            instance.wanted = instance.wanted and again
            again = instance.wanted
            instance.changed.notify_all()
        event = "stopped" if code == 0 or asked == "stop" else "crashed"
        more: dict[str, Any] = {} if asked else {"how": instance.how_it_ended(), "hint": instance.hint()}
        self._note(instance, event, exit_code=code, asked=asked, last=instance.last_words(), **more)
        if not asked and not self._ending.is_set():
            what = f"started again after {instance.app.restart.delay:g} s" if again else "it stays away"
            self._events.note(f"{instance.describe_exit()} ({what})")
        return again

    def _note(self, instance: Instance, event: str, at_us: int | None = None, **detail: Any) -> None:
        if self._writer:
            row = {"app": instance.app.name, "instance": instance.number, "incarnation": instance.incarnation}
            shown = {name: value for name, value in detail.items() if value not in ("", None)}
            self._writer.append_rows([{**row, "event": event, "detail": json.dumps(shown), "at_us": at_us or now_us()}])

    def wait_ready(self, app: str) -> None:
        """Wait until all instances of an application are ready, if it has some.

        Raises `ClientError` with what is missing, and its last words.
        """
        found, instances = self._apps[app], self._wanted(self._apps[app])
        if not instances and not found.external:
            return

        def lacks() -> list[str]:
            self.check()
            for instance in instances:
                if instance.exit_code is not None and not instance.alive:
                    alone = next((ALONE.format(i.name) for i in instances if i.alive), "")
                    raise ClientError(f"{instance.describe_exit()}; it ended before {app} was ready{alone}")
            return self._lacks(found, instances)

        limit_s = found.ready_within(self._scenario.limits.clients)
        limit = "limits.clients" if limit_s == self._scenario.limits.clients else "within"
        try:
            wait_until(lambda: not lacks(), limit_s, "", during=self._during)
            for instance in instances:
                if not instance.ready:
                    instance.came_up()
                    self._start_s[app] = max(self._start_s.get(app, 0.0), instance.ran_for())
                    self._note(instance, "ready")
                for name in instance.idle:
                    self._events.note(f"connector {name} of {app} runs, and has no task: it finds nothing to do yet")
        except WaitTimeout:
            said = next((f"; {i.name} said last: {words}" for i in instances if (words := i.last_words())), "")
            said = next((f"; {hint}" for i in instances if (hint := i.hint())), "") + said  # the words may be long
            said = "".join(f"; {problem}" for problem in self.strangers()) + said
            if found.awaited is None and found.reads and found.connect is None:
                said += "; if it has no consumer group, say how the run notices that it is ready (ready)"
            raise ClientError(
                f"{app} was not ready within {limit_s:g} s ({limit}): {'; '.join(lacks())}{said}"
            ) from None

    def _lacks(self, app: App, instances: list[Instance]) -> list[str]:
        """Return what an application lacks to be ready, with these instances."""
        if not_started := [f"{i.name} has no process yet" for i in instances if not i.alive]:
            return not_started
        with self._asking:
            group = self._look_for_group(app, max(1, len(instances)))
            members = sum(max(1, len(self._wanted(other))) for other in self._mates(app))
            return readiness.missing(app, instances, self._kafka, self._partitions(), group, members)

    def starting(self) -> list[str]:
        """Return the instances that come back after an end and are not ready yet, so that more may follow from them.

        One that ended by itself before it was ready is none of them, and neither is one that runs for longer than a
        start took before: nobody knows whether it ever works. A worker of Connect with a task that fails
        while the worker starts is never ready.
        """
        found = []
        for app in (app for app in self._apps.values() if not app.external):
            wanted, most_s = self._wanted(app), max(LEAST_START_S, SLOWER * self._start_s.get(app.name, 0.0))
            back = [i for i in wanted if not (i.alive and i.ready) and i.attempts <= 1 and i.ran_for() <= most_s]
            if back and self._lacks(app, wanted):
                found += [instance.name for instance in back]
            else:  # without an event: nobody looked when each became ready
                for instance in back:
                    instance.came_up()
        return found

    def _wanted(self, app: App) -> list[Instance]:
        return [instance for instance in self.of(app.name) if instance.wanted]

    def _mates(self, app: App) -> list[App]:
        """Return the applications in the groups of an application, itself included: old and new may share one."""
        return [other for other in self._apps.values() if other is app or not {*app.groups}.isdisjoint(other.groups)]

    def strangers(self) -> list[str]:
        """Return a sentence for each instance that runs, and has not connected at its address, or also past it.

        What such an instance does is not seen by the relay, and no fault of its connections hits it.
        """
        if self._used is None:
            return []
        used, found = self._used(), []
        for app in (app for app in self._apps.values() if app.uses_primary):
            running = [i.name for i in self.of(app.name) if i.alive and i.ran_for() >= CONNECTED_S]
            silent = [name for name in ([f"{app.name}/1"] if app.external else running) if name not in used]
            group = self.group_of(app.name) or next(iter(app.groups), None)
            with self._asking:
                state = self._kafka.group(group) if silent and group else None
            hosts = sorted({member.host.lstrip("/") for member in state.members}) if state else []
            seen = f", and the brokers have members of its group {group} from {', '.join(hosts)}" if hosts else ""
            found += [
                f"{name} never connected to its address {self._addresses(name)}{seen}: it ignores the address that it "
                "was given, so the relay does not see it; give it {bootstrap} (or {bootstrap|host}, {bootstrap|port}), "
                "where it reads the address: `command`, `env`, or a configuration file that `files` of the application "
                "makes from a template, in {files}"
                for name in silent
            ]
            found += [
                f"{name} connected to {', '.join(sorted(past))} past its address {self._addresses(name)}: the relay "
                "does not see what it says there; give {bootstrap} to each of its clients, and let them connect to the "
                "addresses that the brokers announce"
                for name in (instance.name for instance in self.of(app.name))
                if (past := self._past[name]) and name not in silent
            ]
        return found

    def _look_for_group(self, app: App, instances: int) -> str | None:
        """Return the group of an application; look for it on the cluster if nothing names it."""
        if app.awaited is None and app.reads and app.group is None and app.name not in self._found_groups:
            known = {*self._scenario.groups, *self._scenario.app_groups, *self._found_groups.values()}
            if group := readiness.find_group(app, instances, self._kafka, known):
                self._found_groups[app.name] = group
                self._events.note(f"{app.name} is the consumer group {group}")
        return self.group_of(app.name)

    def group_of(self, app: str) -> str | None:
        """Return the group of an application: the given one, or the one that was found; None if there is none."""
        return self._apps[app].group or self._found_groups.get(app)

    def expected(self, app: str) -> list[str]:
        """Return the names of the instances of an application that are to run; of an external one, its front."""
        found = self._apps[app]
        return [f"{app}/1"] if found.external else [instance.name for instance in self._wanted(found)]

    def unstable(self, app: str) -> str:
        """Return the state of an application's group if that is not stable; empty also if it has no known group."""
        group = self.group_of(app) or next(iter(self._apps[app].groups), None)
        if group is None:
            return ""
        with self._asking:
            state = self._kafka.group(group)
        if state is not None and state.state == "Stable":
            return ""
        return f"group {group} is {state.state}" if state else f"no broker answers for group {group}"

    def at_work(self, app: str) -> int | None:
        """Return how many members the group of an application has, if it is stable and each instance runs; else None.

        None as well if the run sees neither: of an external application, without a group, or on another cluster.
        """
        found, group = self._apps[app], self.group_of(app)
        down = any(not instance.alive or instance.paused for instance in self.of(app))
        if found.external or not found.uses_primary or group is None or down:
            return None
        with self._asking:
            state = self._kafka.group(group)
        return len(state.members) if state is not None and state.state == "Stable" else None

    def of(self, app: str) -> list[Instance]:
        """Return the instances of an application that are supervised, by number."""
        return sorted((i for i in self._instances.values() if i.app.name == app), key=lambda i: i.number)

    def instance(self, name: str) -> Instance:
        """Return an instance by its name, such as billing/1."""
        if name not in self._instances:
            known = ", ".join(sorted(self._instances)) or "none yet"
            raise ClientError(f"there is no instance {name} (known: {known})")
        return self._instances[name]

    def check(self) -> None:
        """Raise `ClientError` if the program of an application cannot be run, at its start or at a later one."""
        if self._broken:
            raise ClientError(self._broken)

    def kill(self, name: str, hold: bool) -> None:
        """Kill an instance with SIGKILL, and wait for its end. hold: keep the supervisor from starting it again."""
        self._end(name, "kill", hold, Instance.kill)

    def stop(self, name: str, hold: bool) -> bool:
        """Ask an instance to end, and kill it after its grace; return whether it ended in time."""
        instance = self._running(name)
        self._ask(instance, "stop", hold)
        instance.ask_to_end()
        with instance.changed:
            in_time = instance.changed.wait_for(lambda: not instance.alive, instance.app.stop.grace)
        if not in_time:
            self.kill(name, hold)
        return in_time

    def end(self, name: str) -> bool:
        """Keep an instance down: ask it to end if it runs; return whether it ended in time."""
        instance = self.instance(name)
        if instance.alive:
            return self.stop(name, True)
        self._ask(instance, "stop", True)  # it may wait for its restart
        return True

    def _end(self, name: str, why: str, hold: bool, act: Callable[[Instance], object]) -> None:
        instance = self._running(name)
        self._ask(instance, why, hold)
        act(instance)
        with instance.changed:
            if not instance.changed.wait_for(lambda: not instance.alive, KILL_TIMEOUT_S):
                raise ClientError(f"{name} (process {instance.pid}) does not end after SIGKILL")

    def _ask(self, instance: Instance, why: str, hold: bool) -> None:
        with instance.changed:
            instance.asked = why
            instance.wanted = instance.wanted and not hold
            instance.changed.notify_all()

    def up(self, name: str, timeout_s: float) -> bool:
        """Let an instance run again, and wait for its process; return whether it was down."""
        instance = self.instance(name)
        if instance.alive:
            return False
        with instance.changed:
            instance.wanted = True
            instance.changed.notify_all()
            if not instance.changed.wait_for(lambda: instance.alive or bool(self._broken), timeout_s):
                raise ClientError(f"{name} did not start again within {timeout_s:g} s; see logs/{instance.log.name}")
        self.check()
        return True

    def pause(self, name: str) -> None:
        """Suspend an instance."""
        if not self._running(name).pause():
            raise ClientError(f"{name} is gone and cannot be paused")

    def resume(self, name: str) -> None:
        """Let a suspended instance go on; nothing happens if it is gone."""
        self.instance(name).resume()

    def add(self, app: str) -> Instance:
        """Start one more instance of an application."""
        return self._launch(self._apps[app], max((i.number for i in self.of(app)), default=0) + 1)

    def stop_all(self) -> list[str]:
        """Ask every instance to end, and kill those that still run after their grace. Returns the killed."""
        running = [instance for instance in self._instances.values() if instance.alive]
        for instance in running:
            if instance.paused:
                instance.resume()
            self._ask(instance, "stop", True)
            instance.ask_to_end()
        began, killed = time.monotonic(), []
        for instance in running:
            left_s = instance.app.stop.grace - (time.monotonic() - began)
            with instance.changed:
                in_time = instance.changed.wait_for(lambda i=instance: not i.alive, max(0.0, left_s))  # type: ignore[misc]
            if not in_time:
                self.kill(instance.name, True)
                killed.append(instance.name)
        return killed

    def _running(self, name: str) -> Instance:
        instance = self.instance(name)
        if not instance.alive:
            raise ClientError(f"{name} is gone already; see logs/{instance.log.name}")
        return instance
