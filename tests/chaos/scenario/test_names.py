"""Names of entries: as long as names in Kubernetes, but of entries that write, because each record has the name."""

from typing import Any

import pytest
import yaml

from chaos.campaign.moments import leave
from chaos.errors import ScenarioError
from chaos.scenario.load import of_mapping, parse
from chaos.scenario.resolve import resolve
from chaos.setup.names import MOST_OF_ENTRY

LONGEST = ("checkout-order-event-router-" * 3)[:MOST_OF_ENTRY]


def made(**changes: Any) -> dict[str, Any]:
    app = {"name": LONGEST, "command": ["service", "{bootstrap}"], "reads": ["orders"], "group": "billing"}
    return {
        "title": "t",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "shop", "topic": "orders", "value": {"template": '{"id": "{id}"}'}}],
        "apps": [app],
        "effects": [{"name": "out", "log": {"app": LONGEST, "pattern": "(?P<id>.*)"}}],
        "faults": [leave(LONGEST)],
    } | changes


def test_an_application_has_a_name_as_long_as_in_kubernetes_on_the_wire_and_in_explore() -> None:
    scenario = of_mapping(made(), "t.yaml")
    assert scenario.apps[0].name == scenario.faults[0].app_name == LONGEST
    judged = of_mapping(made(faults=[], capture={"judged": "wire"}), "t.yaml")
    resolved = resolve(judged, run_id="r", name="t", created_us=1, seed=1, overrides=[])
    (reader,) = resolved.audited().scenario.readers
    assert reader.name == LONGEST


@pytest.mark.parametrize(
    ("key", "name", "message"),
    [
        ("apps", LONGEST + "x", f"1 to {MOST_OF_ENTRY} letters, digits, _ and -"),
        ("apps", "order.router", "(did you mean order-router?)"),
        ("producers", "checkout-service-eu", "1 to 16 letters, digits, _ and -, a letter or digit first, because"),
    ],
)
def test_a_name_that_does_not_fit_is_refused_with_what_fits(key: str, name: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse(yaml.safe_dump(made()), "t.yaml", [f"{key}[0].name={name}"])
    assert message in str(refused.value)
