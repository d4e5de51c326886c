"""Facts of a producer: what its client really uses.

Clients change settings by themselves. What they refuse and what they switch off was tried with Java's ProducerConfig of
2.8.2, 3.0.0, 3.0.1, 3.9.2 and 4.3.1, and with librdkafka 2.16.0, and read in sarama's `Config.Validate`.
"""

from __future__ import annotations

from chaos.kafka.settings import Scalar
from chaos.promise.client_settings import ClientPart, common_settings, is_given, is_on
from chaos.promise.problems import Problems
from chaos.promise.settings import Facts, Setting, Settings, setting
from chaos.setup.runtimes.java import NEWEST
from chaos.setup.runtimes.traits import number

IN_FLIGHT = "max.in.flight.requests.per.connection"
MOST_IN_FLIGHT = 5
UNLIMITED = 2**31 - 1
"""The default of retries in Java and librdkafka."""
FOREVER = 2**63 - 1
_KEYED = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")


def producer_facts(part: ClientPart, problems: Problems) -> Facts:
    """Return the facts of a producer. What its client refuses is added to `problems`."""
    found = common_settings(part, problems)
    runtime = part.client.runtime
    if {"acks", "enable.idempotence", "retries", IN_FLIGHT} <= found.keys():
        _idempotence(part, found, problems)
    if runtime == "java":
        _delivery_timeout(part, found, problems)
    found["client"] = Setting("client", runtime, part.why or "given")
    transactional = found.pop("transactional.id", None)
    found["transactional"] = (
        transactional.meaning("true")
        if transactional is not None and transactional.value
        else Setting("transactional.id", "false", "not set", given=False)
    )
    found["keyed"] = _keyed(runtime, found)
    if (window := _retry_window(runtime, found)) is not None:
        found["retry.window.ms"] = window
    return {f"producer.{name}": fact for name, fact in found.items()}


def _idempotence(part: ClientPart, found: Settings, problems: Problems) -> None:
    """Apply what the client makes of enable.idempotence together with acks, retries and requests in flight."""
    transactional = is_given(found, "transactional.id") and found["transactional.id"].value != ""
    most = 1 if part.client.runtime == "sarama" else MOST_IN_FLIGHT
    too_many = int(found[IN_FLIGHT].value) > most
    conflicts = {
        "acks": found["acks"].value != "all",
        "retries": int(found["retries"].value) < 1,
        IN_FLIGHT: too_many,
    }
    wanted = is_given(found, "enable.idempotence", ("true",)) or transactional
    if transactional and is_given(found, "enable.idempotence", ("false",)):
        _refuse(part, problems, found["transactional.id"], found["enable.idempotence"], "remove enable.idempotence")
        return
    if not wanted and not is_on(found, "enable.idempotence"):
        return
    given = [name for name, conflict in conflicts.items() if conflict and found[name].given]
    cause = found["transactional.id"] if transactional else found["enable.idempotence"]
    if part.client.runtime == "sarama":
        given = [name for name, conflict in conflicts.items() if conflict]  # it adjusts nothing
    if part.client.runtime == "java" and IN_FLIGHT in given and number(part.release or NEWEST) >= (4, 0, 0):
        given = [IN_FLIGHT]  # from 4.0 on, an error even where another setting switches idempotence off
        wanted = True
    for name in given:
        if wanted:
            _refuse(part, problems, cause, found[name], f"idempotence needs {_needed(name, most)}")
        else:
            origin = f"{part.library} switches it off, because {found[name].name} is {found[name].shown}"
            where = found[name].origin
            found["enable.idempotence"] = setting("enable.idempotence", False, f"{origin} ({where})", given=False)
            problems.notes.append(f"{where}: {origin}; no error is reported")
            return
    _adjust(part, found, cause)


