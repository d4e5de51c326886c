"""sarama as a client library: any supported release, compiled into one program at first use."""

from __future__ import annotations

from pathlib import Path

from chaos.clients.golang.programs import GoPrograms
from chaos.clients.sarama.traits import COOPERATIVE_SINCE, NAMES, NEWEST, TRAITS
from chaos.clients.traits import ERROR_CODES

GO = GoPrograms(
    TRAITS,
    module="github.com/IBM/sarama",
    sources=Path(__file__).with_name("src"),
    names=NAMES,
    errors=ERROR_CODES,
    more_modules=("github.com/xdg-go/scram@v1.1.2",),
    tags={"cooperative": COOPERATIVE_SINCE},
)
RUNTIME = GO.runtime(NEWEST)
