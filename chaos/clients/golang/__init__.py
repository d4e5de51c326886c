"""What the clients in Go share: their sources, and how they are compiled.

`src` holds one part of a package in Go: the spec, orders and events, the ledger, the identity of a record, and what a
producer and a consumer do with any library. The folder `src` of a library holds the other part; `library.go` there has
what `main.go` asks of it. `programs` compiles both together against a release of the library, at first use.

`chaos.install.go` finds or installs the toolchain. The programs write the ledger as batch lines.
"""

from __future__ import annotations

from chaos.clients.traits import Ability

LACKS: dict[Ability, str] = {
    "wrong clock": "Go asks the kernel for the time and not the C library, so no library can change it",
    "encrypted keys": "Go does not read encrypted private keys; give the key without key_password",
}
"""Why neither can do something."""
AUTO_COMMITS = frozenset({"before_processing", "after_batch", "after_record"})
"""Values of `commit.when` with which `kind: auto` goes."""
