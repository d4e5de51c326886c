"""Forms, names, tags and links of the DAGs, without a server: the DAGs are imported in a process with Airflow."""

import json
import re

import pytest

from chaos.errors import AftershockError, ScenarioError
from chaos.scenario.load import all_overrides, load
from chaos.scenario.shipped import shipped
from tests.support.dag_programs import run_program
from tests.support.platform import ROOT

pytestmark = pytest.mark.airflow

MINE = """
title: "<b>mine</b> & more"
description: see notes.md
schedule: "@daily"
topics: [{name: orders}]
producers: [{name: shop, topic: orders}]
"""
ADDRESSES = ("kafka:9092", "a:1,b:2", "kafka:1", "kafka:65535", "a:65535,b:59999")
NO_ADDRESSES = ("kafka", "http://kafka:9092", "a:1;b:2", "kafka:0", "kafka:65536", "kafka:99999", "a:1,b:0", "a:\u0661")
NO_FOLDERS = ("", "  ", "runs", "./runs", " /runs", "/a\0b", "/a\n\0")
VALUES = [
    *(("kafka", value) for value in ("3.9.2", "4.3.1", "4.3", "latest", "3.9.2; rm -rf", "", " 3.9.2")),
    *(("bootstrap", value) for value in (*ADDRESSES, " a:1 , b:2 ", *NO_ADDRESSES)),
    *(("driver", value) for value in ("process", "docker", "vm", "")),
    *(("overrides", value) for value in (["cluster.brokers=5"], ["cluster.brokers"], ["=5"], "cluster.brokers=5")),
    *(("seed", value) for value in (0, 2**63 - 1, -1, 2**63, 1.5, "7")),
    *(("run_id", value) for value in ("nightly-1", "..", ".hidden", "a/b", "a b", "a\n", "x" * 201)),
    *(
        ("runs_dir", value)
        for value in ("/runs", "/with a blank/", "", "  ", "runs", "./runs", " /runs", "/a\0b", "/a\n\0")
    ),
    *(("owner", value) for value in ("12:3456.75", "me")),
    *(("kafka_conn_id", value) for value in ("", "kafka_default", "a b")),
]
REFUSED = {
    "kafka": {"4.3", "latest", "3.9.2; rm -rf", "", " 3.9.2"},
    "bootstrap": set(NO_ADDRESSES),
    "driver": {"vm", ""},
    "overrides": {"['cluster.brokers']", "['=5']", "cluster.brokers=5"},
    "seed": {"-1", str(2**63), "1.5", "7"},
    "run_id": {"..", ".hidden", "a/b", "a b", "a\n", "x" * 201},
    "runs_dir": set(NO_FOLDERS),
    "owner": {"me"},
    "kafka_conn_id": {"a b"},
}
DESCRIBE = """
import json, sys
from airflow.sdk.definitions.param import ParamsDict

copied, deepcopy = [], ParamsDict.__deepcopy__
ParamsDict.__deepcopy__ = lambda params, memo: (copied.append(len(params)), deepcopy(params, memo))[1]

from dags import incident_reproduction, prove, release_gate
from dags.provider import forms
from airflow.sdk.exceptions import ParamValidationError

def refused(param, value):
    try:
        param.resolve(value)
    except ParamValidationError:
        return True
    return False

values = json.loads(sys.argv[1])
copied.clear()
from dags import resilience
in_all = sum(copied)
dags = {name.removeprefix("resilience_"): dag for name, dag in vars(resilience).items()
        if name.startswith("resilience_")}
others = {name: module.dag for name, module in
          {"release_gate": release_gate, "prove": prove, "incident_reproduction": incident_reproduction}.items()}
checked = dags["clean-run"].params
print(json.dumps({
    "refused": [refused(checked.get_param(name), value) for name, value in values],
    "copied": in_all,
    "names": list(forms.PARAM_NAMES),
    "dags": {name: {
        "display": dag.dag_display_name, "doc": dag.doc_md, "tags": sorted(dag.tags), "params": list(dag.params),
        "drivers": dag.params.get_param("driver").schema["enum"] if name in dags else None,
        "unexplained": [name for name, p in dag.params.items()
                        if not p.schema.get("title") or not (p.description or p.schema.get("description_md"))],
        "copies": sum(len(task.params) for task in dag.tasks),
        "links": {task.task_id: [(link.first, link.section) for link in task.operator_extra_links]
                  for task in dag.tasks},
    } for name, dag in {**dags, **others}.items() if dag.params},
}))
"""
CONNECTION = {
    "bootstrap.servers": "mine:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "someone",
    "sasl.password": "a-secret",
}
CONTRADICTING = [
    ({"kafka_conn_id": "mine", "bootstrap": "other:9092"}, "kafka_conn_id and bootstrap"),
    ({"kafka_conn_id": "mine", "overrides": ["cluster.bootstrap=other:9092"]}, "cluster.bootstrap"),
    ({"kafka_conn_id": "mine", "overrides": ["cluster.driver=process"]}, "cluster.driver"),
    ({"kafka_conn_id": "mine", "overrides": ["cluster.security.username=else"]}, "cluster.security.username"),
    ({"bootstrap": "a:1", "overrides": [" cluster.bootstrap = b:1"]}, "cluster.bootstrap"),
    ({"bootstrap": "a:1", "overrides": ["cluster.driver=process"]}, "cluster.driver"),
    ({"kafka": "4.3.1", "overrides": ["cluster.kafka=3.9.2"]}, "cluster.kafka"),
    ({"driver": "process", "overrides": ["cluster.driver=docker"]}, "cluster.driver"),
    ({"overrides": ["cluster.brokers=3", "seed=7", " cluster.brokers =5"]}, "two changes set cluster.brokers"),
    ({"i_own_this_cluster": True}, "the param i_own_this_cluster is for an existing cluster"),
    ({"i_own_this_cluster": True, "driver": "docker"}, "a new one (driver docker); give the param bootstrap too"),
    ({"bootstrap": "a:1", "driver": "docker"}, "the param bootstrap is for an existing cluster, and the param driver="),
    ({"bootstrap": "a:1", "kafka": "3.9.2"}, "the param kafka chooses the release of a new cluster"),
    ({"overrides": ["title.x=3"]}, "the param overrides title.x=…: title is a single value"),
    ({"kakfa": "3.9.2"}, "there is no param 'kakfa' (did you mean kafka?)"),
]
AGREEING = [
    {"kafka_conn_id": "mine", "overrides": ["topics.0.partitions=3"]},
    {"kafka": "3.9.2", "overrides": ["cluster.brokers=5"]},
    {"bootstrap": "a:1"},
    {"bootstrap": "a:1", "i_own_this_cluster": True},
    {"kafka_conn_id": "mine", "i_own_this_cluster": True},
    {"overrides": ["cluster.brokers=3", "cluster.controllers=1"]},
]
REQUEST = """
import json, sys
from dags.provider.forms import PARAM_NAMES, request_of
from dags.provider.outcome import task_failure
from airflow.sdk.exceptions import AirflowFailException

empty = {**dict.fromkeys(PARAM_NAMES), "overrides": [], "kafka_conn_id": "", "i_own_this_cluster": False}

def refusal(params):
    try:
        with task_failure():
            request_of("clean-run", {**empty, **params})
    except AirflowFailException as e:
        return str(e)
    return ""

print(json.dumps([refusal(params) for params in json.loads(sys.argv[1])]))
"""
ADDRESS = """
import json, sys
from types import SimpleNamespace
from dags.provider.outcome import ReportLink, report_url
from dags import resilience

class Task(SimpleNamespace):
    dag_id, run_id, task_id = "resilience.leader-kill", "manual__2026-11-27T10:00:00+00:00", "drive"

    def xcom_pull(self, task_ids, key=None):
        return self.run_dir

def link(run_dir):
    return ReportLink("deploy", "/runs", "faults").get_link(None, ti_key=Task(run_dir=run_dir))

folder = vars(resilience)["resilience_leader-kill"].params.get_param("runs_dir").value
links = [link("/runs/a-1"), link("/elsewhere/a-1"), link(None)]
urls = [report_url(*given) for given in json.loads(sys.argv[1])]
print(json.dumps({"folder": folder, "urls": urls, "links": links}))
"""
URLS = [
    ("/runs/a-1", "/runs", "faults"),
    ("/runs/ab-1/ab-1-left", "/runs", ""),
    ("/runs/a b#?%", "/runs", ""),
    ("/elsewhere/a-1", "/runs", ""),
    (None, "/runs", ""),
]


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dags")
    (folder / "own").mkdir()
    (folder / "own" / "mine.yaml").write_text(MINE)
    env = {"AIRFLOW_HOME": str(folder / "airflow"), "AFTERSHOCK_SCENARIOS": str(folder / "own")}
    return run_program(folder, DESCRIBE, json.dumps(VALUES), **env)


