"""Applications in a scenario: what is accepted, and how each mistake reads."""

import json
import re
import subprocess
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import yaml

from chaos.errors import ScenarioError
from chaos.scenario.load import parse
from chaos.setup.apps import App
from chaos.setup.names import new_prefix, prefixed
from chaos.setup.placeholders import filled

VALUE = {"template": '{{"order_id": "{id}"}}'}
BASE = {
    "title": "t",
    "topics": [{"name": "orders"}, {"name": "invoices"}],
    "producers": [{"name": "shop", "topic": "orders", "value": VALUE}],
    "effects": [{"name": "done", "topic": "invoices", "id": "$.order_id"}],
}


def loaded(faults=(), **changes):
    app = {"name": "billing", "command": "python service.py --at {bootstrap}", "group": "b", "reads": ["orders"]}
    app = {key: value for key, value in (app | changes).items() if value is not None}
    return parse(json.dumps(BASE | {"apps": [app], "faults": list(faults)}), "mine.yaml")


def test_a_command_is_split_as_a_shell_does():
    assert loaded(command="a 'b c' {bootstrap}").apps[0].command == ["a", "b c", "{bootstrap}"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{bootstrap}/{topic.a.b}", "k:1/A"),
        ("{{bootstrap}} {{ }}", "{bootstrap} { }"),
        ('{"json": 1} ${HOME} %d{yyyy-MM}', '{"json": 1} ${HOME} %d{yyyy-MM}'),
    ],
)
def test_placeholders_are_replaced_and_other_braces_stay(text, shown):
    assert filled(text, {"bootstrap": "k:1", "topic.a.b": "A"}) == shown


@pytest.mark.parametrize("at", ["broker-1.acme:9092", "broker-1.acme:9092,broker-2.acme:9093"])
def test_host_and_port_of_an_address_are_given_apart(at):
    assert filled("{bootstrap|host} {bootstrap|port}", {"bootstrap": at}) == "broker-1.acme 9092"


def test_a_template_keeps_what_is_no_placeholder():
    assert filled("{{x}} {yyyy} {bootstrap}", {"bootstrap": "k:1"}, strict=False) == "{{x}} {yyyy} k:1"


def test_numbers_and_truth_values_of_env_are_texts():
    app = loaded(env={"N": 3, "F": 0.5, "ON": True}).apps[0]
    assert app.env == {"N": "3", "F": "0.5", "ON": "true"}


def test_topics_that_only_applications_write_are_not_those_of_clients():
    scenario = loaded()
    assert scenario.app_topics == {"invoices"}
    assert parse(json.dumps(BASE | {"effects": []}), "mine.yaml").app_topics == frozenset()


def test_transactions_of_applications_are_unseen_unless_the_wire_is_judged():
    assert loaded().with_unseen_transactions == {"invoices"}
    on_wire = BASE | {"capture": {"judged": "wire"}}
    assert parse(json.dumps(on_wire), "mine.yaml").with_unseen_transactions == frozenset()
    assert parse(json.dumps(BASE | {"effects": [], "apps": []}), "mine.yaml").with_unseen_transactions == frozenset()


@pytest.mark.parametrize("group", ["acme:billing.v2 prod", "team/billing", "Zähler (№ 1)", "x" * 200])
def test_a_group_has_any_name_that_kafka_takes(group):
    assert loaded(group=group).apps[0].group == group


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("x" * 201, "1 to 200 characters in one line"),
        ("a\nb", r"in one line, without a space around them \(did you mean a-b\?\)"),
        ("a\n", r"did you mean a\?"),
        (" a", r"did you mean a\?"),
        ("", "'' does not fit"),
    ],
)
def test_a_name_of_a_group_that_is_probably_a_mistake_is_refused(group, message):
    with pytest.raises(ScenarioError, match=message):
        loaded(group=group)


