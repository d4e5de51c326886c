"""Instances of applications: real processes, without a broker."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from chaos.apps import instance as instances
from chaos.apps import supervisor
from chaos.apps.supervisor import prepare
from chaos.cluster.docker import engine
from chaos.cluster.reaper import end_all
from chaos.cluster.secured.certificates import Authority
from chaos.errors import ClientError, MachineError, UsageError
from chaos.install.java import find_java
from chaos.kafka.security import Access, Endpoint, Security
from chaos.processes import process
from chaos.processes.process import find_marked
from chaos.setup.apps import App
from chaos.setup.model import Capture
from tests.support.apps import DEAF, TIMEOUT_S, Started, eventually
from tests.support.engines import needs_engine

pytestmark = pytest.mark.slow


@pytest.fixture
def started(tmp_path):
    return lambda **app: Started(tmp_path / "x", **app)


SHOWS = """
import json, os, sys, time
print("up", json.dumps([sys.argv[1:], os.environ["BROKERS"], os.environ["N"], os.getcwd(), os.environ["PYTHONPATH"]]))
print(open(os.path.join(sys.argv[2], "conf/app.properties")).read(), flush=True)
time.sleep(600)
"""


def test_an_instance_gets_its_own_values_and_nothing_of_the_platform(started, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    (tmp_path / "app.tpl").write_text("b={bootstrap}\npattern=%d{yyyy} {{x}}\nsecret={password}\n")
    command = [sys.executable, "-c", SHOWS, "{name}-{topic.orders}", "{files}"]
    files = {"conf/app.properties": "../app.tpl"}
    with started(command=command, instances=2, env={"N": "{instance}"}, files=files) as one:
        one.apps.start()
        for number in (1, 2):
            first, *rest = one.log(number).splitlines()
            arguments, brokers, n, directory, path = json.loads(first.removeprefix("up "))
            assert (arguments[0], brokers) == (f"billing/{number}-orders", f"front-of-billing/{number}:1")
            assert (n, directory, path) == (str(number), str(tmp_path / "x"), "/of/the/user")
            assert rest[:3] == [
                f"b=front-of-billing/{number}:1",
                "pattern=%d{yyyy} {{x}}",
                "secret={password}",
            ]


def test_a_file_with_the_password_is_the_users_alone_and_goes_with_the_run(tmp_path):
    (tmp_path / "app.tpl").write_text("user={username}\npassword={password}\n")
    login = {"mechanism": "PLAIN", "username": "u", "password": "env:APP_PASSWORD"}
    access = Access(Security(protocol="SASL_PLAINTEXT", **login), "secret-word")
    with Started(tmp_path / "x", access, files={"app.properties": "../app.tpl"}) as one:
        one.apps.start()
        made = one.run.path / "apps" / "billing-1" / "files" / "app.properties"
        assert made.read_text() == "user=u\npassword=secret-word\n"
        assert made.stat().st_mode & 0o777 == 0o600
    assert not made.exists()


def test_an_incarnation_begins_before_anything_that_its_program_does(started):
    program = "import time; print('up', time.time(), flush=True); time.sleep(600)"
    began: list[tuple[str, int]] = []
    more = {"begins": lambda name: began.append((name, one.apps.instance(name).incarnation))}
    with started(more=more, command=[sys.executable, "-c", program], restart={"delay": "100ms"}) as one:
        one.apps.start()
        one.apps.kill("billing/1", hold=False)
        eventually(lambda: one.log().count("up") == 2)
        spoke_us = [float(line.split()[1]) * 1e6 for line in one.log().splitlines()]
        rows = [(row["event"], row["at_us"]) for row in one.rows() if row["event"] != "ready"]
    assert [event for event, _ in rows] == ["started", "crashed", "started", "crashed"]
    (_, first), (_, killed), (_, second), _ = rows
    assert first < spoke_us[0] < killed < second < spoke_us[1]
    assert began == [("billing/1", 0), ("billing/1", 1)]


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("always", 0, True), ("on_failure", 3, True), ("on_failure", 0, False), ("never", 3, False)],
)
def test_a_supervisor_starts_again_what_its_policy_says(started, policy, code, again):
    program = (
        "import os, sys, time\n"
        "print('up', flush=True)\n"
        "first = not os.path.exists(sys.argv[1] + '/seen')\n"
        "open(sys.argv[1] + '/seen', 'w').close()\n"
        f"time.sleep(0.5) if first else time.sleep(600)\n"
        f"sys.exit({code})"
    )
    command = [sys.executable, "-c", program, "{data}"]
    with started(command=command, restart={"policy": policy, "delay": "100ms"}) as one:
        one.apps.start()
        instance = one.apps.instance("billing/1")
        if again:
            eventually(lambda: instance.incarnation == 2 and instance.alive)
        else:
            eventually(lambda: not instance.alive and not instance.wanted)
        # the supervisor writes its note after what can be seen of the instance
        eventually(lambda: f"exit code {code}" in one.notes())
        eventually(lambda: ("started again" if again else "stays away") in one.notes())
    rows = [(row["incarnation"], row["event"], row["detail"].get("exit_code")) for row in one.rows()]
    rows = [row for row in rows if row[1] != "ready"]  # on a slow machine, it ended before it was seen to be ready
    assert rows[:2] == [(1, "started", None), (1, "stopped" if code == 0 else "crashed", code)]


def test_the_end_of_an_instance_is_known_while_its_next_incarnation_runs(started):
    program = (
        "import os, sys, time\n"
        "first = not os.path.exists(sys.argv[1] + '/seen')\n"
        "open(sys.argv[1] + '/seen', 'w').close()\n"
        "sys.exit('no reply topic') if first else time.sleep(600)"
    )
    with started(command=[sys.executable, "-c", program, "{data}"], ready={"log": "^never"}) as one:
        with pytest.raises(ClientError):
            one.apps.start()
        instance = one.apps.instance("billing/1")
        eventually(lambda: instance.incarnation == 2 and instance.alive)
        assert "billing/1 ended with exit code 1: no reply topic; see logs" in instance.describe_exit()


def test_a_program_that_ends_at_once_is_named_with_its_last_words(started):
    with (
        started(
            command=[sys.executable, "-c", "print('no config'); raise SystemExit(4)"], ready={"log": "^never"}
        ) as one,
        pytest.raises(
            ClientError, match=r"billing/1 ended with exit code 4: no config; .*ended before billing was ready"
        ),
    ):
        one.apps.start()


@pytest.mark.parametrize(("instances", "hinted"), [(2, True), (1, False)])
def test_a_program_that_cannot_run_twice_is_named_with_what_to_do(started, tmp_path, instances, hinted):
    lock = (
        "import fcntl, sys, time\n"
        "lock = open(sys.argv[1], 'w')\n"
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "time.sleep(600 if sys.argv[2] == '2' else 0)"
    )
    command = [sys.executable, "-c", lock, str(tmp_path / "lock"), str(instances)]
    with started(command=command, instances=instances, ready={"log": "^never"}) as one:
        with pytest.raises(ClientError, match="ended before billing was ready") as raised:
            one.apps.start()
        assert ("runs: if no other instance can run beside it" in str(raised.value)) is hinted


def test_no_word_of_a_program_is_shown_if_payloads_are_hidden_and_its_log_has_them(started, tmp_path):
    program = "import time; print('order of Jane Doe', flush=True); time.sleep({}); raise SystemExit(4)"
    hide = {"capture": Capture(payloads="none")}
    with started(command=[sys.executable, "-c", program.format(0)], ready={"log": "^never"}) as one:
        one.apps._scenario = one.apps._scenario.model_copy(update=hide)
        with pytest.raises(ClientError) as ended:
            one.apps.start()
        log = one.run.logs / "billing-1.log"
        assert "Jane Doe" in log.read_text()
    shown = f"{ended.value} {one.notes()} {one.rows()}"
    assert f"billing/1 ended with exit code 4; see logs/{log.name}" in shown and "Jane" not in shown
    one = Started(tmp_path / "y", command=[sys.executable, "-c", program.format(600)], ready={"log": "^never"})
    limits = one.apps._scenario.limits.model_copy(update={"clients": 1.0})
    one.apps._scenario = one.apps._scenario.model_copy(update=hide | {"limits": limits})
    with one, pytest.raises(ClientError, match="was not ready within 1 s") as waited:
        one.apps.start()
    assert "Jane" not in f"{waited.value} {one.notes()} {one.rows()}"


def test_a_program_that_is_never_ready_is_named_with_what_is_missing(started, tmp_path):
    one = started(ready={"port": "{port}"})
    one.apps._scenario = one.apps._scenario.model_copy(
        update={"limits": one.apps._scenario.limits.model_copy(update={"clients": 1.0})}
    )
    with (
        one,
        pytest.raises(
            ClientError, match=r"was not ready within 1 s .*: billing/1 does not listen on port \d+; .*said last: up"
        ),
    ):
        one.apps.start()


COMES_BACK = """
import os, sys, time
if os.path.exists(sys.argv[2]):
    sys.exit("no")
