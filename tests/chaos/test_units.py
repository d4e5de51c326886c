import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.units import (
    format_duration,
    format_percent,
    format_size,
    parse_duration,
    parse_percent,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5), ("250ms", 0.25), ("2m", 120), ("1h", 3600), (3, 3), ("0.5s", 0.5), ("7us", 7e-6)]
)
def test_durations_are_read_with_units(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5", "5 parsec", "-1s", "", "s", True, None, [], "1e9h", "8d"])
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("64KiB", 65536), ("1MB", 10**6), ("10B", 10), (5, 5), ("1.5KiB", 1536)])
def test_sizes_are_read_with_units(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["64kb", "-1B", -1, True, 1.5, "KiB"])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(ValueError):
        parse_size(text)


@pytest.mark.parametrize("text", ["0/s", "2000", "-3/s", 0, True, "fast"])
def test_an_invalid_rate_is_refused(text):
    with pytest.raises(ValueError):
        parse_rate(text)


@given(st.integers(min_value=0, max_value=7 * 24 * 3600 * 1_000_000))
def test_a_formatted_duration_reads_back_to_the_microsecond(micros):
    assert parse_duration(format_duration(micros / 1e6)) == pytest.approx(micros / 1e6, abs=1e-6)


@given(st.integers(min_value=0, max_value=2**50))
def test_a_formatted_size_reads_back_exactly(size):
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("text", ["99.9", 99.9, "101 %", "100.0001 %", "99.99999 %", "-1 %", "%", True])
def test_an_invalid_share_is_refused(text):
    with pytest.raises(ValueError):
        parse_percent(text)


@given(st.integers(min_value=0, max_value=10**6))
def test_a_formatted_share_reads_back_exactly(millionths):
    assert parse_percent(format_percent(millionths)) == millionths
