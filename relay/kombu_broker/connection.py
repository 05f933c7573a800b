"""Opening kombu connections: every wait bounded, every error without secrets."""

import contextlib
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kombu.connection import Connection

from relay.broker import BrokerUnavailableError
from relay.kombu_broker.address import BrokerAddress
from relay.kombu_broker.fault import FAULTS, describe_fault
from relay.kombu_broker.filesystem_transport import FilesystemTransport
from relay.kombu_broker.options import BrokerOptions, TlsOptions
from relay.kombu_broker.traits import AMQP_SCHEMES, REDIS_SCHEMES, Drive, traits_of

_RESTORE_INTERVAL_SECONDS: Final = 5


class Connector:
    """Opens connections to one broker. Building it does no I/O; it may be used from any thread.

    A connection that it opened belongs to the thread that opened it.
    """

    def __init__(self, address: BrokerAddress, options: BrokerOptions) -> None:
        self.address = address
        self.options = options
        self.traits = traits_of(address.scheme)

    def open(self, name: str) -> Connection:
        """A connected connection that shows itself to the broker as `name`.

        Tries each address of a failover list once. Raises BrokerUnavailableError.
        """
        problems: list[str] = []
        for url in self.address.kombu_urls:
            connection = self._prepared(url, name)
            try:
                connection.ensure_connection(max_retries=0, interval_start=0, interval_step=0, interval_max=0)
            except faults_of(connection) as error:
                problems.append(describe_fault(error))
                close_quietly(connection)
            else:
                return connection
        raise BrokerUnavailableError(
            f"cannot reach the broker at {self.address.display_url}: {'; '.join(problems)}"
        )

    def _prepared(self, url: str, name: str) -> Connection:
        scheme, options = self.address.scheme, self.options
        heartbeat = options.heartbeat_seconds if self.traits.drive is Drive.AMQP else 0
        extra: dict[str, Any] = {"heartbeat": heartbeat, "connect_timeout": options.connect_timeout_seconds}
        if scheme == "filesystem":
            extra["transport"] = FilesystemTransport
            for folder in ("data_folder_in", "processed_folder", "control_folder"):
                Path(self.address.transport_options[folder]).mkdir(parents=True, exist_ok=True)
        if scheme == "amqps":
            extra["ssl"] = _amqp_tls(options.tls)
        elif scheme == "rediss":
            extra["ssl"] = _redis_tls(options.tls)
        return Connection(
            url,
            transport_options={
                **self._own_options(name),
                **self.address.transport_options,
                **options.transport_options,
            },
            **extra,
        )

    def _own_options(self, name: str) -> Mapping[str, Any]:
        options = self.options
        if self.address.scheme in AMQP_SCHEMES:
            silence = min(options.confirm_timeout_seconds, 2 * options.heartbeat_seconds)
            return {
                "client_properties": {"connection_name": name, "product": "selfmanaged"},
                "socket_settings": _tcp_settings(silence),
            }
        if self.address.scheme in REDIS_SCHEMES:
            prefix = options.queue_prefix
            return {
                "global_keyprefix": options.global_keyprefix,
                "visibility_timeout": options.acknowledgement_timeout_seconds,
                "socket_timeout": options.connect_timeout_seconds,
                "socket_connect_timeout": options.connect_timeout_seconds,
                "socket_keepalive": True,
                "health_check_interval": options.heartbeat_seconds,
                # our own, so that another user of this database cannot restore our messages, nor we theirs
                "unacked_key": f"{prefix}.unacked",
                "unacked_index_key": f"{prefix}.unacked_index",
                "unacked_mutex_key": f"{prefix}.unacked_mutex",
                "unacked_restore_interval": _RESTORE_INTERVAL_SECONDS,
                "unacked_restore_throttle": 1,
                "priority_steps": [0],
            }
        if self.address.scheme in {"sqla", "sqlalchemy"}:
            return {"hide_parameters": True}  # statements in errors would show payloads
        return {}


def faults_of(connection: Connection) -> tuple[type[Exception], ...]:
    """Everything that means "the broker, not us": of py-amqp, kombu, sockets and the transport's driver."""
    return (*FAULTS, *connection.connection_errors, *connection.channel_errors)


def close_quietly(connection: Connection) -> None:
    """Close a connection that may be broken already; bounded by the timeouts of its socket."""
    with contextlib.suppress(*faults_of(connection), AttributeError, TypeError):
        connection.release()  # a torn py-amqp connection answers with the last two


def _tcp_settings(silence_seconds: float) -> dict[int, int]:
    settings: dict[int, int] = {}
    user_timeout = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux: how long sent bytes may go unanswered
    if user_timeout is not None:
        settings[user_timeout] = int(silence_seconds * 1000)
    return settings


def _amqp_tls(tls: TlsOptions) -> dict[str, Any]:
    return {
        "cert_reqs": ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE,
        "ca_certs": tls.ca_file,
        "certfile": tls.certificate_file,
        "keyfile": tls.key_file,
        # py-amqp checks the host name exactly when it is given one; kombu fills in the host of the URL
        **({"server_hostname": None} if tls.verify else {}),
    }


def _redis_tls(tls: TlsOptions) -> dict[str, Any]:
    return {
        "ssl_cert_reqs": "required" if tls.verify else "none",
        "ssl_check_hostname": tls.verify,
        "ssl_ca_certs": tls.ca_file,
        "ssl_certfile": tls.certificate_file,
        "ssl_keyfile": tls.key_file,
    }
