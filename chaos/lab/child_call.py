"""Function calls in a child process, for callers such as Airflow that must be able to kill the work.

The request goes to the child's standard input and the result comes back in a file, both as JSON of their types.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter

from chaos.errors import AftershockError
from chaos.lab.progress import StderrListener
from chaos.processes.process import run_module
from chaos.run.directory import write_atomically

R = TypeVar("R")


def call(function: str, request: object, result_type: type[R]) -> R:
    """Call `function(request, listener)`, given as `module:name`, in a child process and return its result.

    Progress goes to standard error. Leaving by an exception kills the child. Raises `AftershockError` with the message
    of the child's own `AftershockError`, or if the child dies.
    """
    text = TypeAdapter(type(request)).dump_json(request).decode()
    with tempfile.TemporaryDirectory(prefix="aftershock-call-") as folder:
        file = Path(folder) / "reply.json"
        done = run_module("chaos.lab.child_call", function, str(file), capture=False, text_input=text)
        if not file.exists():
            raise AftershockError(f"{function} ended with exit code {done.returncode} and no result; see this log")
        reply = json.loads(file.read_text(encoding="utf-8"))
    if "error" in reply:
        raise AftershockError(reply["error"])
    return TypeAdapter(result_type).validate_python(reply["result"])


def main(function: str, file: str) -> None:
    """Run the function of a request on standard input, and write its result or its error to a file."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the work of this process as Ctrl-C does
    module, _, name = function.partition(":")
    target = getattr(importlib.import_module(module), name)
    hints = get_type_hints(target)
    result_type = hints.pop("return")
    request = TypeAdapter(next(iter(hints.values()))).validate_json(sys.stdin.read())
    reply: dict[str, Any]
    try:
        reply = {"result": TypeAdapter(result_type).dump_python(target(request, StderrListener()), mode="json")}
    except AftershockError as e:
        reply = {"error": str(e)}
    write_atomically(Path(file), json.dumps(reply))


if __name__ == "__main__":
    main(*sys.argv[1:])
