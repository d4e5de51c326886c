"""What a gate is held against: a stored result of the same matrix, or cells of this very one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from chaos.errors import RunDirError, UsageError
from chaos.gate.matrix import Planned, axes
from chaos.gate.model import Gate, Part
from chaos.run.directory import read_json
from chaos.run.gate_result import FORMAT, Cell, GateResult, Key, Machine


@dataclass(frozen=True)
class Pair:
    """Cell `number` is held against the other one; `stored` if that is of the baseline."""

    number: int
    other: int
    stored: bool
    words: str


def read(path: Path) -> GateResult:
    """A stored result. Raises `UsageError` and `RunDirError` for what is none."""
    if path.is_dir():
        path = path / "gate.json"
    if not path.is_file():
        raise UsageError(f"there is no baseline {path}; a gate writes one as gate.json")
    raw = read_json(path, "baseline")
    if isinstance(raw, dict) and raw.get("format", FORMAT) != FORMAT:
        raise RunDirError(f"{path} is of format {raw['format']}, and this version of Aftershock reads {FORMAT}")
    try:
        return GateResult.model_validate(raw)
    except ValidationError as e:
        raise RunDirError(f"{path} is not the result of a gate ({e.error_count()} errors)") from None


def pairs(gate: Gate, cells: Sequence[Planned], stored: GateResult | None) -> list[Pair]:
    """Which cell is held against which. Raises `UsageError` for a baseline of another matrix."""
    found: list[Pair] = []
    missing: list[str] = []
    swapped = {cell.number: _swapped(cell.key, gate.against) for cell in cells}
    here = {cell.key: cell for cell in cells}
    for cell in cells:
        other = swapped[cell.number]
        if gate.against is not None and other != cell.key:
            if other in here:
                found.append(Pair(cell.number, here[other].number, False, _words(gate.against)))
                continue
            if stored is None:
                raise UsageError(_not_there(gate.against, cells))
        if stored is None:
            continue
        then = next((one for one in stored.cells if one.key == other), None)
        if then is None:
            missing.append(other.name)
        else:
            _same_set_up(cell, then, other)
            found.append(Pair(cell.number, then.number, True, "the baseline"))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(
            f"the baseline is of another matrix: it has no cell {missing[0]}{more}; run the gate without it"
        )
    if gate.against is not None and all(swapped[cell.number] == cell.key for cell in cells):
        raise UsageError(f"against {_words(gate.against)}: every cell has that, so there is nothing to hold against it")
    return found


def _swapped(key: Key, against: Part | None) -> Key:
    return (
        key
        if against is None
        else key.model_copy(update={str(axis): value for axis, value in against.values().items()})
    )


def _same_set_up(cell: Planned, then: Cell, key: Key) -> None:
    if key == cell.key and then.setup != cell.setup:
        raise UsageError(
            f"the baseline is of another matrix: {key.name} was another scenario then; run the gate without it, "
            "and keep its gate.json as the new baseline"
        )


def _words(against: Part) -> str:
    ((axis, value),) = against.values().items()
    return {"kafka": f"Kafka {value}", "client": f"client {value}"}.get(axis, value)


def _not_there(against: Part, cells: Sequence[Planned]) -> str:
    ((axis, value),) = against.values().items()
    known = ", ".join(axes(list(cells))[axis])
    return f"against {axis} {value}: the matrix has no such cell, and there is no baseline that has (it has {known})"


def notes(stored: GateResult, machine: Machine) -> list[str]:
    """What is to be known of a baseline."""
    found = []
    if stored.machine != machine:
        found.append(
            f"The baseline was measured on another machine ({stored.machine.platform}, {stored.machine.cpus} CPUs): "
            "times of two machines differ by themselves."
        )
    if stored.verdict != "pass":
        found.append(f"The baseline itself is no pass: {stored.sentence}")
    return found
