"""What the records that an application wrote have of its inputs: the place of the id, and how many an input has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from confluent_kafka import Message

from chaos.apps.trial import scalars
from chaos.effects.payload import Record, Unreadable, at_place, decoder
from chaos.ledger.ids import Id
from chaos.setup.effects import Place

ROUNDS = 2
"""Inputs from each sample, to count what it leads to. With one, a number that changes would look like a rule."""
read_json = decoder("json")
LIST_ITEMS = 5
"""Items of a list in which the id of an input is looked for one by one, besides all of them together."""
MOST_UNEVEN = 8
"""Topics among which those are looked for that have a record for each input together, at most."""


def place_of(records: Sequence[Message], ids: Sequence[Id]) -> str | None:
    """Return the place that has the id of an input in all records, such as `$.order_id`; None if there is none.

    Records with several inputs have a place in each item of a list, such as `$.orders[*].id`. The list may be empty.
    """
    known = {str(one) for one in ids}
    counts: Counter[str] = Counter()
    for record in records:
        values = [*_values(record)]
        counts.update({place for place, _ in values} - {place for place, value in values if value not in known})
    whole = [place for place, count in counts.items() if count + _without_items(records, place) == len(records)]
    return min(
        whole, key=lambda place: (not place.startswith("$"), place.count(".") + place.count("["), place), default=None
    )


def of_inputs(
    written: Mapping[str, Sequence[Message]], ids: Sequence[Id], others: Sequence[Id]
) -> dict[str, list[Message]]:
    """Return the records of each topic without the records for inputs of other topics. ids: of the inputs."""
    mine, strange = {str(one) for one in ids}, {str(one) for one in others}

    def is_mine(record: Message) -> bool:
        found = {value for _, value in _values(record)}
        return bool(found & mine) or not found & strange

    kept = {topic: [*filter(is_mine, records)] for topic, records in written.items()}
    return {topic: records for topic, records in kept.items() if records}


def per_sample(records: Sequence[Message], ids: Sequence[Id], samples: int) -> tuple[int, ...] | None:
    """Return how many effects an input of each sample has; None if they have no ids, or if that has no rule.

    ids: of the inputs in their order, the first one from the first sample. Where each input has one record, it is
    believed without another input from the same sample.
    """
    if (place := place_of(records, ids)) is None:
        return None
    counts = Counter(value for record in records for at, value in _values(record) if at == place)
    numbers = [{counts[str(one)] for one in ids[sample::samples]} for sample in range(min(samples, len(ids)))]
    if all(found == {1} for found in numbers):
        return (1,) * samples
    if len(ids) < ROUNDS * samples or any(len(found) > 1 for found in numbers):
        return None
    return tuple(max(found) for found in numbers)


def either_of(uneven: Mapping[str, Sequence[Message]], ids: Sequence[Id], samples: int) -> Iterator[tuple[str, ...]]:
    """Yield the topics that together have a record for each input, or as many as its sample says: the fewest first.

    A router writes each input to one of several topics: by a hash of its id, or to one for dead letters.

    uneven: the records of topics in which the same sample has another number each time.
    """
    if len(uneven) > MOST_UNEVEN:
        return
    left = sorted(uneven, key=lambda topic: -len(uneven[topic]))
    for size in range(2, len(left) + 1):
        for topics in combinations(left, size):
            records = [record for topic in topics for record in uneven[topic]]
            if set(topics) <= {*left} and per_sample(records, ids, samples):
                left = [topic for topic in left if topic not in topics]
                yield topics


def numbers_differ(written: Mapping[str, Sequence[Message]], ids: Sequence[Id]) -> bool:
    """Return whether a topic has the ids of inputs, and another number of records than one for each."""
    return any(place_of(records, ids) and not per_sample(records, ids, len(ids)) for records in written.values())


def within(records: Sequence[Message], ids: Sequence[Id]) -> bool:
    """Return whether the value of each record has the id of an input somewhere."""
    known = [str(one).encode() for one in ids]
    return bool(records) and all(any(one in (record.value() or b"") for one in known) for record in records)


def _without_items(records: Sequence[Message], place: str) -> int:
    """Return in how many records the list with a place in each item is empty; 0 for any other place."""
    if not place.startswith("$") or not (to_list := Place.parse(place).to_list):
        return 0
    path = Place("path", to_list[:-1])
    return sum(at_place(path, Record(_document(record))) == [] for record in records)


def _document(record: Message) -> Any:
    """Return what a record holds; None if that is no JSON."""
    try:
        return read_json(record.value())
    except Unreadable:
        return None


def _values(record: Message) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers of a record, by their place."""
    if (key := record.key()) is not None:
        yield "key", key.decode(errors="replace")
    for name, value in dict(reversed(record.headers() or ())).items():  # the first one of a name, as an effect reads it
        if isinstance(value, bytes):
            yield f"header:{name}", value.decode(errors="replace")
    yield from ((path, str(value)) for path, value in scalars(_document(record), items=LIST_ITEMS))
