"""The shipped rules and the dashboard in a real Prometheus, which scrapes a textfile and a Pushgateway."""

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml

from chaos.cli.history import SHIPPED_EXAMPLES
from chaos.history import metrics
from chaos.history.entries import Time
from chaos.history.metrics import publish
from chaos.history.metrics.publish import parse_target
from chaos.history.store import Store, default_url
from chaos.wait import wait_until
from tests.chaos.history.metrics.entries import ENTRY, later
from tests.support.prometheus import get, needs_prometheus, prometheus, pushgateway, query, serving

SHIPPED = Path(metrics.__file__).parent
ALERTS, DASHBOARD = (SHIPPED / name for name in SHIPPED_EXAMPLES)
TIMES = [
    *ENTRY.times,
    *(
        Time(metric=name, scope="orders", fault="kill", stat="max", value_us=61_000_000)
        for name in ("consume_unavailability", "isr_recovery", "election_time", "rebalance_duration")
    ),
    Time(metric="end_to_end_latency", scope="billing", fault="", stat="p99", value_us=9_000),
    Time(metric="commit_latency", scope="billing", fault="", stat="p99", value_us=9_000),
]
ANSWER_S = 60

pytestmark = [needs_prometheus, pytest.mark.slow]


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Return the folder of a history with a test that passed always and now fails, and an inconclusive variant."""
    folder = tmp_path_factory.mktemp("runs")
    store = Store(default_url(folder))
    for n in range(5):
        store.add(later(ENTRY, n))
    store.add(later(ENTRY, 60, verdict="fail", seen="lost_write 812", times=tuple(TIMES)))
    store.add(later(ENTRY, 70, scenario="retry/odd name", variant="b", verdict="inconclusive", seen="not known"))
    return folder


@pytest.fixture(scope="module")
def server(history, tmp_path_factory):
    """Yield a Prometheus that scrapes node_exporter with the textfile, and a Pushgateway with the same history."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "textfiles").mkdir()
    collector = f"--collector.textfile.directory={folder / 'textfiles'}"
    quiet = ("--collector.disable-defaults", "--collector.textfile", collector, "--log.level=error")
    with (
        pushgateway(folder) as gateway,
        serving(folder, "prometheus-node-exporter", "/metrics", *quiet) as exporter,
        prometheus(folder, ALERTS, textfile=exporter, push=gateway) as url,
    ):
        targets = [parse_target(str(folder / "textfiles" / "aftershock.prom")), parse_target(gateway)]
        publish.publish_history(Store(default_url(history)), history, targets)
        assert "node_textfile_scrape_error 0" in get(f"{exporter}/metrics")
        wait_until(lambda: len(query(url, "aftershock_history_up")) == 2, ANSWER_S, "no metrics were scraped")
        yield url


def test_both_ways_give_the_same_series(server):
    for name in ("aftershock_last_run_verdict", "aftershock_last_run_anomalies", "aftershock_recorded_runs"):
        found = query(server, name)
        labels = ("scenario", "variant", "verdict", "anomaly", "split")
        sides = {
            job: {
                tuple(s["metric"].get(k, "") for k in labels): s["value"][1] for s in found if s["metric"]["job"] == job
            }
            for job in ("textfile", "aftershock")
        }
        assert sides["textfile"] == sides["aftershock"] != {}
    odd = query(server, 'aftershock_last_run_verdict{scenario="retry/odd name", variant="b", verdict="inconclusive"}')
    assert [sample["value"][1] for sample in odd] == ["1", "1"]


def test_the_rules_fire_in_the_server(server):
    expected = {
        "AftershockRunFailed",
        "AftershockRunInconclusive",
        "AftershockLostWrites",
        "AftershockVerdictRegression",
    }

    def firing():
        found = Counter(s["metric"]["alertname"] for s in query(server, 'ALERTS{alertstate="firing"}'))
        return found if all(found[name] == 2 for name in expected) else None  # one of each way

    found = wait_until(firing, ANSWER_S, lambda: get(f"{server}/api/v1/rules")[:2000])
    assert "AftershockHistoryUnreachable" not in found and "AftershockMetricsAbsent" not in found


EXPRESSIONS = [
    pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
    for panel in json.loads(DASHBOARD.read_text())["panels"]
    for target in panel["targets"]
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_expression_of_the_dashboard_has_an_answer(server, expression):
    assert "$scenario" in expression or not re.search(r"[{,]\s*scenario", expression)
    assert query(server, expression.replace("$scenario", ".*"))
    assert not [s for s in query(server, expression.replace("$scenario", "none")) if "scenario" in s["metric"]]


def test_the_scenarios_of_the_dashboard_are_the_values_of_a_label(server):
    variables = {v["name"]: v for v in json.loads(DASHBOARD.read_text())["templating"]["list"]}
    name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variables["scenario"]["query"]["query"]).groups()
    values = {sample["metric"][label] for sample in query(server, name)}
    assert values == {"leader-kill", "retry/odd name"}


def test_the_dashboard_can_be_imported():
    dashboard = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids) and dashboard["schemaVersion"] >= 36 and dashboard["uid"]
    places = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert max(Counter(places).values()) == 1 and max(x for x, _ in places) == 23  # 24 columns, no panel over another
    assert {t["datasource"]["uid"] for panel in dashboard["panels"] for t in panel["targets"]} == {"${datasource}"}


def test_the_rules_pass_promtool(tmp_path):
    for file in (ALERTS, Path(__file__).parent / "alerts_test.yaml"):
        shutil.copy(file, tmp_path)
    for command in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        done = subprocess.run(["promtool", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    rules = {rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
    tests = yaml.safe_load((Path(__file__).parent / "alerts_test.yaml").read_text())["tests"]
    fired = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == rules


def test_a_later_push_replaces_a_group_and_leaves_the_others(tmp_path):
    store = Store(default_url(tmp_path))
    store.add(ENTRY)
    store.add(later(ENTRY, 5, scenario="clean-run"))
    with pushgateway(tmp_path) as url:
        target = parse_target(url)
        publish.publish_history(store, tmp_path, [target])
        store.add(later(ENTRY, 60, verdict="inconclusive", seen="not known"))
        publish.publish_history(store, tmp_path, [target], {("leader-kill", "")})
        text = get(f"{url}/metrics")
        times = [line for line in text.splitlines() if line.startswith("aftershock_last_run_produce_unavailability")]
        assert len(times) == 1 and 'scenario="clean-run"' in times[0]  # the old time of the other one is gone
        target.mark_unreachable()
        text = get(f"{url}/metrics")
        assert re.search(r"^aftershock_history_up\{.*\} 0$", text, re.MULTILINE)
        assert len(re.findall(r"^aftershock_last_run_end_timestamp_seconds\{", text, re.MULTILINE)) == 2
