"""The scenario of `test`: the id that samples propose."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import chaos
from chaos.apps.trial import (
    FAULTS,
    Asked,
    check_faults,
    check_files,
    effects_of,
    free,
    look_of,
    more_of_inputs,
    propose_id,
    remarks,
    scenario_of,
    write_scenario,
)
from chaos.errors import UsageError
from chaos.scenario.load import parse


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        ([{"order_id": "a", "total": 1}, {"order_id": "b", "total": 1}], "$.order_id"),
        ([{"total": 1, "note": "x", "orderId": 7}, {"total": 2, "note": "y", "orderId": 8}], "$.orderId"),
        ([{"customer_id": 1, "event": {"id": "p"}}, {"customer_id": 1, "event": {"id": "q"}}], "$.event.id"),
        ([{"paid": True, "amount": 1, "text": "m"}], "$.text"),
        ([{"a": "x", "uuid": "u"}, {"a": "y"}], "$.a"),
        ([{"amount": 1, "no": 5}, {"amount": 2, "no": 6}], "$.no"),
        ([{"by": {"x-y": "m"}, "order-id": 7}, {"by": {"x-y": "n"}, "order-id": 8}], '$."order-id"'),
        ([{"2nd": "a"}, {"2nd": "b"}], '$."2nd"'),
    ],
)
def test_the_id_is_the_field_that_differs_in_each_sample_and_looks_like_one(tmp_path, rows, path):
    samples = tmp_path / "s.jsonl"
    samples.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert propose_id(samples) == path


def test_a_byte_order_mark_is_no_part_of_the_first_sample(tmp_path):
    samples = tmp_path / "s.jsonl"
    samples.write_bytes(b'\xef\xbb\xbf{"id": "a"}\r\n{"id": "b"}\r\n')
    assert propose_id(samples) == "$.id"


def test_the_id_of_the_shipped_samples():
    assert propose_id(Path(chaos.__file__).parent / "examples" / "orders.jsonl") == "$.order_id"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": 1}\n', "no field of .* has another value in each line; name it with --id$"),
        (
            '{"payment_id": "x", "amount": 1}\n{"payment_id": "x", "amount": 2}\n',
            r"\(\$\.payment_id is the same in several\); name it with --id, such as --id '\$\.payment_id'",
        ),
        ("[1, 2]\n", r"has no JSON object in any line, .* such as --id '\$\[0\]\.id'"),
        ('"a"\n"b"\n', "has no JSON object in any line"),
        ("4711;12.5\n4712;10\n", r"s.jsonl:1 is no JSON .* such as CSV, are a `template` in the `value` of a scenario"),
        ('{\n"a": 1}\n', r"s.jsonl:1 is no JSON .*; one document belongs in each line, as `jq -c \. FILE` writes"),
        ("[" * 100_000, "s.jsonl:1 is no JSON"),
        ("\n\n", "is empty; write a JSON document"),
        ('{"a": "b"}\n\n{a}\n', "s.jsonl:3 is no JSON"),
        ("\xff", None),
    ],
)
def test_samples_without_an_id_are_one_line(tmp_path, text, message):
    samples = tmp_path / "s.jsonl"
    samples.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=message or "cannot be read"):
        propose_id(samples)


def test_samples_that_do_not_exist_are_one_line(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        propose_id(tmp_path / "none.jsonl")


def asked(tmp_path, **more):
    samples = tmp_path / "s.jsonl"
    samples.write_text('{"id": "x"}\n{"id": "y"}\n')
    return Asked(["python", "a.py"], ["in"], ["out"], samples, "$.id", tmp_path, **more)


@pytest.mark.parametrize(
    ("writes", "name"),
    [
        ("out", "out"),
        ("com.acme.orders.validated-and-priced.v1", "com.acme.orders.validated-and-priced.v1"),
        ("x" * 249, "x" * 249),
        ("priced, dead", "priced-or-dead"),
        (f"{'p' * 40},{'d' * 40}", f"{'p' * 40}-or-another"),
        (f"{'p' * 249},{'d' * 249},q", f"{'p' * 200}-or-2-others"),
    ],
)
def test_an_effect_has_the_name_of_its_topics(tmp_path, writes, name):
    made = scenario_of(replace(asked(tmp_path), writes=[writes]))
    (effect,) = parse(json.dumps(made), "x").effects
    assert (effect.name, list(effect.topics)) == (name, [topic.strip() for topic in writes.split(",")])
    assert [topic["name"] for topic in made["topics"]] == ["in", *effect.topics]


def test_several_faults_in_one_option_are_refused_with_the_way_to_give_them(tmp_path):
    with pytest.raises(UsageError, match=r"only kill,leader: .*; --only names one fault, and may be repeated; there"):
        check_faults(asked(tmp_path, breaks=["kill,leader"]))
    with pytest.raises(UsageError, match=r"only leadr: .*did you mean leader"):
        check_faults(asked(tmp_path, breaks=["leadr"]))


@pytest.mark.parametrize(
    ("more", "moment"),
    [
        ({"commits": True}, True),
        ({"commits": False}, False),
        ({"grouped": False}, False),
        ({"commits": True, "breaks": ["kill"]}, True),
        ({"commits": True, "breaks": ["leader", "kill"]}, False),  # a moment on the wire waits for no other fault
        ({"commits": True, "breaks": ["stop"]}, False),
    ],
)
def test_an_application_that_commits_is_killed_first_when_an_offset_is_committed(tmp_path, more, moment):
    first = parse(json.dumps(scenario_of(asked(tmp_path, **more))), "x").faults[0]
    wire = first.when.wire
    assert (wire and f"{first.name} at {wire.describe()}") == (
        "kill at OffsetCommit response 2 of a" if moment else None
    )


@pytest.mark.parametrize(("commits", "latest"), [(None, ", or 20 s after the start"), (True, "")])
def test_the_kill_waits_for_a_commit_for_a_time_only_if_nobody_looked(tmp_path, commits, latest):
    first = parse(json.dumps(scenario_of(asked(tmp_path, commits=commits))), "x").faults[0]
    assert first.when.describe() == f"at OffsetCommit response 2 of a{latest}"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, True),
        ({"commits": True}, True),
        ({"commits": False}, False),
        ({"breaks": ["leader", "kill"]}, False),
        ({"grouped": False}, False),
    ],
)
def test_the_user_learns_what_a_kill_at_a_commit_does_not_show(tmp_path, more, said):
    words = [remark for remark in remarks(asked(tmp_path, **more)) if "`explore` tries every moment" in remark]
    assert len(words) == said


def test_each_fault_waits_until_the_application_works_again_after_the_one_before(tmp_path):
    first, *others = parse(json.dumps(scenario_of(asked(tmp_path, commits=False))), "x").faults
    assert first.when.acked == 500 and [f.name for f in others] == [*FAULTS][1:]
    for before, fault in zip([first, *others], others, strict=False):
        assert (fault.when.works.app, fault.when.works.after) == ("a", f"{before.name}.healed + 1s")


def test_without_a_group_nothing_waits_for_one_and_no_coordinator_is_killed(tmp_path):
    made = parse(json.dumps(scenario_of(asked(tmp_path, grouped=False))), "x")
    assert made.apps[0].reads == [] and made.effects[0].of == "in"
    assert [f.name for f in made.faults] == [name for name in FAULTS if name != "coordinator"]
    assert made.faults[1].when.works.after == "kill.healed + 1s"
    with pytest.raises(UsageError, match=r"^--only coordinator: a reads without a consumer group"):
        scenario_of(asked(tmp_path, grouped=False, breaks=["coordinator"]))


@pytest.mark.parametrize(
    ("instances", "words"), [(1, "or by --ready"), (2, "may read every input, so give --instances 1 if it does")]
)
def test_several_instances_without_a_group_may_each_do_all_the_work(tmp_path, instances, words):
    assert remarks(asked(tmp_path, commits=False)) == []
    (said,) = remarks(asked(tmp_path, instances=instances, grouped=False))
    assert said.endswith(words)


def test_inputs_of_two_topics_have_different_ids(tmp_path):
    (said,) = remarks(replace(asked(tmp_path, commits=False), reads=["left", "right"]))
    assert said.startswith("each input of left has to have its effect; right gets other ids at $.id")


@pytest.mark.parametrize(
    ("env", "usual"),
    [
        ({}, True),
        ({"OUT": "x"}, True),
        ({"MINE": "{bootstrap}"}, False),
        ({"A": "b:{bootstrap}"}, False),
        ({"P": "{bootstrap|port}"}, False),
    ],
)
def test_the_usual_variables_have_the_address_unless_the_user_says_where_it_is(tmp_path, env, usual):
    (app,) = scenario_of(asked(tmp_path, env=env))["apps"]
    assert ("KAFKA_BOOTSTRAP_SERVERS" in app["env"]) == usual and env.items() <= app["env"].items()


def test_a_file_from_a_template_is_in_the_scenario_and_its_address_is_enough(tmp_path):
    template = tmp_path / "app.properties"
    template.write_text("bootstrap.servers={bootstrap}\n")
    given = asked(tmp_path, files={"etc/app.properties": template}, env={"CONFIG": "{files}/etc"})
    check_files(given)
    for made in (scenario_of(given), look_of(given)):
        (app,) = made["apps"]
        assert app["files"] == {"etc/app.properties": str(template)}
        assert "KAFKA_BOOTSTRAP_SERVERS" not in app["env"]


def test_a_template_that_is_missing_or_leads_nowhere_is_one_line(tmp_path):
    template = tmp_path / "app.properties"
    with pytest.raises(UsageError, match=r"^--file: .*app\.properties cannot be read: No such file or directory$"):
        check_files(asked(tmp_path, files={"app.properties": template}))
    template.write_text("bootstrap.servers={bootstrap}\n")
    with pytest.raises(
        UsageError, match=r"^--file app\.properties=…: .*; write \{files\}/app\.properties into the comm"
    ):
        check_files(asked(tmp_path, files={"app.properties": template}))


def test_a_written_scenario_is_never_replaced_and_a_place_that_cannot_be_written_is_one_line(tmp_path):
    path = tmp_path / "made" / "test-a.yaml"
    assert free(path) == path
    write_scenario({"title": "x"}, path)
    write_scenario({"title": "y"}, free(path))
    assert free(path).name == "test-a-3.yaml" and "title: x" in path.read_text()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written .*name another file with --save"):
        write_scenario({"title": "x"}, tmp_path / "file" / "a.yaml")


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        (
            "sql=env:DB select id from invoice",
            {"name": "rows", "sql": "env:DB", "query": "select id from invoice", "of": "in"},
        ),
        ("files={folder}/paid/*.jsonl", {"name": "paid", "files": "{folder}/paid/*.jsonl", "id": "$.id", "of": "in"}),
        ("files=*.csv", {"name": "files", "files": "{folder}/*.csv", "id": "$.id", "of": "in"}),
        (r"log=ok (?P<id>\S+)", {"name": "log", "log": {"app": "a", "pattern": r"ok (?P<id>\S+)"}, "of": "in"}),
        ("http=/api/invoices", {"name": "invoices", "http": {"path": "/api/invoices"}, "id": "$.id", "of": "in"}),
        ("http=/invoices $[*].id", {"name": "invoices", "http": {"path": "/invoices"}, "id": "$[*].id", "of": "in"}),
        ("files=my data/*.csv $.no", {"name": "my-data", "files": "{folder}/my data/*.csv", "id": "$.no", "of": "in"}),
    ],
)
def test_an_effect_that_is_no_record_is_an_option(tmp_path, text, effect):
    text = text.replace("{folder}", str(tmp_path))
    effect = json.loads(json.dumps(effect).replace("{folder}", str(tmp_path)))
    made = scenario_of(asked(tmp_path, effects=[text], env={"URL": "{http.invoices}"} if text[:4] == "http" else {}))
    assert made["effects"][1:] == [effect]
    assert [e.name for e in parse(json.dumps(made), "x").effects] == ["out", effect["name"]]


def test_an_application_gets_the_address_of_a_receiver_in_the_first_look_too(tmp_path):
    given = asked(tmp_path, effects=["http=/look", "log=ok (?P<id>.)"], env={"URL": "{http.look}"})
    assert [e.source for e in parse(json.dumps(look_of(given)), "x").effects] == ["topic", "http"]


def test_two_effects_of_a_kind_have_names_of_their_own(tmp_path):
    made = scenario_of(asked(tmp_path, effects=["log=a (?P<id>.)", "log=b (?P<id>.)", "http=/out", "log=c (?P<id>.)"]))
    assert [effect["name"] for effect in made["effects"]] == ["out", "log", "log-2", "out-2", "log-3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table=x", r"--effect 'table=x' is not understood; write sql=…, files=…, log=… or http=…"),
        ("", "is not understood"),
        ("sql=env:DB", r"--effect sql=…: .*, such as --effect 'sql=env:BILLING_DB select"),
        ("sql=postgresql://me:hidden@db/x select 1", "a login is not written here"),
        ("log=booked", "has no group `id`"),
        ("log=(", "is no regular expression"),
        ("http=invoices", "--effect http=…: "),
        ("http=/in $.a[*].b[*]", "does not name one place"),
    ],
)
def test_an_effect_that_is_not_understood_is_one_line(tmp_path, text, message):
    with pytest.raises(UsageError, match=message) as caught:
        effects_of(asked(tmp_path, effects=[text]))
    assert "\n" not in str(caught.value) and "hidden" not in str(caught.value)


def test_inputs_have_what_the_command_line_says(tmp_path):
    (tmp_path / "order.avsc").write_text("{}")
    texts = ["key=$.customer", "headers.trace={uuid}", "headers.by=shop", "avro=order.avsc", "registry.id=7"]
    more = more_of_inputs(tmp_path / "s.jsonl", "$.id", texts, tmp_path)
    path = str((tmp_path / "order.avsc").resolve())
    headers = {"trace": "{uuid}", "by": "shop"}
    assert more == {"key": "$.customer", "headers": headers, "avro": path, "registry": {"id": "7"}}
    given = replace(asked(tmp_path), more=more)
    assert scenario_of(given)["producers"][0]["value"] == {"samples": str(given.samples), "id": given.id, **more}
    assert look_of(given)["producers"][0]["value"]["headers"] == headers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "keys=$.a",
            r"--value 'keys=\$.a' is not understood \(did you mean key\?\); write NAME=VALUE, where NAME is key,",
        ),
        ("key", "--value 'key' is not understood; write NAME=VALUE"),
        ("id=$.a", "is not understood"),
        ("key=$", r"--value key: .*, such as --value key=\$.customer"),
        ("registry.id=x", "--value registry.id: Input should be a valid integer"),
        ("headers=x", "--value headers: Input should be a valid dictionary"),
        ("headers.aftershock=x", "--value headers.aftershock: Aftershock sets this header itself"),
        ("message=Order", "--value message: names a message of a .proto file; give protobuf too"),
        ("avro=gone.avsc", "--value avro: .*gone.avsc is no file"),
    ],
)
def test_a_part_of_inputs_that_does_not_fit_is_named(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        more_of_inputs(tmp_path / "s.jsonl", "$.id", [text], tmp_path)
