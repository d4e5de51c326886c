"""What a tap writes beside its capture, for itself after a restart and for the checks: `tap.json` in its folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from chaos.errors import RunDirError
from chaos.run.directory import Run, read_json, write_atomically

FILE = "tap.json"


class Sitting(BaseModel):
    """The time for which one process recorded. ended_us: None while it does, and after it was killed."""

    began_us: int
    ended_us: int | None = None


class TapRecord(BaseModel):
    """What a tap knows besides the frames.

    listen, advertise: where the applications connect. ports: by broker. begins: the ends of the logs when the tap
    began, by partition such as `orders/0`; a partition that is not named came later. finals: the same when it
    ended; without them, up to the end. topic_ids: by topic, then. instances: who spoke on each connection, such as
    `billing/1`. ends: when an instance was gone. ambiguous: why it is not certain who spoke, in sentences.
    unjudged: topics and groups that are not judged, each with the reason. stopped: why the recording ended before the
    tap did.
    """

    model_config = ConfigDict(extra="forbid")

    listen: str
    advertise: str
    ports: dict[int, int]
    sittings: list[Sitting] = []
    begins: dict[str, int] = {}
    finals: dict[str, int] = {}
    topic_ids: dict[str, str] = {}
    instances: dict[int, str] = {}
    ends: dict[str, int] = {}
    ambiguous: list[str] = []
    unjudged: dict[str, str] = {}
    stopped: str = ""

    def save(self, run: Run) -> None:
        """Write the file."""
        write_atomically(run.path / FILE, self.model_dump_json(indent=1))


def path_of(run: Run) -> Path:
    """Return the file in a run directory."""
    return run.path / FILE


def tapped(run: Run) -> TapRecord | None:
    """Return what the tap of a run wrote; None if the run is no tap. Raises `RunDirError` if it is not valid."""
    if not path_of(run).exists():
        return None
    try:
        return TapRecord.model_validate(read_json(path_of(run), "record of the tap"))
    except ValidationError as e:
        raise RunDirError(f"{path_of(run)} does not fit this version of Aftershock: {e.errors()[0]['msg']}") from None
