"""The sources of the clients in Go: two folders that make one package."""

from __future__ import annotations

import re

import pytest

from chaos.clients.franz_go import traits as franz_go
from chaos.clients.franz_go.runtime import GO as FRANZ_GO
from chaos.clients.golang.programs import SHARED, GoPrograms
from chaos.clients.sarama.runtime import GO as SARAMA


@pytest.mark.parametrize("programs", [SARAMA, FRANZ_GO], ids=lambda p: p.traits.name)
def test_no_file_of_a_library_replaces_a_shared_one(programs: GoPrograms) -> None:
    own, shared = ({path.name for path in folder.glob("*.go")} for folder in (programs.sources, SHARED))
    assert "library.go" in own and "main.go" in shared
    assert not own & shared


def test_each_setting_of_franz_go_with_a_common_name_is_an_option_that_its_programs_make() -> None:
    source = (FRANZ_GO.sources / "settings.go").read_text(encoding="utf-8")
    options = set(re.findall(r'^\t"([A-Z]\w+)":', source, re.MULTILINE))
    assert options >= {*franz_go.NAMES, *filter(str.isalpha, franz_go.MISNAMED.values())}
    assert not options & franz_go.RESERVED
