"""Facts of a consumer: when it commits, where it starts, what it reads."""

from __future__ import annotations

from chaos.promise.client_settings import ClientPart, common_settings, is_on
from chaos.promise.names import LABELS
from chaos.promise.problems import Problems
from chaos.promise.settings import Facts, Setting, Settings, setting
from chaos.setup.runtimes.java import NEWEST
from chaos.setup.runtimes.traits import number

AUTO_STORED, AUTO_POLLED = "auto_stored", "auto_polled"
"""Commits of the library that run ahead of processing (librdkafka), or behind it (Java)."""
NO_COMMITS, MARKS, GREEDY = "DisableAutoCommit", "AutoCommitMarks", "GreedyAutoCommit"
"""The options of franz-go about automatic commits. Without any, it commits what earlier polls have returned."""


def consumer_facts(part: ClientPart, problems: Problems) -> Facts:
    """Return the facts of a consumer. Contradictions are added to `problems`."""
    found = common_settings(part, problems)
    if part.client.runtime == "franz-go":
        found["enable.auto.commit"] = _franz_go_commits(part)
    _check_protocol(part, found, problems)
    found["client"] = Setting("client", part.client.runtime, part.why or "given")
    if (commit := _commit(part, found, problems)) is not None:
        found["commit"] = commit
    return {f"consumer.{name}": fact for name, fact in found.items()}


def _check_protocol(part: ClientPart, found: Settings, problems: Problems) -> None:
    """Refuse a session of the classic protocol with `group.protocol=consumer`, where the client does not start."""
    protocol, session = found.get("group.protocol"), found.get("session.timeout.ms")
    runtime = part.client.runtime
    checked = runtime == "confluent" or (runtime == "java" and number(part.release or NEWEST) >= (4, 0, 0))
    if checked and protocol is not None and protocol.value == "consumer" and session is not None and session.given:
        problems.refused.append(
            f"{session.origin}: {session.name}={session.value} contradicts group.protocol=consumer "
            f"({protocol.origin}): {part.library} does not start; the brokers' group.consumer.session.timeout.ms counts"
        )


def _commit(part: ClientPart, found: Settings, problems: Problems) -> Setting | None:
    """Return when offsets are committed; None if the settings do not say it."""
    runtime, given = part.client.runtime, part.commit
    if runtime in ("flink", "flink-legacy", "spark"):
        if given is not None and given.value not in ("on_checkpoint", "never"):
            problems.refused.append(
                f"{given.origin}: {LABELS[runtime]} has its positions in checkpoints, so it does not commit "
                f"{given.value}; write on_checkpoint, or leave commit out"
            )
        return Setting("commit", "on_checkpoint", f"what {LABELS[runtime]} does", given=False)
    automatic = found.get("enable.auto.commit")
    if automatic is None or automatic.value != "true":
        return given
    if given is not None and given.value in ("in_transaction", "never", "on_checkpoint"):
        problems.refused.append(
            f"{given.origin}: commit is {given.value}, and {automatic.name} is true ({automatic.origin}): the client "
            "commits offsets too; set it to false"
        )
        return None
    if runtime == "sarama" or _is_option(part, MARKS):
        return given  # it commits what the application has marked
    if _is_option(part, GREEDY):
        return part.settings[GREEDY].meaning(AUTO_STORED)
    return _automatic(runtime, found, automatic, given, problems)


def _franz_go_commits(part: ClientPart) -> Setting:
    """Return whether franz-go commits by itself: an option switches it off, and none switches it on."""
    if _is_option(part, NO_COMMITS):
        return part.settings[NO_COMMITS].meaning("false")
    chosen = next((part.settings[name] for name in (MARKS, GREEDY) if _is_option(part, name)), None)
    return (
        chosen.meaning("true") if chosen else setting("enable.auto.commit", True, f"default of {part.library}", False)
    )


def _is_option(part: ClientPart, name: str) -> bool:
    """Return whether an option of franz-go is given as true; other libraries do not read it."""
    given = part.settings.get(name)
    return part.client.runtime == "franz-go" and given is not None and given.value.lower() == "true"


def _automatic(
    runtime: str, found: Settings, automatic: Setting, given: Setting | None, problems: Problems
) -> Setting | None:
    """Return when the automatic commits of Java or librdkafka take place."""
    if runtime == "confluent" and not is_on(found, "enable.auto.offset.store"):
        return given  # it commits what the application has stored
    how = AUTO_STORED if runtime == "confluent" else AUTO_POLLED
    if given is not None and given.value == "before_processing" and how == AUTO_POLLED:
        return given
    if given is not None and given.value == "after_processing" and how == AUTO_STORED:
        store = found["enable.auto.offset.store"]
        problems.notes.append(
            f"{given.origin}: commit is {given.value}, but enable.auto.commit and {store.name} are true "
            f"({automatic.origin}, {store.origin}): librdkafka also commits records that are not processed"
        )
    return automatic.meaning(how)
