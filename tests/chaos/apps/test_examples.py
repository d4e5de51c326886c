"""The programs that ship as examples of applications."""

import pytest

from chaos.scenario.load import load
from chaos.scenario.shipped import SHIPPED


@pytest.mark.parametrize("side", ["exactly-once", "at-least-once"])
def test_an_application_with_state_keeps_it_in_the_folder_of_its_instance_and_not_beside_the_scenarios(side):
    (app,) = load(SHIPPED / "app-quix.yaml", variant=side).apps
    program = (SHIPPED.parent / "examples" / app.program).read_text()
    assert 'state_dir=os.environ.get("STATE_DIR"' in program and app.env["STATE_DIR"] == "{data}"
