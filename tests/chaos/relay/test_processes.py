"""Tests of the relay as a process, in both roles: the garbage collector never closes the control socket."""

import asyncio
import gc
import json
from pathlib import Path

import pytest
import uvloop

from chaos.relay.server import serve

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
