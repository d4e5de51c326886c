"""The joined table as Great Expectations reads it."""

from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checks.effects.tables import INPUTS, inputs_of


@pytest.mark.parametrize("name", ["invoices", "_out", ".x", "..", "a=b", "x" * 249])
def test_no_reader_passes_over_the_folder_of_an_effect(tmp_path, name):
    folder = inputs_of(SimpleNamespace(audit=tmp_path), SimpleNamespace(name=name))
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"effect": [name]}), folder / "part-0.parquet")
    assert pd.read_parquet(tmp_path / INPUTS)["effect"].to_list() == [name]
