"""Effects in a scenario: each mistake is one line with its key and line."""

import pytest

from chaos.errors import ScenarioError
from chaos.scenario.load import load, parse
from chaos.setup.effects import PerInput

TEXT = """title: t
topics: [{name: orders}, {name: invoices}]
producers: [{name: shop, topic: orders, value: {template: 'order {id}'}}]
effects:
  - %s
expect: {effects: {%s}}
"""
GOOD = "{name: e, topic: invoices, id: $.id}"


def refused(effect=GOOD, bounds="", text=TEXT):
    with pytest.raises(ScenarioError) as e:
        parse(text % (effect, bounds), "m.yaml")
    return str(e.value).splitlines()[1:]


def test_an_effect_is_read_with_its_defaults():
    effect = parse(TEXT % (GOOD, "e: {missing: 0, duplicate: {max: 50}, late: {p99: 5s}}"), "m.yaml").effects[0]
    assert (effect.source, effect.per.input, effect.settle) == ("topic", 1, None)


@pytest.mark.parametrize("name", ["com.acme.orders.validated-and-priced.v1", "_out", "x" * 249])
def test_an_effect_may_have_the_name_of_any_topic(name):
    text = TEXT.replace("{name: invoices}", f"{{name: {name}}}")
    effect = f"{{name: {name}, topic: {name}, id: $.id}}"
    (read,) = parse(text % (effect, f"{name}: {{missing: 0}}"), "m.yaml").effects
    assert (read.name, read.topics) == (name, (name,))


SEVERAL = TEXT.replace("{name: invoices}", "{name: invoices}, {name: dead}")


