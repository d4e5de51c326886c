"""What instances use outside of their run: ports, files and databases that another run would use, too."""

import socket
import subprocess
import sys

import pytest

from chaos.apps.outside import Outside

USES = """
import socket, sys
kept = open(sys.argv[1], "w") if sys.argv[1] else None
read = open(sys.executable, "rb")
listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
print(listening.getsockname()[1], flush=True)
peer = socket.create_connection(("127.0.0.1", int(sys.argv[3]))) if sys.argv[3] != "0" else None
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def uses():
    """Starts programs with a file, a port and a peer; ends them."""
    started = []

    def start(file="", port=0, peer=0):
        program = subprocess.Popen(
            [sys.executable, "-c", USES, str(file), str(port), str(peer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(program)
        listens = int(program.stdout.readline())
        assert program.stdout.readline() == "up\n"
        return program.pid, listens

    yield start
    for program in started:
        program.communicate("")


def test_a_port_and_a_file_that_the_program_chose_are_outside(tmp_path, uses):
    pid, port = uses(tmp_path / "state.db")
    outside = Outside(tmp_path / "run", set())
    outside.look("billing/1", pid)
    outside.look("billing/1", pid)
    assert outside.sentences() == [f"billing/1 listens on port {port}, writes {tmp_path / 'state.db'}"]


def test_a_file_of_the_run_and_a_port_that_it_gave_are_not(tmp_path, uses):
    (tmp_path / "run").mkdir()
    pid, port = uses(tmp_path / "run" / "state.db")
    outside = Outside(tmp_path / "run", {port})
    outside.look("billing/1", pid)
    assert outside.sentences() == []
    outside.look("billing/1", 2**22 - 1)  # it has ended


def test_a_connection_to_a_server_that_no_run_started_is_outside_and_one_to_this_process_is_not(tmp_path, uses):
    _, database = uses()
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        own = receiver.getsockname()[1]
        for peer, expected in ((database, [f"billing/1 is connected to 127.0.0.1:{database}"]), (own, [])):
            pid, port = uses(peer=peer)
            outside = Outside(tmp_path, {port})
            outside.look("billing/1", pid)
            assert outside.sentences() == expected
