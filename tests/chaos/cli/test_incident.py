"""The commands for incidents with a lab that starts nothing: their output, files and exit codes."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from chaos.campaign import engine
from chaos.cli import app
from chaos.errors import AftershockError
from chaos.scenario.load import load
from tests.support.labs import FakeLab, seen


@pytest.fixture
def shows(monkeypatch):
    """Set the outcome of each run by a function of its scenario, seed and number."""
    lab = FakeLab()
    monkeypatch.setattr(engine, "TrialLab", lab)

    def rule(outcome):
        lab.rule = lambda one: outcome(one.subject.scenario, one.seed, len(lab.asked) + 1)

    return rule


@pytest.fixture
def chaos(tmp_path):
    def run(*argv):
        done = CliRunner().invoke(app, [*map(str, argv), "--runs-dir", str(tmp_path)])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run


def written(tmp_path, name):
    (file,) = tmp_path.glob(f"*/{name}")
    return file


def loses(scenario, *_):
    pairs = {"freeze", "kill"} <= {f.name for f in scenario.faults}
    return seen("fail", lost_write=5) if pairs else seen("pass")


SHRINK = ("shrink", "acks1-leader-kill", "--variant", "acks-1", "--anomaly", "lost_write", "--repeat", 1)


def test_shrink_prints_and_writes_a_scenario_that_can_be_run(shows, chaos, tmp_path):
    shows(loses)
    done = chaos(*SHRINK, "--seed", 7)
    assert done.exit_code == 0
    file = written(tmp_path, "smallest.yaml")
    scenario = load(file)
    assert [f.name for f in scenario.faults] == ["freeze", "kill"]
    assert scenario.seed == 7
    assert yaml.safe_load(done.stdout) == yaml.safe_load(file.read_text())
    assert done.stdout.startswith("# 3 of 4 faults and clients")


def test_shrink_keeps_the_smallest_so_far_when_it_is_interrupted(shows, chaos, tmp_path):
    def until(scenario, seed, run):
        if run == 8:
            raise KeyboardInterrupt
        return loses(scenario)

    shows(until)
    done = CliRunner().invoke(app, [*map(str, SHRINK), "--runs-dir", str(tmp_path)])
    assert done.exit_code == 130
    file = written(tmp_path, "smallest.yaml")
    assert load(file).consumers == []
    assert yaml.safe_load(done.stdout) == yaml.safe_load(file.read_text())


def test_shrink_ends_where_the_budget_is_spent(shows, chaos, tmp_path):
    shows(loses)
    done = chaos(*SHRINK, "--for", "6")
    assert done.exit_code == 0
    assert "6 runs; more could perhaps be removed" in done.stderr
    assert "6 runs" in done.stdout.splitlines()[0]
    assert written(tmp_path, "smallest.yaml").exists()


def test_shrink_says_when_the_anomaly_is_not_there_at_all(shows, chaos, tmp_path):
    shows(lambda *_: seen("pass"))
    done = chaos(*SHRINK)
    assert done.exit_code == 3
    assert "did not appear in 1 runs of the whole scenario" in done.stderr
    assert not list(tmp_path.glob("*/smallest.yaml"))


def test_repeat_gives_rates_and_ends_with_the_worst(shows, chaos, tmp_path):
    shows(lambda scenario, seed, run: seen("fail", lost_write=2) if run == 2 else seen("pass"))
    done = chaos("repeat", "leader-kill", "--repeat", 4, "--seed", 3, "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert {r["name"]: (r["count"], r["of"]) for r in found["parts"][0]["rates"]}["lost_write"] == (1, 4)
    assert len({t["seed"] for t in found["parts"][0]["runs"]}) == 4
    assert json.loads(written(tmp_path, "campaign.json").read_text()) == found


def test_repeat_with_the_same_seed_keeps_it(shows, chaos):
    shows(lambda *_: seen("pass"))
    done = chaos("repeat", "leader-kill", "--repeat", 3, "--seed", 3, "--same-seed", "--json")
    assert done.exit_code == 0
    assert {t["seed"] for t in json.loads(done.stdout)["parts"][0]["runs"]} == {3}


def test_repeat_shows_what_was_done_when_it_is_interrupted(shows, tmp_path):
    def until(scenario, seed, run):
        if run == 4:
            raise KeyboardInterrupt
        return seen("pass")

    shows(until)
    done = CliRunner().invoke(app, ["repeat", "leader-kill", "--repeat", "9", "--json", "--runs-dir", str(tmp_path)])
    assert done.exit_code == 130
    assert len(json.loads(done.stdout)["parts"][0]["runs"]) == 3


def test_an_inconclusive_run_makes_a_repetition_inconclusive(shows, chaos):
    shows(lambda scenario, seed, run: seen("inconclusive" if run == 1 else "pass"))
    done = chaos("repeat", "leader-kill", "--repeat", 2)
    assert done.exit_code == 3
    assert "1 of 2 runs are inconclusive" in " ".join(done.stdout.split())


def test_bisect_prints_a_table_and_the_first_release(shows, chaos, tmp_path):
    shows(lambda s, *_: seen("fail", lost_write=1) if s.cluster.kafka >= "3.9.0" else seen("pass"))
    span = ("--kafka", "3.8.0..4.0.0", "--anomaly", "lost_write")
    done = chaos("bisect", "leader-kill", *span)
    assert done.exit_code == 0
    assert "Kafka 3.9.0 is the first with the change" in done.stdout
    assert json.loads(written(tmp_path, "campaign.json").read_text())["answer"] == "3.9.0"


def test_bisect_of_clients_changes_the_clients(shows, chaos):
    asked = []

    def how(scenario, *_):
        asked.append((scenario.clients.confluent_kafka, scenario.cluster.kafka))
        return seen("pass")

    shows(how)
    done = chaos("bisect", "leader-kill", "--client", "2.4.0..2.5.0")
    assert done.exit_code == 1
    assert [client for client, _ in asked] == ["2.4.0", "2.5.0"]
    assert len({kafka for _, kafka in asked}) == 1


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["bisect", "leader-kill"], "give one of --kafka"),
        (["bisect", "leader-kill", "--kafka", "3.8.0..3.9.0", "--client", "2.4.0..2.5.0"], "give one of --kafka"),
        (["bisect", "leader-kill", "--kafka", "3.8.0..9.9.9"], "9.9.9 is not in"),
        (["shrink", "leader-kill", "--anomaly", "lost"], "there is no anomaly"),
        (["ab", "leader-kill"], "ab needs --set"),
        (["ab", "leader-kill", "--set", "producers.shop.config.ackz=1"], "ackz is no setting of confluent-kafka"),
        (["replay", "leader-kill"], "is a scenario without a run"),
        (["repeat", "nothing.tar.gz"], "there is no bundle"),
        (["unbundle", "nothing.tar.gz"], "there is no bundle"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2_and_makes_nothing(chaos, tmp_path, argv, said):
    with pytest.raises(AftershockError, match=said) as e:
        chaos(*argv)
    assert e.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_runs_are_counted_from_one(chaos):
    assert chaos("repeat", "leader-kill", "--repeat", 0).exit_code == 2