print("up", flush=True)
while os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print("at work", flush=True)
time.sleep(600)
"""


def test_an_instance_is_starting_until_it_is_ready_again_or_ended_before_it_was(started, tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "LEAST_START_S", TIMEOUT_S)
    held, broken = tmp_path / "held", tmp_path / "broken"
    command = [sys.executable, "-c", COMES_BACK, str(held), str(broken)]
    with started(command=command, instances=2, ready={"log": "at work"}, restart={"delay": "50ms"}) as one:
        one.apps.start()
        assert one.apps.starting() == []
        held.touch()
        one.apps.kill("billing/1", hold=False)
        assert one.apps.starting() == ["billing/1"]
        eventually(lambda: one.apps.instance("billing/1").alive)
        assert one.apps.starting() == ["billing/1"], "it has a process, and does not work"
        one.apps.kill("billing/1", hold=False)
        eventually(lambda: one.apps.instance("billing/1").alive)
        assert one.apps.starting() == ["billing/1"], "it did not end by itself"
        monkeypatch.setattr(supervisor, "LEAST_START_S", 0.0)
        one.apps._start_s["billing"] = 0.0
        eventually(lambda: one.apps.starting() == [])  # it takes longer than before
        one.apps._start_s["billing"] = TIMEOUT_S
        assert one.apps.starting() == ["billing/1"]
        held.unlink()
        eventually(lambda: one.apps.starting() == [])
        broken.touch()
        one.apps.kill("billing/2", hold=False)
        assert one.apps.starting() == ["billing/2"]
        eventually(lambda: one.apps.instance("billing/2").attempts > 1)
        assert one.apps.starting() == [], "it ends again and again"


@pytest.mark.parametrize(
    "said",
    [
        "sasl_ssl://127.0.0.1:4: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed",
        "javax.net.ssl.SSLHandshakeException: PKIX path building failed: unable to find valid certification path",
        "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        "Error: unable to verify the first certificate",
    ],
)
def test_a_program_that_does_not_trust_the_relay_is_told_how(started, said):
    one = started(command=[sys.executable, "-c", f"import time; print({said!r}, flush=True); time.sleep(600)"])
    limits = one.apps._scenario.limits.model_copy(update={"clients": 1.0})
    one.apps._scenario = one.apps._scenario.model_copy(update={"limits": limits})
    with (
        one,
        pytest.raises(ClientError, match=r"; it does not trust .*: give it \{ca\}, or \{truststore\} .* said last"),
    ):
        one.apps.start()


@pytest.mark.parametrize(
    "said",
    [
        'KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29,str="Subscribed topic not available: primary.orders"}',
        "org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized to access group: billing",
        "kafka server: The client is not authorized to access this topic",
    ],
)
def test_a_program_without_a_right_has_a_hint_what_is_missing(started, said):
    with started(command=[sys.executable, "-c", f"raise SystemExit({said!r})"], restart={"policy": "never"}) as one:
        one.apps._launch(one.apps._apps["billing"], 1)
        eventually(lambda: one.apps.instance("billing/1").exit_code == 1)
        assert "refuse it for lack of a right" in one.apps.instance("billing/1").describe_exit()


def test_a_program_that_cannot_be_run_is_refused_before_the_start(tmp_path):
    with pytest.raises(UsageError, match=r"mine.yaml:1: apps.billing.command: there is no program 'no-such-program'"):
        Started(tmp_path / "x", command=["no-such-program"])
    script = tmp_path / "x" / "plain.sh"
    script.write_text("not executable")
    with pytest.raises(UsageError, match=r"'\./plain\.sh' that can be run"):
        Started(tmp_path / "x", command=["./plain.sh"])


def test_a_killed_instance_comes_back_or_waits_for_the_heal(started):
    with started(instances=2, restart={"delay": "100ms"}) as one:
        one.apps.start()
        one.apps.kill("billing/1", hold=False)
        eventually(lambda: one.apps.instance("billing/1").incarnation == 2)
        one.apps.kill("billing/2", hold=True)
        assert not one.apps.instance("billing/2").alive
        assert one.apps.up("billing/2", TIMEOUT_S)
        assert not one.apps.up("billing/2", TIMEOUT_S)
        assert one.apps.instance("billing/2").incarnation == 2
        with pytest.raises(ClientError, match=r"no instance billing/3 \(known: billing/1, billing/2\)"):
            one.apps.kill("billing/3", hold=False)
        assert one.apps.stop_all() == []
    asked = [(row["instance"], row["detail"].get("asked")) for row in one.rows() if row["event"] == "crashed"]
    assert sorted(asked) == [(1, "kill"), (2, "kill")]


def test_an_instance_that_ignores_the_signal_is_killed_after_its_grace(started):
    with started(command=[sys.executable, "-c", DEAF], stop={"grace": "300ms"}) as one:
        one.apps.start()
        assert not one.apps.stop("billing/1", hold=True)
        assert one.apps.instance("billing/1").exit_code == -9
        one.apps.up("billing/1", TIMEOUT_S)
        one.apps.wait_ready("billing")
        assert one.apps.stop_all() == ["billing/1"]
        assert one.apps.instance("billing/1").app.deaf.startswith("handle the signal, or ")


def test_a_paused_instance_is_suspended_goes_on_and_ends_when_asked(started):
    with started() as one:
        one.apps.start()
        one.apps.pause("billing/1")
        assert one.apps.instance("billing/1").suspended()
        one.apps.resume("billing/1")
        assert not one.apps.instance("billing/1").suspended()
        one.apps.pause("billing/1")
        assert one.apps.stop_all() == []


class Groups:
    state, members = "Stable", 2

    def group(self, name):
        return SimpleNamespace(state=self.state, members=[name] * self.members) if self.state else None


def test_an_application_is_at_work_while_each_instance_runs_and_its_group_is_stable(started):
    with started(instances=2, group="billing", reads=["orders"]) as one:
        one.apps._kafka = groups = Groups()
        one.apps.start()
        assert one.apps.at_work("billing") == 2
        for groups.state in ("PreparingRebalance", ""):
            assert one.apps.at_work("billing") is None
        groups.state = "Stable"
        one.apps.pause("billing/2")
        assert one.apps.at_work("billing") is None
        one.apps.resume("billing/2")
        assert one.apps.at_work("billing") == 2
        one.apps.kill("billing/1", hold=True)
        assert one.apps.at_work("billing") is None


def test_whether_an_application_without_a_group_is_at_work_is_not_known(started):
    with started() as one:
        one.apps._kafka = Groups()
        one.apps.start()
        assert one.apps.at_work("billing") is None


def test_more_instances_have_the_next_numbers(started):
    with started() as one:
        one.apps.start()
        assert one.apps.add("billing").name == "billing/2"
        one.apps.wait_ready("billing")
        assert [i.name for i in one.apps.of("billing") if i.alive] == ["billing/1", "billing/2"]


def test_children_of_an_instance_end_with_it(started):
    child = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    program = f"import subprocess, sys, time; subprocess.Popen({child}); print('up', flush=True); time.sleep(600)"
    with started(command=[sys.executable, "-c", program]) as one:
        one.apps.start()
        eventually(lambda: len([p for p in find_marked() if p.run_dir == one.run.path]) == 2)
        one.apps.kill("billing/1", hold=True)
        eventually(lambda: not [p for p in find_marked() if p.run_dir == one.run.path])


def test_children_in_other_sessions_end_with_an_instance_too(started):
    child = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    program = (
        f"import subprocess, sys; subprocess.Popen({child}, start_new_session=True); print('up', flush=True); "
        "import time; time.sleep(600)"
    )
    with started(command=[sys.executable, "-c", program], restart={"policy": "never"}) as one:
        one.apps.start()
        eventually(lambda: len([p for p in find_marked() if p.run_dir == one.run.path]) == 2)
        one.apps.kill("billing/1", hold=True)
        assert not [p for p in find_marked() if p.run_dir == one.run.path]


FORKED = """
import os, time
if os.fork():
    raise SystemExit
