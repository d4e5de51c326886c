"""Tests of who speaks: from connections of one front to processes and their names."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from chaos.setup.names import EntryName
from chaos.tap.speakers import Connection, ambiguous, named, processes

S = 1_000_000


def connection(number, client="billing-app", opened=0, closed=1000, host="10.0.0.5", pid=None, **more):
    made = Connection(number, host, opened * S, pid, client, works=True, closed_us=closed * S)
    for (group, member), (first, last) in more.get("members", {}).items():
        made.members[group, member] = [first * S, last * S]
    made.producers = set(more.get("producers", ()))
    made.in_transactions = set(more.get("in_transactions", ()))
    return made


def numbers(*connections):
    """Return the numbers of the connections of each process by its name."""
    found = named(processes(connections))
    return {name: sorted(c.number for c in process.connections) for name, process in found.items()}


def test_connections_of_one_host_and_client_id_at_a_time_are_one_process_with_the_name_of_its_group():
    member = {("billing", "m1"): (1, 9)}
    assert numbers(connection(1, members=member), connection(2, opened=3)) == {"billing/1": [1, 2]}


def test_hosts_client_ids_and_processes_of_one_machine_are_different_ones():
    found = numbers(
        *(connection(1), connection(2, host="10.0.0.6"), connection(3, client="shop")),
        *(connection(4, pid=70), connection(5, pid=71, opened=1)),
    )
    assert found == {
        "billing-app/1": [1],
        "billing-app/2": [2],
        "shop/1": [3],
        "billing-app/3": [4],
        "billing-app/4": [5],
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"members": {("billing", "m1"): (0, 4)}}, {"members": {("billing", "m1"): (11, 20)}}),
        ({"producers": [7]}, {"producers": [7]}),
    ],
)
def test_a_process_that_lost_all_connections_and_goes_on_as_it_was_is_the_same(before, after):
    """As all clients of a cluster of one broker, when that broker starts again."""
    found = processes([connection(1, closed=5, **before), connection(2, opened=10, **after)])
    assert [[c.number for c in process.connections] for process in found] == [[1, 2]]


def test_a_process_that_came_later_as_somebody_else_is_another_one():
    first = connection(1, closed=5, members={("billing", "m1"): (0, 4)})
    second = connection(2, opened=10, members={("billing", "m2"): (11, 20)})
    assert numbers(first, second) == {"billing/1": [1], "billing/2": [2]}
    assert ambiguous(processes([first, second])) == {}


def test_two_members_at_a_time_that_cannot_be_told_apart_are_said_with_what_to_do():
    both = {("billing", "m1"): (0, 9), ("billing", "m2"): (1, 8)}
    (words,) = ambiguous(processes([connection(1, members=both)])).values()
    assert "several members of group billing speak from 10.0.0.5" in words and "client.id" in words


def test_a_member_that_joined_again_with_another_id_is_no_second_member():
    both = {("billing", "m1"): (0, 5), ("billing", "m2"): (5, 9)}
    assert ambiguous(processes([connection(1, members=both)])) == {}


def test_a_producer_that_commits_for_a_member_in_transactions_is_its_process():
    consumer = connection(1, "consumer-1", members={("billing", "m1"): (0, 9)})
    producer = connection(2, "producer-1", producers=[3], in_transactions=[("billing", "m1")])
    assert numbers(consumer, producer) == {"billing/1": [1, 2]}


def test_a_connection_that_closed_before_its_process_was_looked_up_is_the_only_process_it_can_be():
    member = connection(1, pid=70, members={("billing", "m1"): (0, 9)})
    other_time, other_client = connection(3, pid=71, opened=2000, closed=2001), connection(4, "shop", pid=72)
    found = [member, connection(2, opened=3, closed=4), other_time, other_client]
    assert numbers(*found) == {"billing/1": [1, 2], "shop/1": [4], "billing-app/1": [3]}
    assert ambiguous(processes(found)) == {}


def test_a_closed_connection_is_the_process_that_speaks_as_the_same_member_or_producer():
    first = connection(1, pid=70, members={("billing", "m1"): (0, 9)})
    second = connection(2, pid=71, producers=[7])
    as_member = connection(3, members={("billing", "m1"): (1, 2)})
    as_producer = connection(4, producers=[7])
    found = numbers(first, second, as_member, as_producer)
    assert found == {"billing/1": [1, 3], "billing-app/1": [2, 4]}


def test_a_closed_connection_that_may_be_of_two_processes_leaves_their_groups_undecided():
    first = connection(1, pid=70, members={("billing", "m1"): (0, 9)})
    second = connection(2, pid=71, members={("audit", "m2"): (0, 9)})
    far = connection(4, "shop", pid=72, members={("shop", "m3"): (0, 9)})
    found = ambiguous(processes([first, second, connection(3, opened=3, closed=4), far]))
    assert set(found) == {"billing", "audit"}
    hidden = connection(2, pid=0, opened=1)
    assert set(ambiguous(processes([first, hidden, connection(3, opened=3, closed=4)]))) == {"billing"}
    assert ambiguous(processes([first, hidden])) == {}
    assert "closed before its process was looked up, and 2 processes had that client id" in found["billing"]


def test_a_first_connection_that_only_asked_for_brokers_is_nobody():
    first = connection(1, closed=1)
    first.works = False
    assert numbers(first, connection(2, opened=1, pid=9)) == {"billing-app/1": [2]}


def test_names_are_those_of_clients_of_a_scenario_and_differ_for_different_groups():
    groups = ["a group with a very long name 1", "a group with a very long name 2"]
    made = [connection(n, f"c{n}", members={(group, "m"): (0, 9)}) for n, group in enumerate(groups)]
    first, second = numbers(*made)
    assert [first, second] == [f"a-group-with-a-very-long-name-{n}/1" for n in (1, 2)]
    groups = [f"{'acme.' * 20}{n}" for n in (1, 2)]
    made = [connection(n, f"c{n}", members={(group, "m"): (0, 9)}) for n, group in enumerate(groups)]
    names = numbers(*made)
    fitting = TypeAdapter(EntryName)
    assert len(names) == 2 and all(fitting.validate_python(name.partition("/")[0]) for name in names)
