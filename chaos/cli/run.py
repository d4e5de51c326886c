"""`run`, `audit`, `test`, `init`: from a scenario, an earlier run, or an unmodified application to a verdict."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from chaos.cli import options as opt
from chaos.cli.output import View, print_campaign, print_result, print_timings

if TYPE_CHECKING:
    from chaos.apps.trial import Asked
    from chaos.campaign.ab import Variants
    from chaos.run.directory import Run


RECORDING = "adding the run to the history"
EXAMPLES = {
    "run": "run leader-kill --kafka 3.9.2 --seed 7 --json",
    "audit": "audit runs/leader-kill-20261121-040000-1a2b",
    "control": "control --socket /tmp/aftershock.sock",
    "init": "init --samples orders.jsonl --save billing.yaml -- python service.py",
    "test": "test --samples orders.jsonl -- python service.py\n\n"
    "python -m chaos test --reads orders --writes invoices --samples orders.jsonl --id '$.id' -- python service.py",
}


def run(
    scenario: opt.Scenario = "",
    kafka: opt.Kafka = None,
    client: opt.Client = None,
    driver: opt.Driver = None,
    bootstrap: opt.Bootstrap = None,
    i_own_this_cluster: opt.Owned = False,
    seed: opt.Seed = None,
    sets: opt.Sets = None,
    variant: opt.Variant = "",
    repeat: opt.Repeat = None,
    budget: opt.For = None,
    into: opt.Into = None,
    resume: opt.Resume = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    spark_master: opt.Master = None,
    metrics: opt.Metrics = None,
    timings: opt.Timings = False,
    as_json: opt.Json = False,
) -> None:
    """Run a scenario: deploy a cluster, break it under load, audit every record, give the verdict.

    A scenario with variants runs N times for each of them, with the same seeds, and ends with their comparison. It says
    that a setting caused a difference only with enough runs of each (--repeat). --resume, --for and --repeat are for
    such a scenario; `repeat` runs one scenario N times.
    """
    with View() as view:
        view.doing("loading")
        from chaos.campaign.ab import VariantsRequest, plan_variants
        from chaos.drive import stages
        from chaos.errors import UsageError
        from chaos.history.recording import check_metrics
        from chaos.lab.judge import check_master
        from chaos.lab.lab import drive_and_judge, recorded

    check_master(spark_master)
    check_metrics(metrics)
    request = stages.ScenarioRequest(
        scenario, seed, kafka, driver, bootstrap, tuple(sets or ()), i_own_this_cluster, client
    )
    if resume or (scenario and not variant and request.load().variants):
        asked = VariantsRequest(
            runs_dir=runs_dir, into=into, resume=resume, repeat=repeat, budget=budget, given=request,
            spark_master=spark_master,
        )  # fmt: skip
        _run_variants(plan_variants(asked), metrics, as_json)
    if not scenario:
        raise UsageError("name a scenario, or --resume with the folder of an A/B run; `list` shows the scenarios")
    if repeat or budget:
        raise UsageError(
            f"--repeat and --for are for a scenario with variants; here: python -m chaos repeat {scenario}"
        )
    runs_dir = into.absolute().parent if into else runs_dir
    prepared = stages.prepare(request, runs_dir=runs_dir, variant=variant, run_id=into.name if into else None)
    with View() as view:
        view.say(f"run directory: {prepared.path}")
        with recorded([prepared], runs_dir, view.problem, metrics):
            code = drive_and_judge(prepared, view, spark_master, partial(_show, view, prepared, as_json))
            view.doing(RECORDING)
    if timings:
        print_timings(prepared)
    raise typer.Exit(code)


def _show(view: View, run: Run, as_json: bool) -> None:
    """Print the verdict of a run between two lines of progress."""
    with view.paused():
        print_result(run, as_json)


def _run_variants(planned: Variants, metrics: list[str] | None, as_json: bool) -> NoReturn:
    from chaos.campaign.ab import run_variants
    from chaos.lab.lab import recorded
    from chaos.run.result import EXIT_CODES

    with View() as view:
        view.say(f"run directory: {planned.folder.path}")
        with recorded(planned.runs, planned.folder.path.parent, view.problem, metrics):
            result = run_variants(planned, view)
            view.doing(RECORDING)
    print_campaign(result, planned.folder.path, as_json)
    raise typer.Exit(EXIT_CODES[result.verdict])


def audit(
    run_dir: Annotated[
        str, typer.Argument(help="The directory of an earlier run, or its URI, such as hdfs://host:9000/runs/x.")
    ],
    spark_master: opt.Master = None,
    as_json: opt.Json = False,
) -> None:
    """Audit a run directory again, offline: from its ledger to the verdict, without Kafka."""
    from chaos.lab.judge import audit_once, check_master
    from chaos.run.directory import Run
    from chaos.scenario.resolve import read

    check_master(spark_master)
    with contextlib.ExitStack() as stack:
        uri = run_dir if "://" in run_dir else None
        if uri:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aftershock-")))
            audited = Run(work / uri.rstrip("/").rpartition("/")[2])
        else:
            audited = Run.open(Path(run_dir))
            read(audited)
        with View() as view:
            view.doing("starting the audit")
            code = audit_once(audited, view, spark_master, uri)
        print_result(audited, as_json)
    raise typer.Exit(code)


Command = Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="The application's command, after --.")]
Samples = Annotated[
    Path, typer.Option(help="Inputs as it gets them: a JSON object in each line.", dir_okay=False, show_default=False)
]
Identity = Annotated[
    str,
    typer.Option(
        "--id", metavar="JSONPATH", help="Where an input has its id: $.order_id; proposed from samples if left out."
    ),
]
Reads = Annotated[
    list[str] | None, typer.Option(help="A topic that it reads. Repeatable; seen in a first run if left out.")
]
Writes = Annotated[
    list[str] | None,
    typer.Option(
        help="A topic that gets one record for each input; with commas, several topics: it may "
        "be in any one. Seen in a first run if left out."
    ),
]
Effects = Annotated[
    list[str] | None,
    typer.Option(
        "--effect", metavar="KIND=VALUE", help="What each input leads to elsewhere: 'sql=env:DB select order_id from "
        "invoice', files=out/*.jsonl, 'log=booked (?P<id>\\S+)', http=/invoices with {http.invoices} as its "
        "address in --env or COMMAND. After a path, where the id is: 'files=out/*.jsonl $.orders[*].id'. Repeatable.",
    ),
]  # fmt: skip
Instances = Annotated[int, typer.Option(min=1, max=50, help="Processes of the application.")]
Group = Annotated[str | None, typer.Option(help="Its consumer group; found by itself if left out.")]
Variables = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="A variable, such as KAFKA={bootstrap}; usual names if left out."),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file", metavar="NAME=TEMPLATE", help="A file for it, made from a template with {bootstrap}: its path is "
        "{files}/NAME in COMMAND and --env. Repeatable.",
    ),
]  # fmt: skip
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        metavar="NAME=VALUE",
        help="More of its inputs than the samples: key=$.customer, "
        "headers.trace={uuid}, avro=order.avsc, registry.id=7, as `value` of a producer. Repeatable.",
    ),
]
ReadyWhen = Annotated[
    str | None,
    typer.Option("--ready", metavar="KIND=VALUE", help="When it is ready: group=…, topic=…, log=…, port=…, http=…."),
]
Name = Annotated[str, typer.Option(help="Its name in the report; the name of its program if left out.")]


def init(
    command: Command,
    samples: Samples,
    save: Annotated[Path, typer.Option(help="The file of the scenario.")] = Path("scenario.yaml"),
    identity: Identity = "",
    value: Values = None,
    reads: Reads = None,
    writes: Writes = None,
    effects: Effects = None,
    instances: Instances = 2,
    group: Group = None,
    env: Variables = None,
    files: Files = None,
    ready: ReadyWhen = None,
    name: Name = "",
    kafka: opt.Kafka = None,
    driver: opt.Driver = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
) -> None:
    """Write the scenario of `test` for an application into a file with comments, to change and to `run`.

    Without --reads or --writes, a first run of some seconds shows them, and where the id is. Nothing is broken.
    """
    from chaos.apps.trial import remarks, scenario_of, write_scenario
    from chaos.errors import UsageError

    if save.exists():
        raise UsageError(f"{save} exists; name another file with --save, or remove it")
    asked = _asked(command, samples, identity, value, reads, writes, effects, instances, group, env, files, ready, name)
    asked = _looked_at(asked, runs_dir, kafka, driver)
    write_scenario(scenario_of(asked), save)
    for remark in remarks(asked):
        typer.echo(remark, err=True)
    typer.echo(f"scenario: {save}; change it as you like, then: python -m chaos run {save}", err=True)


def test(
    command: Command,
    samples: Samples,
    identity: Identity = "",
    value: Values = None,
    reads: Reads = None,
    writes: Writes = None,
    effects: Effects = None,
    instances: Instances = 2,
    group: Group = None,
    env: Variables = None,
    files: Files = None,
    ready: ReadyWhen = None,
    rate: Annotated[str, typer.Option(help="Inputs per second.")] = "200/s",
    records: Annotated[int, typer.Option(min=100, help="Inputs at least; the traffic outlasts the faults.")] = 2_000,
    breaks: Annotated[
        list[str] | None, typer.Option("--only", metavar="FAULT", help="Only this fault. Repeatable, in order.")
    ] = None,
    name: Name = "",
    save: Annotated[Path | None, typer.Option(help="The file of the scenario; below --runs-dir if left out.")] = None,
    kafka: opt.Kafka = None,
    driver: opt.Driver = None,
    seed: opt.Seed = None,
    into: opt.Into = None,
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
    as_json: opt.Json = False,
) -> None:
    """Run an application, unmodified, break its cluster and itself, and say which inputs it lost or processed twice.

    Without --reads or --writes, a first run of some seconds shows them, and where the id is. The scenario is written as
    a file that `run` takes: brokers, traffic from the samples with another id in each input, the instances of the
    application, and SIGKILL of an instance, once an offset is committed unless it commits none, the crash of a
    leader, the loss of the coordinator, SIGTERM and a pause of an instance, and a slow link.
    """
    from chaos.apps.trial import check_faults, free, remarks, scenario_of, write_scenario

    asked = _asked(command, samples, identity, value, reads, writes, effects, instances, group, env, files, ready, name)
    asked = replace(asked, rate=rate, records=records, breaks=breaks or asked.breaks)
    check_faults(asked)
    runs_dir = into.absolute().parent if into else runs_dir
    path = save or free(runs_dir / f"test-{asked.app}.yaml")
    asked = _looked_at(asked, runs_dir, kafka, driver)
    write_scenario(scenario_of(asked), path)
    for remark in remarks(asked):
        typer.echo(remark, err=True)
    typer.echo(f"scenario: {path}", err=True)
    run(str(path), kafka=kafka, driver=driver, seed=seed, into=into, runs_dir=runs_dir, as_json=as_json)


def control(
    socket: Annotated[Path, typer.Option(help="The Unix socket to make; only its owner may use it.")] = Path(
        "aftershock.sock"
    ),
    runs_dir: opt.RunsDir = opt.RUNS_DIR,
) -> None:
    """Run scenarios for tests in any language: JSON over a socket, with brokers and a judge that stay warm.

    Prints the path of the socket when it takes requests: `{"run": SCENARIO}` in a line; the answer has a line for each
    step, and then the verdict. The page chaos/testing/README.md has the protocol. Ctrl-C ends everything.
    """
    with View() as view:
        view.doing("loading")
        from chaos.errors import UsageError
        from chaos.run.directory import new_run_id
        from chaos.testing.control import Control, Steps
        from chaos.testing.session import Session

        folder = (runs_dir / new_run_id("control")).absolute()
        steps = Steps()
        with Session(folder, steps) as session:
            try:
                server = Control(socket.absolute(), session, steps)
            except OSError as e:
                raise UsageError(
                    f"{socket} cannot be made ({e.strerror or e}); name another file with --socket, or remove it"
                ) from None
            view.say(f"run directories: {folder}; Ctrl-C ends all")
            view.between = ""
            typer.echo(socket.absolute())
            try:
                server.serve_forever()
            finally:
                server.server_close()
                socket.absolute().unlink(missing_ok=True)


def _asked(
    command: list[str],
    samples: Path,
    identity: str,
    value: list[str] | None,
    reads: list[str] | None,
    writes: list[str] | None,
    effects: list[str] | None,
    instances: int,
    group: str | None,
    env: list[str] | None,
    files: list[str] | None,
    ready: str | None,
    name: str,
) -> Asked:
    """Return what the options say. The id is proposed from the samples if none is named."""
    from chaos.apps.trial import Asked, check_files, effects_of, more_of_inputs, propose_id

    if not identity:
        identity = propose_id(samples)
        typer.echo(f"id: {identity}, as it looks in the samples; name another field with --id", err=True)
    asked = Asked(
        command=command,
        reads=reads or (),
        writes=writes or (),
        effects=effects or (),
        samples=samples.absolute(),
        id=identity,
        more=more_of_inputs(samples, identity, value or (), Path.cwd()),
        directory=Path.cwd(),
        name=name,
        instances=instances,
        group=group,
        env=dict(_split(text, "--env") for text in env or ()),
        files={file: Path(template).absolute() for file, template in (_split(f, "--file") for f in files or ())},
        ready=dict([_split(ready, "--ready")]) if ready else None,
    )
    effects_of(asked)  # a mistake is said before the first run
    check_files(asked)
    return asked


def _looked_at(asked: Asked, runs_dir: Path, kafka: str | None, driver: str | None) -> Asked:
    """Run the application once if a topic is not named; return what is asked with the topics that were seen."""
    if asked.reads and (asked.writes or asked.effects):
        return asked
    with View() as view:
        view.doing("loading")
        from chaos.apps.trial import check_databases, effect_words
        from chaos.drive.look import look, proposed

        for warning in check_databases(asked):
            view.say(warning)
        seen = look(asked, runs_dir, kafka, driver, view)
        found = proposed(asked, seen)
        view.say(f"reads: {', '.join(found.reads)}{f', as group {found.group}' if found.group else ''}")
        for topic in found.writes:
            but = f", because --writes names it; in the first run: {why}" if (why := seen.others.get(topic)) else ""
            view.say(f"effect: {effect_words(found, topic)}{but}")
        for topic, why in seen.others.items():
            if topic not in found.writes:
                view.say(f"no effect: {topic}, {why}; name it with --writes if each input has to have one")
        for topic in seen.apart:
            view.say(
                f"no effect: {topic}, its records are for inputs of {', '.join(found.reads[1:])}; nothing proves them "
                "unless the scenario has an effect with `of: TOPIC` for it"
            )
    return found


def _split(text: str, option: str) -> tuple[str, str]:
    from chaos.errors import UsageError

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(
            f"{option} {text!r} is not understood; write NAME={'TEMPLATE' if option == '--file' else 'VALUE'}"
        )
    return key.strip(), value