def accepts(path, *overrides):
    try:
        load(path, overrides)
    except AftershockError:
        return False
    return True


def test_a_dag_has_the_name_title_and_description_of_its_scenario(described):
    for name, path in shipped().items():
        scenario, dag = load(path), described["dags"][name]
        assert dag["display"] == f"{name}: {scenario.title}"
        assert all(f"`{fault.kind}`" in dag["doc"] for fault in scenario.faults)
        assert f"`python -m chaos run {name}`" in dag["doc"]
    assert "With acks=all, idempotence and min.insync.replicas=2" in described["dags"]["leader-kill"]["doc"]
    for name in ("release_gate", "prove", "incident_reproduction"):
        assert ": " in described["dags"][name]["display"] and name in described["dags"][name]["doc"]


def test_texts_of_a_user_are_no_markup_and_no_file_name(described):
    mine = described["dags"]["mine"]
    assert mine["doc"].startswith("**&lt;b&gt;mine&lt;/b&gt; &amp; more.** see notes.md.")
    assert not mine["doc"].endswith(".md")


def test_tags_name_faults_and_uses(described):
    tags = {name: set(dag["tags"]) for name, dag in described["dags"].items()}
    assert tags["leader-kill"] == {"resilience", "broker.kill"}
    assert tags["clean-run"] == {"resilience", "no fault"}
    assert tags["mine"] == {"resilience", "no fault", "own scenario", "scheduled"}
    assert {"A/B", "broker.kill"} <= tags["acks1-leader-kill"] and "transactions" in tags["transactions"]
    assert {"sarama"} <= tags["sarama-coordinator-loss"] and "secured" in tags["acl-withdrawn"]
    for name, path in shipped().items():
        assert {fault.kind for fault in load(path).faults} <= tags[name]


