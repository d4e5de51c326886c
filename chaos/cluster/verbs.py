"""The commands by which the brokers of a cluster that exists are killed, stopped, paused and brought back."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from chaos.units import Duration

PLACES = ("broker", "host", "port")
PLACE = re.compile(r"(?<!\$)\{([A-Za-z_]+)\}")
"""What stands for something in a command; ${name} is the shell's."""

CAPABILITY_NEEDS = {
    "kill": frozenset({"kill"}),
    "stop": frozenset({"stop"}),
    "start": frozenset({"start"}),
    "pause": frozenset({"pause", "resume"}),
}
"""By capability of a driver, the commands that it takes."""


def _check_places(command: str) -> str:
    if not command.strip():
        raise ValueError("the command is empty")
    for name in PLACE.findall(command):
        if name not in PLACES:
            known = ", ".join(f"{{{place}}}" for place in PLACES)
            raise ValueError(f"{{{name}}} stands for nothing; known are {known}")
    return command


Command = Annotated[str, AfterValidator(_check_places)]


class Verbs(BaseModel):
    """Commands for /bin/sh, run where Aftershock runs. {broker}, {host} and {port} stand for those of the target."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kill: Command | None = Field(None, description="ends a broker at once, as by SIGKILL")
    stop: Command | None = Field(None, description="asks a broker to shut down")
    start: Command | None = Field(None, description="starts a broker that was killed or stopped, with its data")
    pause: Command | None = Field(None, description="stops a broker's execution, as by SIGSTOP")
    resume: Command | None = Field(None, description="lets a paused broker go on")
    timeout: Duration = Field(60.0, gt=0, description="for each command, and again for what it is to bring about")

    def given(self) -> dict[str, str]:
        """The commands by verb."""
        return {verb: text for verb in ("kill", "stop", "start", "pause", "resume") if (text := getattr(self, verb))}
