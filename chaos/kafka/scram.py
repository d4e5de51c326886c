"""SCRAM credentials in the metadata of a cluster (KIP-554)."""

from __future__ import annotations

import hashlib
import secrets

from kafka.protocol.admin import AlterUserScramCredentialsRequest

from chaos.kafka.admin import AdminRequest, any_broker
from chaos.kafka.client import Kafka
from chaos.kafka.messages import request

ITERATIONS = 4096
_MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}


def set_password(kafka: Kafka, user: str, mechanism: str, password: str) -> None:
    """Set the password of a user for new logins. Only its salted hash is sent. Raises `ClusterError`."""
    number, digest = _MECHANISMS[mechanism]
    salt = secrets.token_bytes(32)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS)
    fields = {
        "name": user,
        "mechanism": number,
        "iterations": ITERATIONS,
        "salt": salt,
        "salted_password": salted,
    }
    message = request(AlterUserScramCredentialsRequest[0], deletions=[], upsertions=[fields])
    AdminRequest(f"set the {mechanism} password of {user}", message, any_broker).apply(kafka)