def test_every_param_is_explained_and_no_task_has_a_copy(described):
    for name, dag in described["dags"].items():
        assert dag["unexplained"] == [], name
        if name not in ("release_gate", "prove", "incident_reproduction"):
            assert (dag["params"], dag["copies"]) == (described["names"], 0)


def test_a_parse_copies_no_params_for_each_task(described):
    """Copies for some 2,000 tasks would take most of a parse, which has to be over within Airflow's limits."""
    assert described["copied"] == 0


def test_the_form_refuses_what_the_scenario_refuses(described):
    refused = {}
    for (name, value), no in zip(VALUES, described["refused"], strict=True):
        if no:
            refused.setdefault(name, set()).add(str(value))
    assert refused == REFUSED
    clean = shipped()["clean-run"]
    for name, value in [("kafka", "3.9.2"), ("kafka", "latest"), ("kafka", "4.3")]:
        assert accepts(clean, *all_overrides([], value, None)) == (value not in REFUSED[name])
    for value in (*ADDRESSES, *NO_ADDRESSES):
        assert accepts(clean, *all_overrides([], None, None, value)) == (value not in REFUSED["bootstrap"]), value


def test_params_that_contradict_are_refused_and_secrets_go_only_to_the_cluster_of_their_connection(tmp_path):
    asked = [*(params for params, _ in CONTRADICTING), *AGREEING]
    connection = json.dumps({"conn_type": "kafka", "extra": CONNECTION})
    found = run_program(tmp_path, REQUEST, json.dumps(asked), AIRFLOW_CONN_MINE=connection)
    for (params, named), said in zip(CONTRADICTING, found, strict=False):
        assert named in said and "--" not in said, (params, said)
        if named.startswith(("cluster", "kafka_conn_id", "two")):
            assert "leave one out" in said and "\n" not in said, (params, said)
    assert found[len(CONTRADICTING) :] == [""] * len(AGREEING)


