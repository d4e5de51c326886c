"""What the runtimes `sarama` and `franz-go` share: abilities that clients in Go lack, and their automatic commits."""

from __future__ import annotations

from chaos.clients.traits import Ability

LACKS: dict[Ability, str] = {
    "wrong clock": "Go asks the kernel for the time and not the C library, so no library can change it",
    "encrypted keys": "Go does not read encrypted private keys; give the key without key_password",
}
"""Why neither can do something."""
AUTO_COMMITS = frozenset({"before_processing", "after_batch", "after_record"})
"""Values of `commit.when` with which `kind: auto` goes."""
