"""Outputs of processors: cutting parts into blocks by input, and by key where processors count, and one of the latter.

A block of counted keys holds every input of some keys of one topic, and every output that carries one of these keys and
was made from that topic.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checks.audit.arrays import NONE, Columns, Ints, distinct
from checks.audit.engine.blocks import BLOCK_BITS, KINDS, Rows, block_name, pack
from checks.audit.engine.group import sections
from checks.audit.engine.keys import hashes_of
from checks.audit.engine.parts import Part
from checks.audit.facts.run_facts import RunFacts

Piece = tuple[str, str, bytes]


def rows_by_input(part: Part, columns: Columns, own: Ints, facts: RunFacts) -> Iterator[Piece]:
    """Yield the records of processors as outputs of the positions that they were made from. own: the run's records."""
    source, outputs = _outputs(part, columns, own, facts)
    known = (source != NONE) & (outputs["partition"] >= 0) & (outputs["offset"] >= 0)
    kept = {name: outputs[name][known] for name in ("partition", *KINDS["outputs"])}
    places = source[known], kept["partition"], kept["offset"] >> BLOCK_BITS
    for (topic, number, block), section in sections(*places):
        packed = pack({name: section.ints(kept[name]) for name in KINDS["outputs"]})
        yield block_name("read", facts.topics[topic], number, block), "outputs", packed


def rows_by_count(part: Part, columns: Columns, own: Ints, facts: RunFacts) -> Iterator[Piece]:
    """Yield the inputs of processors that count, and their outputs, by block of keys. own: the run's records.

    A record without a key is no input that can be counted; an output without a key is in the first block.
    """
    codes, texts = part.dictionary("key")
    key = np.append(hashes_of(texts), NONE)[codes]  # the code of a null is -1
    source, outputs = _outputs(part, columns, own, facts)
    outputs |= {"key": key[own], "count": part.ints("count")[own]}
    for topic, blocks in facts.counted.items():
        number = facts.topic_ids.get(topic, NONE)
        here, made = (columns["topic"] == number) & (key != NONE), source == number
        yield from _by_key(topic, blocks, "counted_inputs", {n: c[here] for n, c in (columns | {"key": key}).items()})
        yield from _by_key(topic, blocks, "counted_outputs", {n: c[made] for n, c in outputs.items()})


def _outputs(part: Part, columns: Columns, own: Ints, facts: RunFacts) -> tuple[Ints, Columns]:
    """Return the input topic of each of the run's records, NONE for no known one, and their columns as outputs."""
    codes, names = part.codes("input_topic")
    known = np.array([facts.topic_ids.get(name, NONE) for name in names] + [NONE], np.int64)
    kept = {name: columns[name][own] for name in ("sender", "topic", "timestamp_us", "committed")}
    kept |= {"output_partition": columns["partition"][own], "output_offset": columns["offset"][own]}
    kept |= {"partition": part.ints("input_partition")[own], "offset": part.ints("input_offset")[own]}
    return known[codes[own]], kept


def _by_key(topic: str, blocks: int, kind: str, columns: Columns) -> Iterator[Piece]:
    of_block = np.where(columns["key"] == NONE, 0, columns["key"] % blocks)
    for block in distinct(of_block).tolist():
        rows = of_block == block
        packed = pack({name: columns[name][rows].astype(np.int64) for name in KINDS[kind]})
        yield block_name("counts", topic, block), kind, packed


class CountBlock:
    """All inputs of some keys of a topic, and all outputs of these keys that were made from the topic.

    inputs, outputs: kinds `counted_inputs` and `counted_outputs` of `blocks.KINDS`; the partition and the offset of an
    output are the coordinates of its input.
    """

    def __init__(self, topic: str, facts: RunFacts, rows: Rows) -> None:
        self.topic, self.facts = topic, facts
        self.inputs, self.outputs = rows["counted_inputs"], rows["counted_outputs"]