def test_a_driver_that_the_form_does_not_offer_is_refused_by_the_scenario(described):
    offered = {name: set(dag["drivers"]) - {None} for name, dag in described["dags"].items() if dag["drivers"]}
    assert offered["leader-kill"] == {"process", "docker"} and offered["clock-retention"] == {"process"}
    for name, path in shipped().items():
        for driver in {"process", "docker"} - offered[name]:
            with pytest.raises(ScenarioError, match=r"cannot do|would run with ZooKeeper|the issuer of tokens"):
                load(path, [f"cluster.driver={driver}"])


def test_each_task_has_a_link_to_a_section_that_exists(described):
    templates = "".join(path.read_text() for path in (ROOT / "chaos" / "report" / "page").glob("*.j2"))
    sections = set(re.findall(r'<section id="([\w-]+)"', templates))
    links = described["dags"]["leader-kill"]["links"]
    assert links["deploy"] == [["deploy", "settings"]] and links["drive"] == [["deploy", "faults"]]
    for name in (*shipped(), "release_gate", "prove"):
        for task, (link,) in described["dags"][name]["links"].items():
            first, section = link
            assert (first or task) in described["dags"][name]["links"], task
            assert not section or section in sections
    sides = described["dags"]["acks1-leader-kill"]["links"]
    assert sides["acks-1.drive"] == [["acks-1.deploy_side", "faults"]] and sides["compare"] == [["prepare", ""]]


def test_an_address_is_below_the_pages_and_only_for_what_they_serve(tmp_path):
    def ask(**env):
        # of all DAGs only one is built, as for a task of that one
        return run_program(
            tmp_path, ADDRESS, json.dumps(URLS), _AIRFLOW_PARSING_CONTEXT_DAG_ID="resilience.leader-kill", **env
        )

    assert ask()["urls"] == [
        "/aftershock/runs/a-1/report.html#faults",
        "/aftershock/runs/ab-1/ab-1-left/report.html",
        "/aftershock/runs/a%20b%23%3F%25/report.html",
        "",
        "",
    ]
    behind_a_proxy = ask(AIRFLOW__API__BASE_URL="https://data.example.org/airflow/")
    assert behind_a_proxy["urls"][0] == "https://data.example.org/airflow/aftershock/runs/a-1/report.html#faults"
    elsewhere = ask(AFTERSHOCK_PAGES="https://reports.example.org/", AFTERSHOCK_RUNS="runs")
    assert elsewhere["folder"] == str(tmp_path / "runs")
    assert elsewhere["urls"][0] == "https://reports.example.org/runs/a-1/report.html#faults"
    of_task = "/aftershock/of/resilience.leader-kill/manual__2026-11-27T10%3A00%3A00%2B00%3A00/task/drive"
    assert elsewhere["links"] == ["https://reports.example.org/runs/a-1/report.html#faults", of_task, ""]
    assert behind_a_proxy["links"][1:] == [f"https://data.example.org/airflow{of_task}", ""]