FAULT = {"name": "f", "kind": "app.kill", "target": {"app": "billing/1"}, "when": {"at": "1s"}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command": None}, "give exactly one of command, program, image, connect, postgres, external"),
        ({"image": "x"}, "give exactly one of command, program, image, connect, postgres, external"),
        ({"command": "a {bootsrap}"}, r"{bootsrap} is no placeholder \(did you mean bootstrap\?\)"),
        ({"command": "a 'b"}, "cannot be split into words"),
        ({"command": []}, "at least 1"),
        ({"command": "python x.py"}, "nothing gives billing the address of the brokers"),
        ({"env": {"A": "{topic.order}"}}, "there is no topic 'order' for {topic.order}"),
        ({"env": {"A": "{http.calls}"}}, "no effect 'calls' has http, for {http.calls}"),
        ({"env": {"A": "{http}"}}, r"{http} is no placeholder \(did you mean http.NAME\?\)"),
        ({"env": {"A": "{password}"}}, "{password} has no value: the cluster has no cluster.security"),
        ({"env": {"A": "{group}"}, "group": None}, r"{group} has no value; give group"),
        ({"reads": []}, "which topics does the group b read"),
        ({"reads": ["order"]}, r"apps\[0\].reads: 'order' is not one of the topics"),
        ({"ready": {"log": "("}}, "is no regular expression"),
        ({"ready": {"log": "a", "port": 1}}, "give exactly one of group, topic, log, port, http"),
        ({"ready": {"topic": "none"}}, r"apps\[0\].ready.topic: 'none' is not one of the topics"),
        ({"stop": {"signal": "SIGKILL"}}, "is no signal that a program can handle"),
        ({"stop": {"signal": "TERM"}}, "is no signal that a program can handle"),
        ({"name": "shop"}, "the name 'shop' is used 2 times"),
        ({"instances": -1}, "at least 0"),
        ({"instances": 0}, "none, and no fault app.scale starts one, so billing never runs"),
        ({"instances": 0, "group": None}, "group: no instance runs in which the run would see it"),
        (
            {"command": None, "external": True, "env": {"A": "b"}},
            "env: Aftershock does not start an external application",
        ),
        (
            {"command": None, "external": True, "group": None, "reads": []},
            "how does the run notice that it was started",
        ),
        ({"command": None, "external": True, "instances": 2}, "as many processes as somebody starts"),
        ({"command": None, "external": {"listen": "here"}}, "'here' is no IPv4 address"),
        ({"arguments": ["a"]}, "belong to a program or a container"),
        ({"faults": [FAULT | {"target": {"app": "billing/2"}}]}, "billing has instances 1 to 1, not 2"),
        ({"faults": [FAULT | {"target": {"app": "bill"}}]}, r"'bill' is not one of the apps \(billing\)"),
        ({"faults": [FAULT | {"kind": "app.restart"}]}, "app.restart is of the whole application; write billing"),
        (
            {"faults": [FAULT | {"kind": "app.scale", "target": {"app": "billing"}, "to": 1}]},
            "billing has 1 instances already",
        ),
        (
            {"faults": [FAULT], "command": None, "external": True},
            "billing is external, so Aftershock cannot reach its processes",
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_where_and_what(changes, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        loaded(**changes)
    first, *rest = str(caught.value).splitlines()
    assert first == "mine.yaml is not a valid scenario:"
    assert all("mine.yaml:1" in line or "is used 2 times" in line for line in rest)


EXISTING = {"driver": "attached", "bootstrap": "k:9092"}


def on_existing(**changes):
    app = {"name": "billing", "command": "python service.py {bootstrap}", "group": "b", "reads": ["orders"]} | changes
    return parse(json.dumps(BASE | {"apps": [app], "cluster": EXISTING}), "mine.yaml")


def test_an_application_gets_the_names_of_the_run_on_an_existing_cluster(tmp_path):
    given = {"IN": "{topic.orders}", "OUT": "{topic.invoices}", "GROUP": "{group}"}
    scenario = prefixed(on_existing(env=given), new_prefix("mine-20261127-1a2b3c-4d5e"))
    (app,) = scenario.apps
    assert app.env == given and app.reads == [scenario.topics[0].name] != ["orders"]
    assert app.groups[0].endswith("-b") and prefixed(scenario, "") == scenario
    template = tmp_path / "app.properties"
    template.write_text("at={bootstrap}\ntopic={topic.orders}\ngroup={group}\n")
    on_existing(files={"app.properties": str(template)})
    on_existing(command=None, external=True)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"OUT": "{topic.invoices}", "GROUP": "{group}"},
            "so that billing does not read a topic orders of others; write",
        ),
        ({"IN": "{topic.orders}"}, r"so that billing does not join a group b of others; write \{group\} in its env"),
    ],
)
def test_an_application_with_names_of_its_own_is_refused_on_an_existing_cluster(env, message):
    with pytest.raises(ScenarioError, match=message):
        on_existing(env=env)


