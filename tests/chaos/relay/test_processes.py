"""Proxy and switch as processes of their own: their control sockets stay open whatever the garbage collector does."""

import asyncio
import gc
import json
from pathlib import Path

import pytest
import uvloop

from chaos.relay import server, switch

AT = ("127.0.0.1", 1)
SERVED = {
    "proxy": (server.serve, {1: AT}, "proxy.sock"),
    "switch": (switch.serve, {1: {"clients": AT, "peers": AT, "quorum": AT}}, "switch.sock"),
}


@pytest.mark.parametrize("name", SERVED)
def test_the_control_socket_outlives_a_garbage_collection(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    serve, brokers, socket = SERVED[name]

    async def play():
        serving = asyncio.create_task(serve(Path.cwd(), brokers))
        async with asyncio.timeout(10):
            while not Path(f"{name}.json").exists():
                await asyncio.sleep(0.01)
        for _ in range(2):
            gc.collect()
            await asyncio.sleep(0)
            reader, writer = await asyncio.open_unix_connection(socket)
            writer.write(b'{"do": "dance"}\n')
            assert "unknown order" in json.loads(await reader.readline())["error"]
            writer.close()
        serving.cancel()

    uvloop.run(play())
