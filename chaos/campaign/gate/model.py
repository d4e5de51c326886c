"""The model of a gate file: scenarios, releases, settings, repetitions, and the rules for the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from chaos.campaign.clients import parse_choice
from chaos.clients.choice import DEFAULT
from chaos.errors import ScenarioError, UsageError
from chaos.history.trends import TREND_STATS, failure_rate_bound
from chaos.kinds import Kind, kind_of, mistaken
from chaos.scenario.load import read_mapping, validated
from chaos.scenario.mistakes import Source
from chaos.scenario.model import Variant, VariantName
from chaos.scenario.shipped import gates
from chaos.scenario.shipped import shipped as scenarios
from chaos.setup.triggers import Strict
from chaos.units import Release

Axis = Literal["scenario", "kafka", "client", "settings"]
AXES: tuple[Axis, ...] = ("scenario", "kafka", "client", "settings")


def _canonical(text: str) -> str:
    """Return a client library as in the key of a cell: `java:3.9.2`, or a release of confluent-kafka."""
    try:
        client = parse_choice(text)
    except UsageError as e:
        raise ValueError(str(e)) from None
    return str(client.release) if client.runtime == DEFAULT else client.describe()


ClientName = Annotated[str, AfterValidator(_canonical)]
Margin = Annotated[float, Field(ge=1, le=100)]
DEFAULT_SETTINGS: dict[VariantName, Variant] = {"default": Variant()}


class Part(Strict):
    """A part of the matrix: all cells with these values."""

    scenario: str | None = None
    kafka: Release | None = None
    client: ClientName | None = None
    settings: str | None = None

    def values(self) -> dict[Axis, str]:
        """Return the values that are set, by axis."""
        return {axis: value for axis in AXES if (value := getattr(self, axis)) is not None}

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.values():
            raise ValueError(f"name one of {', '.join(AXES)}")
        return self


class Integrity(Strict):
    """Demands on the evidence for the records, in addition to no failed run."""

    below: float | None = Field(None, gt=0, lt=1, description="share of failing runs to exclude at 95 %, as 0.06")
    inconclusive: int = Field(0, ge=0, description="number of runs of a cell that may be inconclusive")


class Times(Strict):
    """Rules for times, where the gate compares them."""

    margin: Margin = Field(1.25, description="largest ratio of a time to the one it is compared with")
    margins: dict[str, Margin] = Field({}, description="margins by metric, where they differ")
    confidence: float = Field(0.95, ge=0.5, lt=1, description="probability that no time is called slower by chance")
    only: list[str] = Field(list(TREND_STATS), description="the judged metrics")
    scenarios: list[str] | None = Field(None, description="scenarios with judged times; all when left out")
    undecided: Literal["pass", "inconclusive"] = Field("pass", description="verdict for a time that is undecided")

    @model_validator(mode="after")
    def _check_metrics(self) -> Self:
        if unknown := [name for name in (*self.only, *self.margins) if name not in TREND_STATS]:
            raise ValueError(f"there is no metric {unknown[0]!r}; known are {', '.join(TREND_STATS)}")
        return self

    def judges(self, scenario: str) -> bool:
        """Return whether times of this scenario are judged."""
        return self.scenarios is None or scenario in self.scenarios

    def margin_of(self, metric: str) -> float:
        """Return the margin of a metric."""
        return self.margins.get(metric, self.margin)


class Gate(Strict):
    """The content of a gate file."""

    title: str = Field(min_length=1, max_length=200)
    description: str = ""
    scenarios: list[str] = Field(description="names or files; one variant of an A/B scenario behind a slash")
    kafka: list[Release] | None = Field(None, description="Kafka releases; the releases of the scenarios if None")
    clients: list[ClientName] | None = Field(
        None,
        description="client libraries of all entries, such as java:3.9.2, or releases of confluent-kafka; the "
        "clients of the scenarios if None",
    )
    settings: dict[VariantName, Variant] = DEFAULT_SETTINGS
    """Named sets of overrides (as with --set), each with an optional contract."""
    exclude: list[Part] = Field([], description="cells to leave out")
    repeat: int = Field(5, ge=1, le=1000, description="runs of each cell")
    seed: int | None = Field(None, ge=0, description="seed of all cells; drawn and recorded when left out")
    reference: Part | None = Field(None, description="one value of one axis: the reference for all other cells")
    baseline: str | None = Field(None, description="a stored campaign.json; relative to this file")
    time: Times = Times()
    integrity: Integrity = Integrity()

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.reference is not None and len(self.reference.values()) != 1:
            raise ValueError("reference names one value of one axis, such as {kafka: 3.9.2}")
        if self.integrity.below is not None and (needed := passes_for(self.integrity.below)) > self.repeat:
            raise ValueError(
                f"integrity.below {self.integrity.below:g} takes {needed} passes of each cell; repeat is {self.repeat}"
            )
        return self


def passes_for(share: float) -> int:
    """Return the number of passes that exclude, at 95 %, that this share of runs or more fails."""
    n = 1
    while failure_rate_bound(n) > share:
        n += 1
    return n


def find(name_or_file: str) -> Path:
    """Return the file of a shipped gate, or the file itself. Raises `ScenarioError` if there is neither."""
    known = gates()
    if name_or_file in known:
        return known[name_or_file]
    path = Path(name_or_file)
    kind: Kind | None = "scenario" if name_or_file in scenarios() else kind_of(path)
    if kind is not None:
        raise ScenarioError(mistaken(name_or_file, kind, "a gate"))
    if not path.is_file():
        raise ScenarioError(f"there is no gate {name_or_file}; give a YAML file, or one of {', '.join(known)}")
    return path


def load(path: Path, **changes: Any) -> Gate:
    """Read a gate file; values in `changes` replace its own unless None. Raises `ScenarioError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ScenarioError(f"{path} cannot be read: {e}") from None
    return parse(text, str(path), **changes)


def parse(text: str, where: str, **changes: Any) -> Gate:
    """Parse a gate from YAML text. where: the origin of the text for errors. Raises `ScenarioError`."""
    raw = read_mapping(text, where, "gate", "title, scenarios, kafka, …")
    given = {name: value for name, value in changes.items() if value is not None}
    source = Source(text, where, {(name,): f"--{name}" for name in given})
    return validated(Gate, raw | given, source, f"{where} is not a valid gate")
