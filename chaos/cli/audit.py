"""`audit`: from the ledger of an earlier run to a new verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from chaos.cli.options import Json, Master

EXAMPLE = "audit runs/leader-kill-20261121-040000-1a2b"


def command(
    run_dir: Annotated[
        str, typer.Argument(help="The directory of an earlier run, or its URI, such as hdfs://host:9000/runs/x.")
    ],
    spark_master: Master = None,
    as_json: Json = False,
) -> None:
    """Audit a run directory again, offline: from its ledger to the verdict, without Kafka."""
    import contextlib
    import tempfile
    from pathlib import Path

    from chaos.cli.output import print_result
    from chaos.cli.view import View
    from chaos.lab.judge import audit_once, check_master
    from chaos.run.directory import Run
    from chaos.scenario.resolve import read

    check_master(spark_master)
    with contextlib.ExitStack() as stack:
        uri = run_dir if "://" in run_dir else None
        if uri:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aftershock-")))
            run = Run(work / uri.rstrip("/").rpartition("/")[2])
        else:
            run = Run.open(Path(run_dir))
            read(run)
        with View() as view:
            code = audit_once(run, view, spark_master, uri)
        print_result(run, as_json)
    raise typer.Exit(code)
