"""The entry of the programs of a library in Python: it runs the one that a spec names."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from chaos.clients.program import run_clients
from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec, ProducerSpec, Program
from chaos.clients.python.assigned import AssignConsumer
from chaos.clients.python.group import GroupConsumer
from chaos.clients.python.library import Library
from chaos.clients.python.producer import Producer

PROGRAMS: dict[Program, tuple[Any, Any]] = {
    "producer": (ProducerSpec, Producer),
    "group_consumer": (GroupConsumerSpec, GroupConsumer),
    "assign_consumer": (AssignConsumerSpec, AssignConsumer),
}


def main(argv: list[str], library: Library) -> NoReturn:
    """Run the program of a spec, and end the process.

    Nothing is left to do then, and threads of a library may not end: kafka-python 2.2.8 was seen to wait for itself.
    """
    model, client = PROGRAMS[json.loads(Path(argv[1]).read_bytes())["program"]]
    (key,) = library.traits.reported
    code = run_clients([model.load(argv[1])], partial(client, library), **{key: library.release})
    sys.stderr.flush()
    os._exit(code)
