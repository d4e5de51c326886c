"""The settings of nodes on the way from ZooKeeper to KRaft. Pure functions over the text of `server.properties`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chaos.cluster.endpoints import LISTENER
from chaos.cluster.migration import Mode
from chaos.cluster.settings import line_of, properties
from chaos.kafka.settings import Scalar, as_text

CONNECT, ENABLED = "zookeeper.connect", "zookeeper.metadata.migration.enable"
PROTOCOL = "inter.broker.protocol.version"
_PROTOCOLS, _INTER_BROKER = "listener.security.protocol.map", "inter.broker.listener.name"
_SESSIONS = ("zookeeper.session.timeout.ms", "zookeeper.connection.timeout.ms")
_OF_ZOOKEEPER = ("zookeeper.",)


def of_broker(zookeeper_mode: str, mode: Mode, broker: int, kafka: str, quorum: Mapping[str, Scalar]) -> str:
    """Return the text of the settings of a broker in a mode.

    zookeeper_mode: the text as it was before the migration. quorum: the settings with which it finds the controllers.
    """
    if mode == "zookeeper":
        return zookeeper_mode
    joined = {**quorum, _PROTOCOLS: f"{value_of(zookeeper_mode, _PROTOCOLS)},{LISTENER}:PLAINTEXT"}
    if mode == "migration":
        release = ".".join(map(str, line_of(kafka)))
        return edited(zookeeper_mode, (), {**joined, PROTOCOL: release, ENABLED: True})
    gone = ("broker.id", PROTOCOL, "control.plane.listener.name", *_OF_ZOOKEEPER)
    return edited(zookeeper_mode, gone, {"process.roles": "broker", "node.id": broker, **joined})


def of_controller(settings: Mapping[str, str], zookeeper: str, broker: str) -> dict[str, str]:
    """Return the settings of a controller in migration mode, given those of a KRaft controller.

    zookeeper: its address. broker: the text of the settings of a broker. The controller sends requests to brokers that
    are in ZooKeeper mode, so it knows their listener.
    """
    kept = {key: value for key, value in settings.items() if key != PROTOCOL}
    of_broker = {key: value_of(broker, key) for key in (_INTER_BROKER, *_SESSIONS)}
    protocols = f"{value_of(broker, _PROTOCOLS)},{kept[_PROTOCOLS]}"
    return {**kept, **of_broker, _PROTOCOLS: protocols, CONNECT: zookeeper, ENABLED: "true"}


def after_migration(controller: str) -> str:
    """Return the text of the settings of a controller without those of ZooKeeper and of the migration."""
    return edited(controller, _OF_ZOOKEEPER, {})


def value_of(text: str, key: str) -> str:
    """Return the last value of a setting in a properties file that Aftershock wrote; empty if there is none.

    The value has only escapes of single ASCII characters.
    """
    return next((value.replace("\\", "") for k, value in map(_pair, reversed(text.splitlines())) if k == key), "")


def edited(text: str, gone: Collection[str], settings: Mapping[str, Scalar]) -> str:
    """Return a properties file with settings, and without others: keys, or prefixes of keys that end with a dot."""
    prefixes = tuple(key for key in gone if key.endswith("."))
    removed = {*gone, *settings}
    kept = [line for line in text.splitlines() if not ((k := _pair(line)[0]) in removed or k.startswith(prefixes))]
    return "".join(f"{line}\n" for line in kept) + properties({k: as_text(v) for k, v in settings.items()})


def _pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key, value
