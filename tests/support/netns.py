"""Machines of a test on this machine: each has a network, a host name, a boot id and a wall clock.

    Network: a bridge with the address of the drive ── veth ── Machine east
                                                    └─ veth ── Machine west

A machine is a network namespace. Each command on it has a mount and a UTS namespace, for boot id and host name. Its
wall clock is that of `chaos.preload.clock`, so programs that do not use the C library for the time show the right one.
It has the processes and files of this machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from chaos.preload.build import COMPILERS, environment
from chaos.preload.clock import Skew, create, preload, set_skew
from chaos.wait import wait_until

COMMANDS = ("ip", "unshare", "mount", "hostname")
_ENTER = 'hostname "$1" && mount --bind "$2" /proc/sys/kernel/random/boot_id && shift 2 && exec "$@"'


def why_no_namespaces() -> str:
    """Return why this process cannot make network namespaces and bridges; empty if it can."""
    if missing := [name for name in COMMANDS if not shutil.which(name)]:
        return f"network namespaces need the commands {', '.join(missing)}"
    if not any(map(shutil.which, COMPILERS)):
        return "clocks of machines need a C compiler"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"aft{secrets.token_hex(3)}"
    for argv in (
        ["netns", "add", name],
        ["-n", name, "link", "add", "bridge0", "type", "bridge"],
        ["netns", "del", name],
    ):
        done = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False)
        if done.returncode:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            return f"network namespaces cannot be made: {done.stderr.strip()}"
    return ""


class Machine:
    """A machine of a `Network`. name: its host name. folder: for its files, such as `tmp`."""

    def __init__(self, name: str, folder: Path, namespace: str, link: str) -> None:
        self.name, self.folder = name, folder
        self._namespace, self._link = namespace, link
        self.boot_id = str(uuid.uuid4())
        self.tmp = folder / "tmp"
        self.tmp.mkdir(parents=True)
        self._boot, self._clock = folder / "boot_id", folder / "clock"
        self._boot.write_text(f"{self.boot_id}\n")
        create(self._clock)

    def set_clock(self, ahead_s: float) -> None:
        """Set the wall clock of all its processes, seconds ahead of that of this machine."""
        set_skew(self._clock, Skew(ahead_s))

    def command(self, *argv: str) -> list[str]:
        """Return the command that runs another one on this machine, with TMPDIR there, and becomes it."""
        values = {"TMPDIR": str(self.tmp), **environment(preload(self._clock))}
        entered = ["ip", "netns", "exec", self._namespace, "unshare", "--mount", "--uts", "sh", "-c", _ENTER, "sh"]
        settings = [f"{key}={value}" for key, value in values.items()]
        return [*entered, self.name, str(self._boot), "env", *settings, *argv]

    def start(self, *argv: str, log: Path, cwd: Path) -> subprocess.Popen[bytes]:
        """Start a command, and leave it running. Its output is appended to `log`."""
        with log.open("ab") as sink:
            return subprocess.Popen(
                self.command(*argv), cwd=cwd, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
            )

    def output(self, *argv: str) -> str:
        """Return what a command prints."""
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    def plug(self, *, out: bool) -> None:
        """Pull the cable out, or put it in again. Without it nothing passes, and no connection is closed."""
        _ip("link", "set", self._link, "down" if out else "up")

    def pids(self) -> list[int]:
        """Return the processes in its network namespace."""
        return [int(pid) for pid in _ip("netns", "pids", self._namespace).split()]


class Network:
    """A bridge with machines. Leaving the context ends their processes and removes everything.

    address: that of the drive and the brokers, which are on this machine.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder, self._names = folder, names
        self._token = secrets.token_hex(3)
        self._subnet = f"10.{secrets.randbelow(150) + 90}.{secrets.randbelow(250) + 1}"
        self.address = f"{self._subnet}.1"
        self.machines: dict[str, Machine] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Network:
        with ExitStack() as stack:
            bridge = f"aft{self._token}"
            _ip("link", "add", bridge, "type", "bridge")
            stack.callback(_ip, "link", "del", bridge)
            _ip("addr", "add", f"{self.address}/24", "dev", bridge)
            _ip("link", "set", bridge, "up")
            for number, name in enumerate(self._names, start=2):
                self._add(stack, bridge, number, name)
            self._stack = stack.pop_all()
        return self

    def _add(self, stack: ExitStack, bridge: str, number: int, name: str) -> None:
        namespace, link = f"aft{self._token}-{name}", f"aft{self._token}v{number}"
        _ip("netns", "add", namespace)
        stack.callback(_ip, "netns", "del", namespace)
        # the end in the namespace has its last name at once: there is no other eth0 there
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("link", "set", link, "master", bridge, "up")
        _ip("-n", namespace, "addr", "add", f"{self._subnet}.{number}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", namespace, "link", "set", device, "up")
        machine = Machine(name, self._folder / name, namespace, link)
        stack.callback(_end, machine)
        self.machines[name] = machine

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


def _end(machine: Machine) -> None:
    """Kill what runs on a machine, so that no process keeps its namespace."""

    def all_gone() -> bool:
        for pid in machine.pids():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        return not machine.pids()

    wait_until(all_gone, 20, f"processes on {machine.name} do not end")


def _ip(*argv: str) -> str:
    """Run `ip`, and return its output. Raises `RuntimeError` with its error."""
    done = subprocess.run(["ip", *argv], capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
