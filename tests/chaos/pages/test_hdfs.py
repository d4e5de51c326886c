"""The tests of `test_remote` against a real HDFS, over WebHDFS."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from chaos.processes.ports import free_ports
from tests.chaos.pages.conftest import Folder
from tests.chaos.pages.test_remote import (  # noqa: F401 - the same tests, with the fixtures below
    Remote,
    remote_folder,
    test_a_missing_folder_and_a_file_are_problems,
    test_a_report_with_its_files_docs_ledger_and_bundle_is_that_of_the_disk,
    test_an_export_has_the_same_files_as_one_of_the_disk,
    test_html_and_signs_in_names_are_text_and_lead_to_the_run,
    test_the_history_leads_to_the_runs_there_and_all_are_listed_without_one,
    test_what_changes_or_goes_there_is_seen_by_the_next_request,
    test_what_is_outside_or_foreign_is_not_served,
)
from tests.support.spark_cluster import hdfs

pytestmark = [
    pytest.mark.spark_cluster,
    pytest.mark.nightly(twin="chaos/pages/test_remote.py::test_what_is_outside_or_foreign_is_not_served"),
]


@pytest.fixture(scope="module")
def webhdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    (port,) = free_ports(1)
    with hdfs(tmp_path_factory.mktemp("hdfs"), port):
        yield f"webhdfs://root@localhost:{port}"


@pytest.fixture
def remote(webhdfs: str, runs: Folder) -> Remote:
    return remote_folder(runs, f"{webhdfs}/{secrets.token_hex(4)}/runs")