def _delivery_timeout(part: ClientPart, found: Settings, problems: Problems) -> None:
    """Apply Java's check that delivery.timeout.ms leaves time for linger.ms and request.timeout.ms."""
    names = ("delivery.timeout.ms", "linger.ms", "request.timeout.ms")
    if not set(names) <= found.keys():
        return
    timeout, linger, request = (found[name] for name in names)
    least = int(linger.value) + int(request.value)
    if int(timeout.value) >= least:
        return
    if timeout.given:
        problems.refused.append(
            f"{timeout.origin}: {timeout.name}={timeout.shown} is below linger.ms={linger.shown} ({linger.origin}) "
            f"plus request.timeout.ms={request.shown} ({request.origin}): {part.library} does not start"
        )
    else:
        found[timeout.name] = setting(timeout.name, least, f"set by {part.library}, because of {request.origin}", False)


def _adjust(part: ClientPart, found: Settings, cause: Setting) -> None:
    """Set what an idempotent client uses where the user says nothing."""
    adjusted: dict[str, Scalar] = {"enable.idempotence": True, "acks": "all"}
    if int(found[IN_FLIGHT].value) > MOST_IN_FLIGHT:
        adjusted[IN_FLIGHT] = MOST_IN_FLIGHT
    for name, value in adjusted.items():
        if not found[name].given and found[name].value != setting(name, value, "").value:
            found[name] = setting(
                name, value, f"set by {part.library}, because of {cause.name} ({cause.origin})", False
            )


def _needed(name: str, most: int) -> str:
    return {"acks": "acks=all", "retries": "retries above 0"}.get(name, f"at most {most} requests in flight")


def _refuse(part: ClientPart, problems: Problems, one: Setting, other: Setting, advice: str) -> None:
    problems.refused.append(
        f"{other.origin}: {other.name}={other.shown} contradicts {one.name} ({one.origin}): {part.library} does not "
        f"start; {advice}"
    )


def _keyed(runtime: str, found: Settings) -> Setting:
    """Return whether records with one key go to one partition: true, false, or `own` for a class of the application."""
    if runtime == "java":
        ignores, own = found["partitioner.ignore.keys"], found["partitioner.class"]
        if own.value.endswith("RoundRobinPartitioner"):
            return own.meaning("false")
        if own.value:
            return own.meaning("own")
        return ignores.meaning("false" if ignores.value == "true" else "true")
    if runtime == "sarama":
        own = found["Producer.Partitioner"]
        hashes = "hash" in own.value.lower() or "consistent" in own.value.lower()
        return own.meaning("true" if hashes else "false")
    own = found["partitioner"]
    return own.meaning("true" if own.value in _KEYED else "false")


def _pauses_ms(retries: int, first: int, most: int | None) -> int:
    """Return how long the pauses between retries last at least, in ms.

    most: the longest one, of releases with KIP-580, where each pause is twice as long as the one before, less at most
    20% by chance; None of releases where all are as long as the first.
    """
    if most is None or most <= first:
        return retries * (first if most is None else most)
    growing = [first * 2**n for n in range(min(retries, 64)) if first * 2**n < most]
    return int((sum(growing) + (retries - len(growing)) * most) * 0.8)


def _retry_window(runtime: str, found: Settings) -> Setting | None:
    """Return how long the client at least tries to send a record before it reports a failure, in ms.

    A refusal comes back at once, so a limit of retries counts with their shortest pauses.
    """
    retries, backoff, timeout = (found.get(name) for name in ("retries", "retry.backoff.ms", "delivery.timeout.ms"))
    if retries is None or backoff is None:
        return None
    most = found.get("retry.backoff.max.ms")
    by_retries = _pauses_ms(int(retries.value), int(backoff.value), int(most.value) if most else None)
    if timeout is None:  # sarama has none
        return retries.meaning(str(by_retries))
    within = FOREVER if runtime == "confluent" and timeout.value == "0" else int(timeout.value)
    unlimited = int(retries.value) == UNLIMITED
    return timeout.meaning(str(within)) if unlimited or within <= by_retries else retries.meaning(str(by_retries))
