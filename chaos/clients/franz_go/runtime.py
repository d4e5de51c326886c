"""franz-go as a client library: any supported release, compiled into one program at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.franz_go.traits import NAMES, NEWEST, SERVER_SIDE_SINCE, TRAITS
from chaos.clients.golang.programs import GoPrograms
from chaos.clients.traits import ERROR_CODES

GO = GoPrograms(
    TRAITS,
    module="github.com/twmb/franz-go",
    sources=Path(__file__).with_name("src"),
    names=NAMES,
    errors=ERROR_CODES,
    tags={"serverside": SERVER_SIDE_SINCE},
)
RUNTIME = GO.runtime(NEWEST)
