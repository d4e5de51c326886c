"""The control socket: orders in, answers out, a line of JSON each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any


async def obey_lines(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    obey: Callable[[dict[str, Any]], dict[str, Any]],
    end: Callable[[], None],
) -> None:
    """Serve one connection; `end` undoes what was made over it, however it ends."""
    try:
        while line := await reader.readline():
            try:
                answer = obey(json.loads(line))
            except (ValueError, TypeError, KeyError) as e:
                answer = {"error": f"{type(e).__name__}: {e}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
    finally:
        end()
        writer.close()
