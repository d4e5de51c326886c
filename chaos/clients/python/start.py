"""The start of a client program in Python: `python -m chaos.clients.python.start FOLDER SPEC`.

FOLDER is the folder of the library in `chaos.clients`. pyarrow imports pandas with the first array if pandas is
installed, which costs a process 0.25 s of CPU time and 50 MB. No client program uses it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from chaos.clients.protocol import AssignConsumerSpec, GroupConsumerSpec, ProcessorSpec, ProducerSpec, Program

ENTRY = (sys.executable, "-m", "chaos.clients.python.start")
"""Command line that the folder of a library and the path of a spec complete."""
SPECS: dict[Program, Any] = {
    "producer": ProducerSpec,
    "processor": ProcessorSpec,
    "group_consumer": GroupConsumerSpec,
    "assign_consumer": AssignConsumerSpec,
}


class NoPandas(MetaPathFinder):
    """A finder that refuses pandas, as if it were not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise `ModuleNotFoundError` for pandas; leave all other modules to the other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError("client programs do not use pandas", name=fullname)
        return None


def main(argv: list[str]) -> NoReturn:
    """Run the program of a spec, and end the process.

    Nothing is left to do then, and threads of a library may not end: kafka-python 2.2.8 was seen to wait for itself.
    """
    program: Program = json.loads(Path(argv[2]).read_bytes())["program"]
    from chaos.clients.python.program import run_clients

    library = import_module(f"{__package__.rpartition('.')[0]}.{argv[1]}.library").LIBRARY
    spec = SPECS[program].load(argv[2])
    detail = {name: getattr(spec, name) for name in ("first_seq", "checkpoint") if hasattr(spec, name)}
    threads = getattr(spec, "threads", [])
    members = [spec.model_copy(update={"client": c, "threads": []}) for c in threads]
    code = run_clients(members or [spec], partial(_program(program, spec), library), **detail, **library.reported)
    sys.stderr.flush()
    os._exit(code)


def _program(program: Program, spec: Any) -> Any:
    """Return the class of a program."""
    if program == "producer":
        from chaos.clients.python.sender import Producer

        return Producer
    if program == "processor":
        from chaos.clients.python.processor import Processor

        return Processor
    if program == "assign_consumer":
        from chaos.clients.python.assigned import AssignConsumer

        return AssignConsumer
    from chaos.clients.python.group import GroupConsumer, PooledConsumer

    return PooledConsumer if spec.workers else GroupConsumer


if __name__ == "__main__":
    sys.meta_path.insert(0, NoPandas())
    main(sys.argv)
