"""The broker settings of a secured cluster. Paths are relative to the working directory of a node."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.kafka.security import OAUTHBEARER, ClusterSecurity, SecurityFields
from chaos.kafka.settings import Scalar

FOLDER = "secrets"
"""The folder with the secrets of a node, in its working directory."""
STORE, CA, LOGIN = f"{FOLDER}/node.pem", f"{FOLDER}/ca.pem", f"{FOLDER}/login.properties"
CLIENT_STORE = f"{FOLDER}/clients.pem"
"""The key store of the clients' listener, if a fault gave it another certificate than the other listeners have."""
TRUSTED = "trusted.pem"
"""The file with the authorities that the platform and the clients trust, in the folder of their credentials."""
NODE, PLATFORM, CLIENT = "aftershock-node", "aftershock", "client"
"""The names of the identities: common names of certificates, and user names."""
LISTENER = "listener.name.client"
"""The prefix of the settings of the clients' listener."""
PLATFORM_MECHANISM = "PLAIN"
ISSUER_KEY, TOKEN_LIFETIME = "issuer.key", "token.lifetime"
"""The files of the key of an issuer, and of the seconds for which a token is valid."""
TOKEN_KEYS = f"{FOLDER}/jwks.json"
"""The file of a node with the public keys of an issuer (JWKS), for brokers that do not reach it."""
TOKEN_KEYS_SETTING = "sasl.oauthbearer.jwks.endpoint.url"
AUDIENCE = "kafka"
"""The audience of tokens."""

_PEERS = ("PEERS", "CONTROLLER")
_FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_TOKENS = "org.apache.kafka.common.security.oauthbearer"
_VALIDATOR = f"{_TOKENS}.OAuthBearerValidatorCallbackHandler"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def listener_protocols(names: Iterable[str], security: ClusterSecurity) -> str:
    """Return the value of `listener.security.protocol.map` for listeners with these names."""
    between = "SSL" if security.secured else "PLAINTEXT"
    return ",".join(f"{name}:{between if name in _PEERS else security.protocol}" for name in names)


def security_settings(security: ClusterSecurity, clients: bool = True) -> dict[str, Scalar]:
    """Return the settings of a node; empty without security. clients: whether the node has the clients' listener."""
    if not security.secured:
        return {}
    settings: dict[str, Scalar] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": STORE,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": CA,
        **{f"listener.name.{name.lower()}.ssl.client.auth": "required" for name in _PEERS},
    }
    if security.acls:
        users = [user for name in (NODE, PLATFORM) for user in (certificate_user(name), f"User:{name}")]
        settings |= {"authorizer.class.name": _AUTHORIZER, "super.users": ";".join(users)}
    if not clients:
        return settings
    if security.client_certificates:
        settings[f"{LISTENER}.ssl.client.auth"] = "required"
    if security.sasl:
        mechanisms = dict.fromkeys([PLATFORM_MECHANISM, str(security.mechanism)])
        settings |= {
            f"{LISTENER}.sasl.enabled.mechanisms": ",".join(mechanisms),
            "config.providers": "file",
            "config.providers.file.class": _FILES,
            f"{LISTENER}.plain.sasl.jaas.config": f"${{file:{LOGIN}:plain}}",
        }
        for mechanism in mechanisms:
            if mechanism.startswith("SCRAM"):
                settings[f"{LISTENER}.{mechanism.lower()}.sasl.jaas.config"] = f"{_SCRAM} required;"
        if security.mechanism == OAUTHBEARER:
            settings |= _token_settings(security)
    return settings


def _token_settings(security: ClusterSecurity) -> dict[str, Scalar]:
    """Return the settings with which a broker checks tokens by the keys of their issuer (KIP-768)."""
    issuer = issuer_url(security)
    return {
        f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{_TOKENS}.OAuthBearerLoginModule required;",
        f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
        TOKEN_KEYS_SETTING: keys_url(security),
        "sasl.oauthbearer.expected.issuer": issuer,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def issuer_url(security: SecurityFields) -> str:
    """Return the address of the issuer that Aftershock started."""
    return str(security.token_endpoint).removesuffix("/token")


def keys_url(security: SecurityFields) -> str:
    """Return the address of the public keys of the issuer."""
    return f"{issuer_url(security)}/jwks"


def certificate_user(name: str) -> str:
    """Return the principal of a connection with a client certificate."""
    return f"User:CN={name}"


def client_principal(security: ClusterSecurity) -> str:
    """Return the principal of the clients of a run."""
    return f"User:{CLIENT}" if security.sasl else certificate_user(CLIENT)
