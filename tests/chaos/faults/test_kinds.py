"""Every kind of fault: its name, what it may break, and a shipped scenario that shows it."""

from typing import get_args

import pytest

from chaos.faults import FAULTS, SPECS
from chaos.faults.base import Fault, FaultSpec
from chaos.scenario.load import load
from chaos.scenario.shipped import bugs, shipped


def test_a_kind_is_listed_under_its_name_and_has_one_specification():
    named = {kind: get_args(spec.model_fields["kind"].annotation)[0] for kind, spec in SPECS.items()}
    assert named == {kind: kind for kind in FAULTS}
    assert len(set(SPECS.values())) == len(FAULTS)


def test_every_kind_is_in_a_shipped_scenario_or_a_published_bug():
    used = {f.kind for path in (*shipped().values(), *bugs().values()) for f in load(path).faults}
    assert FAULTS.keys() - used == set()


def test_a_fault_that_does_not_say_what_it_may_break_is_refused():
    class Unclear(FaultSpec):
        kind: str

    with pytest.raises(TypeError, match="Unclear does not say what the fault may break; give effects"):

        class Silent(Fault[Unclear], spec=Unclear):
            pass
