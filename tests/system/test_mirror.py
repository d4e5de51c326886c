"""A mirror to a second cluster as it is: MirrorMaker 2, its worker killed, and each record compared."""

import pytest

from tests.support.platform import chaos, left_running

pytestmark = [pytest.mark.kafka, pytest.mark.landing, pytest.mark.timeout(600)]


def test_a_mirror_copies_each_record_with_its_headers_only_as_bytes(tmp_path):
    fewer = ["--set", "producers.shop.records=1500", "--set", "faults.crash.when={acked: 600}"]
    counts = {}
    for variant, code in (("bytes", 0), ("parsed", 0)):
        ended = chaos("run", "app-mirror", "--variant", variant, *fewer, "--json", "--runs-dir", tmp_path)
        (mirrored,) = ended.result["effects"]
        counts[variant] = mirrored["counts"]
        assert (ended.code, mirrored["counts"]["missing"], mirrored["counts"]["unexpected"]) == (code, 0, 0), (
            ended.result["sentence"]
        )
        assert mirrored["effects"] == mirrored["inputs"] + mirrored["counts"]["duplicate"] >= 1500
    assert counts["bytes"]["wrong"] == 0 < counts["parsed"]["wrong"]
    assert left_running(tmp_path) == []