os.setsid()
if os.fork():
    raise SystemExit
print("up", flush=True)
time.sleep(600)
"""
WAITED = """
import os, time
ready, up = os.pipe()
if os.fork():
    os.read(ready, 1)
    raise SystemExit
os.setsid()
middle = os.getpid()
if os.fork():
    raise SystemExit
while os.getppid() == middle:
    time.sleep(0.01)
print("up", flush=True)
os.write(up, b"1")
time.sleep(600)
"""
"""As `FORKED`, but the first process ends when only the last one is left."""
PORT = (
    "import socket; s = socket.create_server(('127.0.0.1', {0})); print('up', flush=True); import time; time.sleep(60)"
)


@pytest.mark.parametrize(
    ("program", "hint"),
    [
        ("input()", "it asks for a terminal, and no instance has one: .*; see logs/billing-1.log"),
        ("open('/dev/tty')", "it asks for a terminal"),
        ("import sys; sys.stdin.isatty() or sys.exit('the input device is not a TTY')", "it asks for a terminal"),
        (
            "import sys; [print(line) for line in sys.stdin]",
            "run until it is asked to end; its standard input is empty",
        ),
        (PORT, r"Address already in use.*; its port is taken, .* write \{port\}"),
        ("raise SystemExit('no config')", "exit code 1: no config; see logs"),
        ("print('Error: listen EADDRINUSE: address already in use :::80'); raise SystemExit(1)", "its port is taken"),
    ],
)
def test_the_end_of_a_program_is_named_with_what_to_do(started, program, hint):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-c", program.format(taken.getsockname()[1])]
        one = started(command=command, ready={"log": "^never"}, restart={"policy": "never"})
        with one, pytest.raises(ClientError, match=hint):
            one.apps.start()


def test_a_program_that_goes_to_the_background_is_named_and_leaves_nothing(started):
    one = started(command=[sys.executable, "-c", FORKED], ready={"log": "^never"}, restart={"policy": "never"})
    with one, pytest.raises(ClientError, match=r"left \d process.* in the background, .* start it in the foreground"):
        one.apps.start()
    assert not [p for p in find_marked() if p.run_dir == one.run.path]


def test_a_child_that_one_search_misses_ends_too(started, monkeypatch):
    """As after a double fork: the search began before the child did, and came to its parent when that had ended."""
    end, searches = process.end, []

    def misses_once(selected, timeout_s):
        searches.append(selected)
        return [] if len(searches) == 1 else end(selected, timeout_s)

    monkeypatch.setattr("chaos.processes.process.end", misses_once)
    one = started(command=[sys.executable, "-c", WAITED], ready={"log": "^never"}, restart={"policy": "never"})
    with one, pytest.raises(ClientError, match="left 1 process in the background"):
        one.apps.start()


def test_a_pause_reaches_children_in_other_sessions(started):
    child = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    program = (
        f"import subprocess, sys; subprocess.Popen({child}, start_new_session=True); print('up', flush=True); "
        "import time; time.sleep(600)"
    )

    def states():
        return sorted(p.state for p in find_marked() if p.run_dir == one.run.path)

    with started(command=[sys.executable, "-c", program]) as one:
        one.apps.start()
        eventually(lambda: len(states()) == 2)
        one.apps.pause("billing/1")
        assert states() == ["stopped", "stopped"]
        assert one.apps.instance("billing/1").suspended()
        one.apps.resume("billing/1")
        eventually(lambda: "stopped" not in states())


def test_a_long_log_keeps_both_ends_the_line_of_readiness_and_the_last_words(started, monkeypatch):
    monkeypatch.setattr(instances, "LOG_LIMIT", 1 << 20)
    monkeypatch.setattr(instances, "KEPT_OF_LOG", 1 << 16)
    program = (
        "import time\nprint('first')\nfor n in range(40_000): print('line', n, 'x' * 90)\n"
        "print('ready now', flush=True)\nfor n in range(40_000): print('more', n, 'x' * 90)\n"
        "print('the end', flush=True)\ntime.sleep(600)"
    )
    with started(command=[sys.executable, "-c", program], ready={"log": "^ready now"}) as one:
        one.apps._scenario = one.apps._scenario.model_copy(update={"effects": []})
        one.apps.start()
        instance = one.apps.instance("billing/1")
        eventually(lambda: instance.last_words().endswith("the end") and instance.log.stat().st_size < 1 << 20)
        eventually(lambda: "wrote more than" in one.notes())
        lines = one.log().splitlines()
        assert (lines[0], lines[-1]) == ("first", "the end")
        (cut,) = [n for n, line in enumerate(lines) if "left out" in line]
        assert f"some {instance.left_out:,} bytes" in lines[cut]
        assert lines[cut - 1].startswith("line ") and lines[cut + 1].startswith("more ")
        assert len({len(line) for line in lines[1:cut]}) <= 5
        assert one.notes().count("wrote more than") == 1


def test_nothing_is_left_out_of_a_log_that_is_an_effect(started, monkeypatch):
    monkeypatch.setattr(instances, "LOG_LIMIT", 1 << 10)
    monkeypatch.setattr(supervisor, "LONGEST_LOG", 1 << 20)
    program = "import time; print('up\\n' * 5_000, flush=True); time.sleep(1); print('x' * (2 << 20)); time.sleep(60)"
    with started(command=[sys.executable, "-c", program]) as one:
        one.apps.start()
        eventually(lambda: one.apps._broken)
        assert one.log().startswith("up\n" * 5_000)
        with pytest.raises(ClientError, match=r"GiB into logs/billing-1.log, where its effects are"):
            one.apps.check()


def test_a_program_that_is_gone_at_its_restart_ends_the_run_with_its_name(started, tmp_path):
    script = tmp_path / "service"
    script.write_text("#!/bin/sh\necho up\nexec sleep 600\n")
    script.chmod(0o755)
    with started(command=[str(script)]) as one:
        one.apps.start()
        script.unlink()
        one.apps.kill("billing/1", hold=False)
        eventually(lambda: one.apps._broken)
        with pytest.raises(ClientError, match=r"billing/1 cannot be started: .*service: No such file"):
            one.apps.check()


def test_java_reads_the_stores_of_an_application(started, tmp_path, secured_access):
    names = ("truststore", "keystore", "store_password")
    (tmp_path / "app.tpl").write_text("".join(f"{name}={{{name}}}\n" for name in names))
    with Started(tmp_path / "x", secured_access, files={"a": "../app.tpl"}) as one:
        one.apps.start()
        files = one.run.path / "apps" / "billing-1" / "files"
        values = dict(line.split("=", 1) for line in (files / "a").read_text().splitlines())
        password = values["store_password"].encode()
        key, certificate, _ = pkcs12.load_key_and_certificates(Path(values["keystore"]).read_bytes(), password)
        assert key.public_key() == certificate.public_key()
        for store, entry in (("truststore", "trustedCertEntry"), ("keystore", "PrivateKeyEntry")):
            tool = [find_java().path.with_name("keytool"), "-list", "-storepass", password, "-keystore", values[store]]
            assert entry in subprocess.run(tool, capture_output=True, text=True, check=True).stdout
        assert Path(values["keystore"]).stat().st_mode & 0o077 == 0
    assert not list(files.rglob("*.p12"))


@pytest.mark.parametrize("superuser", [False, True])
def test_an_instance_has_the_login_of_each_cluster_and_no_secret_stays(started, tmp_path, secured_access, superuser):
    def login(user):
        (tmp_path / user).write_text(f"secret of {user}")
        return Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username=user, password=f"file:{tmp_path / user}")

    template = "{protocol} {truststore}\n{protocol.dr} {username.dr} {password.dr}\n{username.zz}"
    (tmp_path / "app.tpl").write_text(template)
    more = {"beside": {"dr": Endpoint("dr:1", login("client"), login("admin"))}, "superuser": secured_access}
    access = None if superuser else secured_access
    with Started(tmp_path / "x", access, more, files={"a": "../app.tpl"}) as one:
        one.apps._apps["billing"] = one.apps._apps["billing"].model_copy(update={"superuser": superuser})
        one.apps.start()
        files = one.run.path / "apps" / "billing-1" / "files"
        own, at_dr, rest = (files / "a").read_text().splitlines()
        user = "admin" if superuser else "client"
        assert own == f"SSL {files}/.stores/truststore.p12"
        assert (at_dr, rest) == (f"SASL_PLAINTEXT {user} secret of {user}", "{username.zz}")
        assert (files / "a").stat().st_mode & 0o077 == 0
        assert {"secret of client", "secret of admin"} <= {*one.apps._values.secrets}
    assert not (files / "a").exists()


@pytest.fixture
def secured_access(tmp_path):
    authority, made = Authority.create(), tmp_path / "made"
    made.mkdir()
    authority.save(made / "ca.pem", made / "ca.key")
    certificate, key, _ = authority.issue("client")
    (made / "client.pem").write_bytes(certificate)
    (made / "client.key").write_bytes(key)
    paths = {"ca": "ca.pem", "certificate": "client.pem", "key": "client.key"}
    return Access(Security(protocol="SSL", **{name: str(made / file) for name, file in paths.items()}))


def test_a_password_with_a_newline_reaches_the_program_and_no_file(tmp_path):
    secret = "first-line\nsecond-line"
    security = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="env:X")
    program = "import os; print('up', repr(os.environ['P']), os.environ['P'], flush=True); import time; time.sleep(600)"
    one = Started(tmp_path / "x", access=Access(security, secret), command=[sys.executable, "-c", program])
    app = one.apps._apps["billing"]
    one.apps._apps["billing"] = app.model_copy(update={"env": {"P": "{password}", "B": "{bootstrap}"}})
    with one:
        one.apps.start()
        eventually(lambda: "up" in one.log())
        eventually(lambda: one.log().count("[secret]") >= 3)
    found = [p for p in one.run.path.rglob("*") if p.is_file() and b"second-line" in p.read_bytes()]
    assert found == []


def test_no_file_has_what_the_environment_names_as_secret(tmp_path, monkeypatch):
    given = {"LOGIN": "first-line\nsecond-line", "DB": "postgresql://u:50%25off@h/d", "TOPIC": "orders"}
    for name, value in {**given, "AFTERSHOCK_SECRETS": "LOGIN DB NONE"}.items():
        monkeypatch.setenv(name, value)
    program = "import os, time; print(*map(os.environ.get, ('LOGIN', 'DB', 'TOPIC')), '50%off', 'up', flush=True); "
    with Started(
        tmp_path / "x", command=[sys.executable, "-c", program + "time.sleep(600)"], ready={"log": "up"}
    ) as one:
        one.apps.start()
        eventually(lambda: "orders" in one.log())
        assert one.log().count("[secret]") == 4  # two lines, the URL and its password
    files = [p for p in one.run.path.rglob("*") if p.is_file()]
    assert [p for p in files for word in (b"second-line", b"50%25off", b"50%off") if word in p.read_bytes()] == []


@pytest.mark.docker
@needs_engine
def test_an_instance_in_a_container_is_broken_as_a_process_is(started):
    loop = "trap 'echo bye; exit 0' TERM; echo up $BROKERS $0 $1; while true; do sleep 0.1; done"
    arguments = ["sh", "-c", loop, "{name}", "{data}"]
    with started(command=None, image="aftershock-base:bookworm", arguments=arguments) as one:
        one.apps.start()
        instance = one.apps.instance("billing/1")
        assert f"up front-of-billing/1:1 billing/1 {instance.folder}/data" in one.log()
        one.apps.pause("billing/1")
        assert instance.suspended()
        one.apps.resume("billing/1")
        assert not instance.suspended()
        one.apps.kill("billing/1", hold=True)
        assert instance.exit_code == -9
        one.apps.up("billing/1", TIMEOUT_S)
        one.apps.wait_ready("billing")
        assert one.apps.stop_all() == []
        assert instance.exit_code == 0
        assert "bye" in one.log()
    assert engine.find_labelled(engine.connect(), one.run.path) == []


@pytest.mark.docker
@needs_engine
def test_a_container_that_ignores_the_signal_as_a_first_process_does_is_told_why(started):
    arguments = ["sh", "-c", "echo up; exec sleep 600"]
    with started(command=None, image="aftershock-base:bookworm", arguments=arguments, stop={"grace": "300ms"}) as one:
        one.apps.start()
        assert one.apps.stop_all() == ["billing/1"]
        assert one.apps.instance("billing/1").app.deaf.startswith("as the first process of its container, it ignores ")


@pytest.mark.docker
@needs_engine
def test_what_ends_a_run_ends_its_containers_with_any_driver_even_frozen_ones(started):
    with started(command=None, image="aftershock-base:bookworm", arguments=["sh", "-c", "echo up; sleep 600"]) as one:
        one.apps.start()
        one.apps.pause("billing/1")
        end_all(one.run.path)
        assert engine.find_labelled(engine.connect(), one.run.path) == []
        eventually(lambda: not one.apps.instance("billing/1").alive)


@pytest.mark.docker
@needs_engine
def test_any_user_of_an_image_has_files_and_data_and_the_run_removes_secrets(tmp_path):
    (tmp_path / "app.tpl").write_text("p={password}")
    login = {"mechanism": "PLAIN", "username": "u", "password": "env:APP_PASSWORD"}
    access = Access(Security(protocol="SASL_PLAINTEXT", **login), "secret-word")
    script = "setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'cat {files}/a >{data}/seen' && echo up; sleep 600"
    app = {"command": None, "image": "aftershock-base:bookworm", "arguments": ["sh", "-c", script]}
    with Started(tmp_path / "x", access, files={"a": "../app.tpl"}, **app) as one:
        one.apps.start()
        folder = one.run.path / "apps" / "billing-1"
        assert (folder / "data" / "seen").read_text() == "p=secret-word"
        assert folder.stat().st_mode & 0o077 == 0
    assert not (folder / "files" / "a").exists()


@pytest.mark.docker
@needs_engine
def test_a_container_that_cannot_start_is_named_and_leaves_none(started):
    with started(command=None, image="aftershock-base:bookworm", arguments=["no-such-program"]) as one:
        with pytest.raises(ClientError, match=r"billing/1 cannot be started in a container .*no-such-program"):
            one.apps.start()
        assert engine.find_labelled(engine.connect(), one.run.path) == []


@pytest.mark.docker
@needs_engine
def test_an_image_that_cannot_be_pulled_is_named():
    with pytest.raises(MachineError, match=r"no image nowhere\.invalid/none:1, and cannot pull it"):
        prepare([App(name="billing", image="nowhere.invalid/none:1")], lambda words: None)


def test_an_instance_that_ignores_its_address_is_named(started, monkeypatch):
    monkeypatch.setattr("chaos.apps.supervisor.CONNECTED_S", 0)
    with started(instances=2) as one:
        one.apps.start()
        one.apps._used = lambda: {"", "billing/1"}
        (stranger,) = one.apps.strangers()
        assert stranger.startswith("billing/2 never connected to its address front-of-billing/2:1: it ignores")
        assert "or a configuration file that `files` of the application makes" in stranger
        one.apps.kill("billing/2", hold=True)
        assert one.apps.strangers() == [], "an instance that is gone may have had no time"


CONNECTS = """
import socket, sys, time
kept = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
kept.recv(1)
kept.close()
print("gone", flush=True)
time.sleep(600)
"""


def test_an_instance_that_also_connects_past_its_address_is_named(started, monkeypatch):
    """For a short time, in a child."""
    monkeypatch.setattr("chaos.apps.supervisor.LOOK_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as broker:
        at = broker.getsockname()[1]
        more = {"used": lambda: {"billing/1"}, "brokers": lambda: [("localhost", at)]}
        with started(command=["sh", "-c", f"{sys.executable} -c '{CONNECTS}' {at}; true"], more=more) as one:
            one.apps.start()
            eventually(one.apps.strangers)
            broker.accept()[0].close()
            eventually(lambda: "gone" in one.log())
            (stranger,) = one.apps.strangers()
            assert stranger.startswith(f"billing/1 connected to localhost:{at} past its address front-of-billing/1:1")


def test_an_instance_that_connects_to_something_else_is_none_of_the_runs_business(started, monkeypatch):
    monkeypatch.setattr("chaos.apps.supervisor.LOOK_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as broker, socket.create_server(("127.0.0.1", 0)) as other:
        at, elsewhere = broker.getsockname()[1], other.getsockname()[1]
        looks = []
        more = {"used": lambda: {"billing/1"}, "brokers": lambda: looks.append(1) or [("localhost", at)]}
        with started(command=[sys.executable, "-c", CONNECTS, str(elsewhere)], more=more) as one:
            one.apps.start()
            kept, seen = other.accept()[0], len(looks)
            eventually(lambda: len(looks) > seen + 1)
            assert one.apps.strangers() == []
            kept.close()


def test_the_line_of_readiness_is_found_in_a_log_without_end(started):
    program = (
        "import sys, time\n"
        "sys.stdout.write('noise\\n' * 3_000_000)\n"
        "sys.stdout.write('half a li'); sys.stdout.flush(); time.sleep(0.3)\n"
        "print('ne: up', flush=True)\n"
        "time.sleep(600)"
    )
    with started(command=[sys.executable, "-c", program], ready={"log": "^half a line: up$"}) as one:
        one.apps.start()
        instance = one.apps.instance("billing/1")
        assert instance.searched_to == len("noise\n") * 3_000_000
        assert instance.last_words() == "noise | noise | half a line: up"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["gone: 7", "%4|17.9|GETPID|shop| Coordinator load in progress: retrying"], "gone: 7"),
        (["gone: 7", "%3|17.9|FAIL|shop| Connection refused"], "gone: 7 | %3|17.9|FAIL|shop| Connection refused"),
        (["%5|17.9|REQTMOUT|shop| timed out"], "%5|17.9|REQTMOUT|shop| timed out"),
    ],
)
def test_a_warning_of_a_library_is_the_last_word_only_if_there_is_no_other(started, lines, words):
    with started(command=[sys.executable, "-c", f"print({chr(10).join(lines)!r})"]) as one:
        with pytest.raises(ClientError):
            one.apps.start()
        assert one.apps.instance("billing/1").last_words() == words


def test_a_port_that_something_else_has_is_named_before_the_start(started):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            started(ready={"port": port}) as one,
            pytest.raises(ClientError, match=rf"billing: port {port} answers before billing was started, so another"),
        ):
            one.apps.start()
        assert not one.apps._instances


def test_the_login_of_an_external_application_is_named_by_its_files_without_a_secret(tmp_path):
    security = Security(protocol="SASL_SSL", mechanism="PLAIN", username="u", password="file:/run/p", ca="/run/ca.pem")
    one = Started(tmp_path / "x", Access(security, "secret-word"))
    assert (
        one.apps._values.login()
        == " (SASL_SSL with PLAIN; user u, password in file:/run/p; authorities in /run/ca.pem)"
    )
    with one:
        pass
