"""The user's commands that kill, stop, pause and restore the brokers of an existing cluster."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from chaos.units import Duration

PLACEHOLDERS = ("broker", "host", "port")
PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_]+)\}")
"""A placeholder in a command; ${name} belongs to the shell."""

CAPABILITY_NEEDS = {
    "kill": frozenset({"kill"}),
    "stop": frozenset({"stop"}),
    "start": frozenset({"start"}),
    "pause": frozenset({"pause", "resume"}),
}
"""The commands that each capability of a driver needs."""


def _check_placeholders(command: str) -> str:
    if not command.strip():
        raise ValueError("the command is empty")
    for name in PLACEHOLDER.findall(command):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
            raise ValueError(f"{{{name}}} is no placeholder; known are {known}")
    return command


Command = Annotated[str, AfterValidator(_check_placeholders)]


class Verbs(BaseModel):
    """Commands for /bin/sh on the machine of Aftershock. {broker}, {host} and {port} are replaced by the target's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kill: Command | None = Field(None, description="ends a broker at once, as SIGKILL does")
    stop: Command | None = Field(None, description="requests a controlled shutdown of a broker")
    start: Command | None = Field(None, description="starts a broker that was killed or stopped, with its data")
    pause: Command | None = Field(None, description="suspends a broker, as SIGSTOP does")
    resume: Command | None = Field(None, description="resumes a paused broker")
    timeout: Duration = Field(60.0, gt=0, description="for each command, and again for its effect on the broker")

    def commands(self) -> dict[str, str]:
        """Return the commands that are set, by verb."""
        return {verb: text for verb in ("kill", "stop", "start", "pause", "resume") if (text := getattr(self, verb))}
