"""Comparison partners of cells: cells of a stored result of the same matrix, or other cells of this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from chaos.campaign.gate.matrix import PlannedCell
from chaos.campaign.gate.model import Gate, Part
from chaos.errors import RunDirError, UsageError
from chaos.run.campaign import FORMAT, RESULT, GateResult, LeftOut, Machine
from chaos.run.directory import read_json


@dataclass(frozen=True)
class Pair:
    """Cell `number` and the cell that it is compared with. stored: whether that one is in the baseline."""

    number: int
    other: int
    stored: bool
    name: str
    """The name of the other side, such as `the baseline` or `Kafka 3.9.2`."""


def read(path: Path) -> GateResult:
    """Read a stored result. Raises `UsageError` if it is missing and `RunDirError` if it is not valid."""
    if path.is_dir():
        path = path / RESULT
    if not path.is_file():
        raise UsageError(f"there is no baseline {path}; a gate writes one as {RESULT}")
    raw = read_json(path, "baseline")
    if isinstance(raw, dict) and raw.get("format", FORMAT) != FORMAT:
        raise RunDirError(f"{path} is of format {raw['format']}, and this version of Aftershock reads {FORMAT}")
    try:
        return GateResult.model_validate(raw)
    except ValidationError as e:
        raise RunDirError(f"{path} is not the result of a gate ({e.error_count()} errors)") from None


def pairs(
    gate: Gate, cells: Sequence[PlannedCell], stored: GateResult | None, left_out: Sequence[LeftOut] = ()
) -> list[Pair]:
    """Pair each cell with the one to compare it with; a cell with a partner that is left out has none.

    Raises `UsageError` for a baseline of another matrix.
    """
    result: list[Pair] = []
    missing: list[str] = []
    changed = gate.reference.model_dump(exclude_none=True) if gate.reference else {}
    partners = {cell.number: cell.key.model_copy(update=changed) for cell in cells}
    here = {cell.key: cell for cell in cells}
    for cell in cells:
        other = partners[cell.number]
        if gate.reference is not None and other != cell.key:
            if other in here:
                result.append(Pair(cell.number, here[other].number, False, _name(gate.reference)))
                continue
            if any(out.key == other for out in left_out):
                continue
            if stored is None:
                ((axis, value),) = gate.reference.values().items()
                known = ", ".join(dict.fromkeys(getattr(cell.key, axis) for cell in cells))
                raise UsageError(
                    f"reference {axis} {value}: neither the matrix nor a baseline has such a cell; "
                    f"the matrix has {known}"
                )
        if stored is None:
            continue
        then = next((baseline for baseline in stored.cells if baseline.key == other), None)
        if then is None:
            missing.append(other.name)
        else:
            if other == cell.key and then.setup != cell.setup:
                raise UsageError(
                    f"the baseline is of another matrix: {other.name} was another scenario then; run the gate without "
                    f"it, and use its new {RESULT} as the baseline"
                )
            result.append(Pair(cell.number, then.number, True, "the baseline"))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(
            f"the baseline is of another matrix: it has no cell {missing[0]}{more}; run the gate without it"
        )
    if gate.reference is not None and all(partners[cell.number] == cell.key for cell in cells):
        raise UsageError(
            f"reference {_name(gate.reference)}: every cell has this value, so there is nothing to compare"
        )
    return result


def _name(reference: Part) -> str:
    ((axis, value),) = reference.values().items()
    return {"kafka": f"Kafka {value}", "client": f"client {value}"}.get(axis, value)


def warnings(stored: GateResult, machine: Machine) -> list[str]:
    """Return warnings about a baseline."""
    texts = []
    if stored.machine != machine:
        texts.append(
            f"The baseline was measured on another machine ({stored.machine.platform}, {stored.machine.cpus} CPUs): "
            "times of different machines are hardly comparable."
        )
    if stored.verdict != "pass":
        texts.append(f"The baseline itself is not a pass: {stored.sentence}")
    return texts