def test_an_external_application_is_reached_at_another_address_through_the_relay_only(monkeypatch):
    changes = {"command": None, "external": {"listen": "0.0.0.0"}}
    monkeypatch.setattr("chaos.setup.apps.own_address", lambda: "10.0.0.7")
    assert loaded(**changes).apps[0].reach.host == "10.0.0.7"
    assert loaded(**{**changes, "external": {"listen": "10.0.0.9"}}).apps[0].reach.host == "10.0.0.9"
    monkeypatch.setitem(BASE, "cluster", {"security": {"protocol": "SSL"}})
    assert loaded(**changes).proxied, "the relay ends TLS with the authority of the run"
    existing = {"driver": "attached", "bootstrap": "b:1", "security": {"protocol": "SSL"}}
    monkeypatch.setitem(BASE, "cluster", existing)
    assert loaded(**changes).proxied, "also that of an existing cluster"


def test_an_application_that_nothing_judges_is_refused():
    app = {"name": "billing", "command": "x {bootstrap}"}
    with pytest.raises(ScenarioError, match="apps: nothing says what they have to do, so a run would prove nothing"):
        parse(json.dumps(BASE | {"apps": [app], "effects": []}), "mine.yaml")


def test_a_consumer_of_a_topic_of_applications_is_refused():
    scenario = BASE | {
        "apps": [{"name": "billing", "command": "x {bootstrap}"}],
        "consumers": [{"mode": "subscribe", "name": "c", "group": "g", "topics": ["invoices"]}],
    }
    with pytest.raises(ScenarioError, match=r"consumers\[0\].topics: only applications write to invoices"):
        parse(json.dumps(scenario), "mine.yaml")


PASSWORD = "first\n$1'\"\\ é€;,=#!<&last"


def test_a_password_is_written_as_each_kind_of_file_reads_it():
    def made(text):
        return filled(text, {"password": PASSWORD}, strict=False)

    for read, text in ((json.loads, '{"p": "{password|json}"}'), (yaml.safe_load, 'p: "{password|json}"')):
        assert read(made(text)) == {"p": PASSWORD}
    assert subprocess.check_output(["sh", "-c", made('P={password|shell}; printf %s "$P"')]).decode() == PASSWORD
    assert ElementTree.fromstring(made('<p v="{password|xml}">{password|xml}</p>')).get("v") == PASSWORD
    assert unquote(made("{password|url}")) == PASSWORD
    assert made("p={password|properties}") == "p=first\\n$1'\"\\\\ \\u00e9\\u20ac;,=#!<&last"
    assert made("{password|jaas|properties}").startswith("first\\\\n$1'\\\\\"\\\\\\\\ \\u00e9")
    assert made("{ports|json} ${HOME|wc} {password}") == "{ports|json} ${HOME|wc} " + PASSWORD


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "b={bootstrp}",
            r"app.files: nothing gives app the address .* has \{bootstrap\} \(is it meant by bootstrp\?\)",
        ),
        (
            "b={bootstrap} p={password|jsn}",
            r"\{password\|jsn\}: there is no form jsn \(did you mean json\?\); there are",
        ),
    ],
)
def test_a_template_that_no_instance_can_use_is_named(template, message, tmp_path):
    (tmp_path / "app.tpl").write_text(template)
    app = App(name="app", command=["sh"], files={"a": "app.tpl"}).placed_in(tmp_path)
    found = [f"app.{'.'.join(key)}: {problem}" for key, problem in app.missing()]
    assert [text for text in found if re.search(message, text)], found


