"""Ids of inputs: no two records of a run have the same one, and each leads back to its record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.ledger.ids import NUMBER_BITS, Ids, number_id, text_id

CREATED_US = 1_795_776_000_123_456
RUN = Ids("7f3a91c0", CREATED_US, {"shop/1": 0, "shop/2": 1_000_000, "shop-1/1": 2_000_000}, 2_000_500)


@given(st.sampled_from(list(RUN.first)), st.integers(0, 499), st.sampled_from(["text", "number"]))
def test_an_id_leads_back_to_its_record(client, seq, kind):
    assert RUN.parse(RUN.of(client, seq, kind)) == (client, seq)


def test_two_million_numbers_differ_over_clients_and_a_double_holds_each():
    starts = [RUN.of(client, 0, "number") for client in ("shop/1", "shop/2")]
    numbers = np.concatenate([start + np.arange(1_000_000) for start in starts])
    assert len(np.unique(numbers)) == 2_000_000
    assert np.array_equal(numbers.astype(np.float64).astype(np.int64), numbers)
    assert RUN.parse(float(numbers[-1])) == ("shop/2", 999_999)


def test_two_million_texts_differ_over_clients():
    assert len({text_id("7f3a91c0", client, seq) for client in RUN.first for seq in range(700_000)}) == 2_100_000


def test_the_next_incarnation_goes_on_at_its_seq_and_so_repeats_no_id():
    # an id names client and seq, and not the incarnation: a record that is sent again is the same input
    assert {text_id("7f3a91c0", "shop/1", seq) for seq in range(5)}.isdisjoint(
        text_id("7f3a91c0", "shop/1", seq) for seq in range(5, 9)
    )


@pytest.mark.parametrize(
    "found",
    [
        *("7f3a91c1-shop-1-4", "7f3a91c0-shop-3-4", "7f3a91c0-shop-1-04", "7f3a91c0-shop-1", "7f3a91c0-shop-1-4 "),
        *("7f3a91c0-shop-1--4", "", "4", None, True, [4], {"a": 4}, 4, -4, 4.5, float("nan"), float("inf"), 10**400),
        number_id(CREATED_US, 0, -1),
        number_id(CREATED_US, RUN.most, 0),
        number_id(CREATED_US + 1_000_000, 0, 4),
    ],
)
def test_what_is_no_id_of_this_run_leads_nowhere(found):
    assert RUN.parse(found) is None


def test_runs_of_two_seconds_share_no_number():
    assert number_id(CREATED_US, 2**NUMBER_BITS - 1, 0) < number_id(CREATED_US + 1_000_000, 0, 0)


def test_without_clients_nothing_is_an_id():
    assert Ids("7f3a91c0", CREATED_US, {}, 0).parse(number_id(CREATED_US, 0, 0)) is None
