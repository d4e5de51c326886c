"""What a gate file says: which scenarios, with which releases and settings, how often, and by what they are judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from chaos.errors import ScenarioError
from chaos.history.trends import TREND_STATS, failure_rate_bound
from chaos.scenario.load import read_mapping
from chaos.scenario.model import Variant, VariantName
from chaos.scenario.triggers import Strict

SHIPPED = Path(__file__).parent.parent / "gates"

Axis = Literal["scenario", "kafka", "client", "settings"]
AXES: tuple[Axis, ...] = ("scenario", "kafka", "client", "settings")
Release = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
Margin = Annotated[float, Field(ge=1, le=100)]
DEFAULT_SETTINGS: dict[VariantName, Variant] = {"default": Variant()}


class Part(Strict):
    """A part of the matrix, by the values that its cells have."""

    scenario: str | None = None
    kafka: Release | None = None
    client: Release | None = None
    settings: str | None = None

    def values(self) -> dict[Axis, str]:
        """What it names, by axis."""
        return {axis: value for axis in AXES if (value := getattr(self, axis)) is not None}

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.values():
            raise ValueError(f"name one of {', '.join(AXES)}")
        return self


class Integrity(Strict):
    """What has to be known of the records, beyond that no run fails."""

    below: float | None = Field(
        None, gt=0, lt=1, description="share of failing runs that has to be excluded at 95 %, such as 0.06"
    )
    inconclusive: int = Field(0, ge=0, description="how many runs of a cell may be unable to tell")


class Times(Strict):
    """How times are judged, where there is something to hold them against."""

    margin: Margin = Field(1.25, description="a time may be so many times what it was")
    margins: dict[str, Margin] = Field({}, description="by metric, where it is another one")
    confidence: float = Field(0.95, ge=0.5, lt=1, description="that no time of the gate is called slower by chance")
    only: list[str] = Field(list(TREND_STATS), description="the metrics that are judged")
    scenarios: list[str] | None = Field(None, description="those whose times are judged; all of them when left out")
    undecided: Literal["pass", "inconclusive"] = Field(
        "pass", description="a time that is neither shown to be slower nor within the margin, if others of its cell are"
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        if unknown := [name for name in (*self.only, *self.margins) if name not in TREND_STATS]:
            raise ValueError(f"there is no time {unknown[0]!r} to judge; known are {', '.join(TREND_STATS)}")
        return self

    def judges(self, scenario: str) -> bool:
        """Whether times of this scenario are judged."""
        return self.scenarios is None or scenario in self.scenarios

    def margin_of(self, metric: str) -> float:
        """The margin of one metric."""
        return self.margins.get(metric, self.margin)


class Gate(Strict):
    """A whole gate."""

    title: str = Field(min_length=1, max_length=200)
    description: str = ""
    scenarios: list[str] = Field(description="names or files; one side of an A/B scenario as name/variant")
    kafka: list[Release] | None = Field(None, description="Kafka releases; each scenario's own when left out")
    clients: list[Release] | None = Field(None, description="confluent-kafka releases; each scenario's own if left out")
    settings: dict[VariantName, Variant] = Field(
        DEFAULT_SETTINGS, description="sets of values by path, as of --set, and the contract that goes with them"
    )
    exclude: list[Part] = Field([], description="cells that are left out")
    repeat: int = Field(5, ge=1, le=1000, description="runs of each cell")
    seed: int | None = Field(None, ge=0, description="the same for every cell; drawn and recorded when left out")
    against: Part | None = Field(None, description="one value of one axis: what there is now, which others are held to")
    baseline: str | None = Field(None, description="a stored gate.json; relative to this file")
    time: Times = Times()
    integrity: Integrity = Integrity()

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.against is not None and len(self.against.values()) != 1:
            raise ValueError("against names one value of one axis, such as {kafka: 3.9.2}")
        if self.integrity.below is not None and (needed := passes_for(self.integrity.below)) > self.repeat:
            raise ValueError(
                f"integrity.below {self.integrity.below:g} takes {needed} passes of each cell; repeat is {self.repeat}"
            )
        return self


def passes_for(share: float) -> int:
    """How many passes it takes to exclude, at 95 %, that this share of runs fails or more."""
    n = 1
    while failure_rate_bound(n) > share:
        n += 1
    return n


def shipped() -> dict[str, Path]:
    """The gates that come with Aftershock, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def find(name_or_file: str) -> Path:
    """The file of a shipped gate's name, or the file itself. Raises `ScenarioError`."""
    known = shipped()
    if name_or_file in known:
        return known[name_or_file]
    path = Path(name_or_file)
    if not path.is_file():
        raise ScenarioError(f"there is no gate {name_or_file}; give a YAML file, or one of {', '.join(known)}")
    return path


def load(path: Path, **changes: Any) -> Gate:
    """Read a gate file; `changes` are values that its user says otherwise. Raises `ScenarioError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ScenarioError(f"{path} cannot be read: {e}") from None
    return parse(text, str(path), **changes)


def parse(text: str, where: str, **changes: Any) -> Gate:
    """Read a gate from YAML text; `where` names its origin in errors. Raises `ScenarioError`."""
    raw = read_mapping(text, where, "a gate", "title, scenarios, kafka, …")
    raw |= {name: value for name, value in changes.items() if value is not None}
    try:
        return Gate.model_validate(raw)
    except ValidationError as e:
        problems = "\n  ".join(dict.fromkeys(_words(error["loc"], error["type"], error["msg"]) for error in e.errors()))
        raise ScenarioError(f"{where} is not a valid gate:\n  {problems}") from None


def _words(where: tuple[int | str, ...], kind: str, message: str) -> str:
    place = ".".join(str(part) for part in where)
    if kind == "extra_forbidden":
        return f"{place}: unknown key"
    if kind == "missing":
        return f"{place}: is required"
    message = message.removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