def test_a_container_has_nothing_of_this_machine():
    with pytest.raises(ScenarioError, match=r"env.P: \{python\} is of this machine, and a container does not have it"):
        loaded(command=None, image="x", env={"B": "{bootstrap}", "P": "{python}"})
    env = {"B": "{bootstrap}"}
    with pytest.raises(ScenarioError, match="a container begins in the working directory of its image"):
        loaded(command=None, image="x", env=env, directory="work")
    assert loaded(command=None, image="x", env=env).apps[0].directory is None


@pytest.mark.parametrize(
    ("security", "names", "message"),
    [
        ({"protocol": "SSL"}, "{ca} {truststore} {store_password} {protocol}", ""),
        ({"protocol": "SSL"}, "{password}", "clients do not log in with protocol SSL"),
        ({"protocol": "SSL"}, "{keystore}", "clients have no certificates; set client_certificates"),
        ({"protocol": "SSL", "client_certificates": True}, "{certificate} {key} {key_password} {keystore}", ""),
        ({"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN"}, "{mechanism} {username} {password}", ""),
        ({"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN"}, "{ca}", "protocol SASL_PLAINTEXT has no certificates"),
    ],
)
def test_a_placeholder_without_a_value_for_the_protocol_is_refused(security, names, message, monkeypatch):
    monkeypatch.setitem(BASE, "cluster", {"security": security})
    if not message:
        assert loaded(env={"X": names})
        return
    with pytest.raises(ScenarioError, match=f"has no value: {message}"):
        loaded(env={"X": names})


@pytest.mark.parametrize(
    "kind",
    [
        {"command": "x {bootstrap}", "directory": "work", "files": {"a": "a.tpl"}},
        {"program": "x.py", "env": {"B": "{bootstrap}"}},
        {"image": "x", "env": {"B": "{bootstrap}"}},
        {"external": True},
        {"external": {"listen": "0.0.0.0", "advertise": "me"}},
    ],
)
def test_an_application_of_each_kind_is_read_again_as_a_run_records_it(kind):
    (app,) = loaded(**{"command": None} | kind).apps
    assert App.model_validate_json(app.model_dump_json()) == app


def test_a_program_in_a_long_word_of_the_command_names_no_file(tmp_path):
    (tmp_path / "service.py").touch()
    command = ["python", "-c", "print('x')\n" * 1000, "a\0b", "service.py"]
    app = App(name="billing", command=[*command, "{bootstrap}"], directory=str(tmp_path))
    assert list(app.program_files()) == [("service.py", tmp_path / "service.py")]


UNCALLED = r"effects\[0\].http: nothing gives an application the address of calls, .*; write {http.calls} in the env or"


@pytest.mark.parametrize(
    ("app", "http", "refused"),
    [
        ({}, {}, True),
        ({"env": {"URL": "http://127.0.0.1:8080/calls"}}, {}, True),
        ({"env": {"URL": "{{http.calls}}"}}, {}, True),  # the text itself, not the address
        ({"env": {"URL": "{http.calls}"}}, {}, False),
        ({"command": "python service.py {bootstrap} {http.calls}"}, {}, False),
        ({"files": {"app.yaml": "TEMPLATE"}}, {}, False),
        ({}, {"port": 8080}, False),
        ({"command": None, "external": True}, {}, False),
    ],
)
def test_a_receiver_that_no_application_can_call_is_refused(monkeypatch, tmp_path, app, http, refused):
    template = tmp_path / "app.yaml"
    template.write_text("url: {http.calls}\n")
    app = json.loads(json.dumps(app).replace("TEMPLATE", str(template)))
    calls = {"name": "calls", "http": {"path": "/calls", **http}, "id": "$.order_id"}
    monkeypatch.setitem(BASE, "effects", [calls])
    if not refused:
        assert loaded(**app).effects[0].http is not None
        return
    with pytest.raises(ScenarioError, match=UNCALLED):
        loaded(**app)
