"""Probes distinguish a broker that answers, a silent broker, and a broker that is gone."""

import socket
import threading

import pytest

from chaos.faults.targets import answer_s


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_a_probe_measures_the_time_of_an_answer(server):
    def answer():
        connection, _ = server.accept()
        with connection:
            assert len(connection.recv(100)) == 14
            connection.sendall(b"\0\0\0\4answ")

    thread = threading.Thread(target=answer)
    thread.start()
    assert answer_s(*server.getsockname(), timeout_s=5) >= 0
    thread.join()


def test_a_silent_broker_raises_a_timeout(server):
    with pytest.raises(TimeoutError):
        answer_s(*server.getsockname(), timeout_s=0.2)


def test_a_closed_connection_is_not_silence(server):
    thread = threading.Thread(target=lambda: server.accept()[0].close())
    thread.start()
    with pytest.raises(ConnectionError):
        answer_s(*server.getsockname(), timeout_s=5)
    thread.join()


def test_a_refused_connection_is_not_silence(server):
    address = server.getsockname()
    server.close()
    with pytest.raises(ConnectionError):
        answer_s(*address, timeout_s=5)