def test_an_effect_may_be_in_any_one_of_several_topics():
    (effect,) = parse(SEVERAL % ("{name: e, topic: [invoices, dead], id: $.id}", ""), "m.yaml").effects
    assert effect.topics == effect.own_topics == ("invoices", "dead")
    assert effect.describe() == "topics invoices, dead"


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        ("{name: e, topic: [invoices, deed], id: $.a}", "'deed' is not one of the topics"),
        ("{name: e, topic: [invoices, orders], id: $.a}", "orders is the topic of the inputs too"),
        ("{name: e, topic: [dead, dead], id: $.a}", "dead, dead has a topic twice"),
        ("{name: e, topic: [], id: $.a}", "effects[0].topic: is empty; give at least 1"),
        ("{name: e, topic: 'dead, out', id: $.a}", "'dead, out' is no topic; write several as a list: [dead, out]"),
        ("{name: e, topic: {a: 1}, id: $.a}", "effects[0].topic: {'a': 1} is neither a topic nor a list of topics"),
        ("{name: e, topic: ['a b', dead], id: $.a}", "effects[0].topic[0]: 'a b' does not fit"),
        ("{name: e, topic: [invoices, dead], id: key, equals: record}", "is one record of one topic"),
        ("{name: e, topic: [invoices, dead], id: key, aggregate: sum($.a)}", "topic: goes without a list here"),
    ],
)
def test_a_mistake_in_a_list_of_topics_is_one_line(effect, message):
    lines = refused(effect, text=SEVERAL)
    assert len(lines) == 1 and lines[0].strip().startswith("m.yaml:5: ") and message in lines[0]


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        ("{name: e, topic: invoices}", "id: is required"),
        ("{name: e, topic: invoices, files: x, id: $.a}", "give exactly one of topic, sql, files, http, log"),
        ("{name: e, id: $.a}", "give exactly one of topic, sql, files, http, log (found none)"),
        ("{name: e, topic: invoices, id: order_id}", "did you mean $.order_id?"),
        ("{name: e, topic: invoices, id: $..a}", "does not name one place"),
        ("{name: e, topic: invoces, id: $.a}", "'invoces' is not one of the topics"),
        ("{name: e, topic: orders, id: $.a}", "orders is the topic of the inputs too"),
        ("{name: e, topic: invoices, id: $.a, of: invoices}", "no producer writes inputs with ids to invoices"),
        ("{name: e, sql: 'env:DB', id: a}", "query: goes with sql"),
        ("{name: e, sql: 'env:DB', query: q, id: $.a}", "did you mean a?"),
        ("{name: e, sql: 'postgresql://u:hunter22@h/d', query: q}", "a login is not written here"),
        ("{name: e, sql: 'jdbc:postgresql://h/d?user=u&password=hunter22', query: q}", "a login is not written here"),
        ("{name: e, files: 'ftp://u:hunter22@h/*.csv', id: id}", "a login is not written here"),
        ("{name: e, log: {app: a, pattern: 'x(?P<y>.)'}}", "has no group `id`"),
        ("{name: e, log: {app: a, pattern: '('}}", "is no regular expression"),
        ("{name: e, topic: invoices, id: key, aggregate: avg($.a)}", "is not understood"),
        ("{name: e, topic: invoices, id: key, aggregate: count()}", "count() has no field"),
        ("{name: e, topic: invoices, id: $.a, per: {input: 0}}", "must be at least 1"),
        ("{name: e, topic: invoices, id: $.a, per: {samples: [0, 0]}}", "no input has an effect"),
        ("{name: e, topic: invoices, id: $.a, per: {input: 2, samples: [1]}}", "give input or samples"),
        ("{name: e, topic: invoices, id: $.a, per: {samples: [1, -1]}}", "must be at least 0"),
        (
            "{name: e, topic: invoices, id: $.a, per: {samples: [1, 2]}}",
            "has 2 numbers, and the samples of its inputs",
        ),
        ("{name: e, topic: invoices, id: key, aggregate: sum($.a), per: {samples: [1, 2]}}", "per: goes without"),
        ("{name: e, topic: invoices, id: $.a, zone: Mars/Base}", "is no time zone"),
        ("{name: e, topic: invoices, id: $.a, format: {avro: none.avsc}}", "No such file"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(effect, message):
    lines = refused(effect)
    assert len(lines) == 1 and lines[0].strip().startswith("m.yaml:5: ") and message in lines[0]
    assert "hunter22" not in lines[0]


@pytest.mark.parametrize(("inputs", "due"), [(0, 0), (1, 1), (2, 1), (3, 4), (7, 9)])
def test_the_number_of_effects_of_the_first_inputs(inputs, due):
    assert PerInput(samples=(1, 0, 3)).due(inputs) == due and PerInput(input=2).due(inputs) == 2 * inputs


def test_inputs_need_ids():
    text = TEXT.replace(", value: {template: 'order {id}'}", "")
    assert refused(text=text) == [
        "  m.yaml:4: effects: no producer writes inputs with ids; give value.id to the producer of the input topic"
    ]


def test_bounds_name_an_effect_and_what_it_has():
    assert "'f' is not one of the effects (e)" in refused(bounds="f: {missing: 0}")[0]
    assert "no value of e is compared" in refused(bounds="e: {wrong: 1}")[0]


@pytest.mark.parametrize(("key", "bound"), [("late", "{max: 5s}"), ("behind", "{max: 5}")])
def test_a_bound_of_times_needs_the_time_of_each_effect(key, bound):
    bounds = f"e: {{{key}: {bound}}}"
    summed = "{name: e, topic: invoices, id: key, aggregate: sum($.amount)}"
    assert f"expect.effects.e.{key}: e is an aggregate" in refused(summed, bounds)[0]
    by_spark = "{name: e, sql: 'jdbc:postgresql://h/db', query: q}"
    assert f"expect.effects.e.{key}: the run does not look at a jdbc: database" in refused(by_spark, bounds)[0]
    parse(TEXT % (GOOD, bounds), "m.yaml")


def test_paths_begin_at_the_folder_of_the_scenario(tmp_path):
    effects = "{name: e, files: out/*.jsonl, id: $.a}\n  - {name: d, sql: 'sqlite:///b.db', query: q}"
    (tmp_path / "m.yaml").write_text(TEXT % (effects, ""))
    found = load(tmp_path / "m.yaml").effects
    assert found[0].files == f"{tmp_path}/out/*.jsonl" and found[1].sql == f"sqlite:///{tmp_path}/b.db"
