"""A path of another kind than a command takes: one line that says what it is, and what takes it."""

import pytest
from typer.testing import CliRunner

from chaos.cli import app
from chaos.drive import stages
from chaos.errors import AftershockError
from chaos.incident.bundle import pack
from chaos.kinds import kind_of, kind_of_mapping

YAML = {
    "mine.yaml": "title: S\ntopics: [{name: orders}]\nproducers: [{name: shop, topic: orders}]\n",
    "gate.yaml": "title: G\nscenarios: [leader-kill]\n",
    "app.yaml": "producer: {config: {acks: all}}\ntopic: {name: orders}\n",
    "cluster.yaml": "cluster: {bootstrap: 'kafka:9092'}\n",
}
TAKES = {
    "mine.yaml": "a scenario, not {}; what takes it: python -m chaos run mine.yaml",
    "gate.yaml": "a gate, not {}; what takes it: python -m chaos gate gate.yaml",
    "app.yaml": "the description of an application, not {}; what takes it: python -m chaos prove app.yaml",
    "cluster.yaml": "the description of a cluster, not {}; what takes it: python -m chaos tap --cluster cluster.yaml",
    "a.properties": "a file of settings, not {}; what takes it: python -m chaos promise a.properties",
    "some.jsonl": "a file of samples, not {}; what takes it: python -m chaos test --samples some.jsonl -- COMMAND",
    "a.tar.gz": "a bundle, not {}; what takes it: python -m chaos replay a.tar.gz",
    "packed": "a bundle, not {}; what takes it: python -m chaos replay packed",
    "runs/one": "the directory of a run, not {}; what takes it: python -m chaos replay runs/one",
    "many": "the folder of a campaign, not {}; its runs are the directories below it",
    "compared": "the folder of a comparison, not {}; what was found is in its result.json",
    "examined": "the folder of an examination of a cluster, not {}; what was found is in its result.json",
    "many/campaign.json": "a file of a run or campaign, not {}; name its folder many where a run is taken",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in YAML.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "a.properties").write_text("acks=all\n")
    (tmp_path / "some.jsonl").write_text('{"id": 1}\n')
    run = stages.prepare(stages.ScenarioRequest("mine.yaml"), runs_dir=tmp_path / "runs", run_id="one")
    pack(run, tmp_path / "a.tar.gz")
    (tmp_path / "packed").write_bytes((tmp_path / "a.tar.gz").read_bytes())
    (tmp_path / "many").mkdir()
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "comparison.json").write_text("{}")
    (tmp_path / "examined").mkdir()
    (tmp_path / "examined" / "commits.csv").write_text("group,topic\n")
    for part in ("plan.json", "campaign.json"):
        (tmp_path / "many" / part).write_text("{}")
    return tmp_path


def refusal(*argv):
    done = CliRunner().invoke(app, [*map(str, argv)])
    assert isinstance(done.exception, AftershockError), done.output
    assert done.exception.exit_code == 2
    return str(done.exception)


@pytest.mark.parametrize("name", TAKES)
def test_each_command_names_what_takes_a_path_of_another_kind(files, name):
    said = {}
    if name != "mine.yaml":
        said |= {"run": "a scenario", "show": "a scenario"}
    if name not in ("mine.yaml", "a.tar.gz", "packed", "runs/one", "many", "compared", "examined"):
        said |= {"explore": "a scenario", "repeat": "a scenario", "replay": "a scenario"}
    if name != "gate.yaml":
        said["gate"] = "a gate"
    if name not in ("app.yaml", "a.properties", "cluster.yaml"):
        said |= dict.fromkeys(("promise", "prove"), "an application or its settings")
    for command, wanted in said.items():
        assert refusal(command, name) == f"{name} is {TAKES[name].format(wanted)}", command


@pytest.mark.parametrize(("name", "command"), [("upgrade-3.9-to-4.3", "run"), ("leader-kill", "gate")])
def test_the_name_of_a_shipped_file_of_another_kind_says_what_takes_it(files, name, command):
    other = {"run": "gate", "gate": "run"}[command]
    assert refusal(command, name).endswith(f"what takes it: python -m chaos {other} {name}")


def test_what_takes_a_run_directory_says_how_to_make_one_of_a_bundle(files):
    for command in ("audit", "bundle"):
        wanted = "not the directory of a run; what takes it: python -m chaos unbundle packed"
        assert refusal(command, "packed") == f"packed is a bundle, {wanted}"
        assert refusal(command, "none") == "there is no none; give a run directory, such as runs/<run_id>"
    assert refusal("unbundle", "runs/one").startswith("runs/one is the directory of a run, not a bundle; what takes it")


def test_a_replay_of_nothing_speaks_of_bundles_and_runs(files):
    how = "; `python -m chaos bundle RUN_DIR` makes a bundle of a run"
    (files / "b.aftershock.tar.gz").write_bytes((files / "packed").read_bytes())
    assert refusal("replay", "none.yaml") == f"there is no bundle or run directory none.yaml{how}"
    near = " (did you mean b.aftershock.tar.gz?)"
    assert (
        refusal("replay", "c.aftershock.tar.gz")
        == f"there is no bundle or run directory c.aftershock.tar.gz{near}{how}"
    )


def test_a_mapping_with_a_key_of_its_own_kind_is_no_other_kind():
    assert kind_of_mapping(["title", "topics", "scenarios"], "scenario") is None
    assert kind_of_mapping(["title", "topic"], "gate") == "application"
    assert kind_of_mapping(["cluster"], "scenario") == "cluster"
    assert kind_of_mapping(["cluster"], "application") is None
    assert kind_of_mapping(["title", "kafka"], "gate") is None


def test_a_file_that_is_packed_otherwise_is_no_bundle(tmp_path):
    (tmp_path / "log.gz").write_bytes(b"\x1f\x8b\x08\x00cut")
    assert kind_of(tmp_path / "log.gz") is None
    assert kind_of(tmp_path / "none.properties") is None
