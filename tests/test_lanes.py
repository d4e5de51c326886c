"""Each test that only the nightly lane runs names its twin: the test with the same behaviour that each landing runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Lanes


def problems(lanes: Lanes) -> Iterator[str]:
    """Yield what is wrong with the marks of collected tests. A twin is a test, all parameters of one, or a file.

    Twins in files that are not collected are not judged.
    """
    files = {test.partition("::")[0] for test in lanes}
    for test, marks in lanes.items():
        for mark in marks:
            twin = mark.kwargs.get("twin")
            if mark.args or set(mark.kwargs) != {"twin"}:
                yield f"{test}: write pytest.mark.nightly(twin=...), with a test of the standard lane"
            elif twin.partition("::")[0] in files and not any(
                other == twin or other.startswith((f"{twin}[", f"{twin}::")) for other, o in lanes.items() if not o
            ):
                yield f"{test}: its twin {twin} is not in the standard lane"


def test_each_nightly_test_has_a_twin_in_the_standard_lane(lanes: Lanes) -> None:
    if not any(lanes.values()):
        pytest.skip("no nightly test is collected: run `make test-quick`, or pytest with the file of the test")
    assert list(problems(lanes)) == []


TWIN = (pytest.mark.nightly(twin="a.py::test_b").mark,)


@pytest.mark.parametrize(
    ("lanes", "found"),
    [
        ({"a.py::test_a": TWIN, "a.py::test_b": ()}, 0),
        ({"a.py::test_a": TWIN, "a.py::test_b[1]": (), "a.py::test_b[2]": TWIN}, 0),
        ({"c.py::test_a": TWIN}, 0),
        ({"a.py::test_a": TWIN}, 1),
        ({"a.py::test_a": TWIN, "a.py::test_bb": ()}, 1),
        ({"a.py::test_a": TWIN, "a.py::test_b": TWIN}, 2),
        ({"a.py::test_a": (pytest.mark.nightly.mark,)}, 1),
        ({"a.py::test_a": (pytest.mark.nightly("a.py::test_b").mark,), "a.py::test_b": ()}, 1),
    ],
)
def test_a_mark_without_a_twin_in_the_standard_lane_is_named(lanes: Lanes, found: int) -> None:
    assert len(list(problems(lanes))) == found
