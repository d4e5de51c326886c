"""Tests of the relay as a process: neither a garbage collection nor a full disk closes the control socket."""

import asyncio
import errno
import gc
import json
from pathlib import Path

import pytest
import uvloop

from chaos.relay import capture
from chaos.relay.server import serve

pytestmark = pytest.mark.slow

BROKER = ("127.0.0.1", 1)
LISTENERS = {"proxy": ("clients",), "switch": ("clients", "peers", "quorum")}


@pytest.mark.parametrize("role", LISTENERS)
def test_the_control_socket_outlives_a_garbage_collection(role, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    brokers = {1: dict.fromkeys(LISTENERS[role], BROKER)}

    async def play():
        serving = asyncio.create_task(serve(Path.cwd(), role, brokers))
        async with asyncio.timeout(10):
            while not Path(f"{role}.json").exists():
                await asyncio.sleep(0.01)
        for _ in range(2):
            gc.collect()
            await asyncio.sleep(0)
            reader, writer = await asyncio.open_unix_connection(f"{role}.sock")
            writer.write(b'{"do": "dance"}\n')
            assert "unknown order" in json.loads(await reader.readline())["error"]
            writer.close()
        serving.cancel()

    uvloop.run(play())


def test_a_seal_for_which_there_is_no_room_is_an_answer_and_can_be_asked_for_again(tmp_path, monkeypatch):
    """On a full disk, the capture ends, and the control connection with its traffic goes on."""
    monkeypatch.chdir(tmp_path)
    written, full = capture.write_atomically, [True]

    def write(path, text):
        if full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        written(path, text)

    monkeypatch.setattr(capture, "write_atomically", write)

    async def play():
        serving = asyncio.create_task(serve(Path.cwd(), "proxy", {1: {"clients": BROKER}}, payloads="none"))
        async with asyncio.timeout(10):
            while not Path("proxy.json").exists():
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_unix_connection("proxy.sock")

            async def asked(order):
                writer.write(json.dumps({"do": order}).encode() + b"\n")
                return json.loads(await reader.readline())

            assert "No space left" in (await asked("seal"))["error"]
            assert (await asked("status"))["failure"] == ""
            full.clear()
            assert (await asked("seal"))["entries"] == 0
            writer.close()
        serving.cancel()

    uvloop.run(play())
    assert (tmp_path / capture.FOLDER / capture.SEAL).exists()
