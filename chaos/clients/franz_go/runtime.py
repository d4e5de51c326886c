"""franz-go as a client library: any supported release, compiled into one program at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.golang.programs import GoPrograms
from chaos.setup.runtimes.error_codes import ERROR_CODES
from chaos.setup.runtimes.franz_go import NAMES, NEWEST, SERVER_SIDE_SINCE, TRAITS

GO = GoPrograms(
    TRAITS,
    module="github.com/twmb/franz-go",
    sources=Path(__file__).with_name("src"),
    names=NAMES,
    errors=ERROR_CODES,
    tags={"serverside": SERVER_SIDE_SINCE},
)
RUNTIME = GO.runtime(NEWEST)
