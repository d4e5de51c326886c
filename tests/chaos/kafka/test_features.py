"""The release of a broker by what it supports."""

import pytest

from chaos.kafka.features import Support, line_of


@pytest.mark.parametrize(
    ("highest", "line"),
    [(0, None), (3, None), (4, "3.3"), (21, "3.9"), (25, "4.0"), (26, "4.1"), (30, "4.3"), (40, "4.3")],
)
def test_the_highest_metadata_version_of_a_broker_names_its_line(highest, line):
    levels = {"metadata.version": (1, highest)} if highest else {}
    assert line_of(Support({}, levels, {})) == line
