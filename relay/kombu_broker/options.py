"""Options of brokers behind kombu."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from uow.backoff import Backoff
from uow.option_rule import require_seconds, require_whole_number

_LONGEST_EXCHANGE_BYTES: Final = 250
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """TLS for `amqps://` and `rediss://`; the certificate and host name of the server are checked.

    ca_file: certificates to trust instead of the system's. certificate_file, key_file: who we are.
    verify: False accepts any server, which is for a test bench only.
    """

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if self.key_file is not None and self.certificate_file is None:
            raise ValueError("certificate_file must be given with key_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """How a broker is named, waited for and given up on. Raises ValueError naming option, value and rule.

    exchange: name of the topic exchange; `{exchange}.dead` takes what is dead-lettered.
    queue_prefix: a consumer's queue is `{queue_prefix}.{consumer}`.
    quorum_queues: declare replicated quorum queues (RabbitMQ).
    confirm_timeout_seconds: a batch that is not confirmed by then is UNKNOWN or UNSENT.
    connect_timeout_seconds: for a connection, and for each question to the broker.
    heartbeat_seconds: a silent peer is given up after twice this (RabbitMQ; Redis asks as often).
    acknowledgement_timeout_seconds: how long a delivery may stay unsettled before the broker gives it to
    someone else. Redis obeys it (visibility timeout); RabbitMQ has `consumer_timeout` in its own
    configuration, which should say the same.
    close_timeout_seconds: the most that closing may take before the connection is cut.
    unconfirmed_limit: messages in flight without a confirm.
    poll_interval_seconds: pause between looks into an empty queue on transports without an event loop.
    reconnect: pauses between attempts to reach a broker that is away.
    global_keyprefix: put before every key in Redis, for a Redis that several applications share.
    transport_options: passed on to kombu as they are; they win over ours.
    """

    exchange: str = "selfmanaged"
    queue_prefix: str = "selfmanaged"
    quorum_queues: bool = False
    confirm_timeout_seconds: float = 15.0
    connect_timeout_seconds: float = 5.0
    heartbeat_seconds: float = 10.0
    acknowledgement_timeout_seconds: float = 1800.0
    close_timeout_seconds: float = 10.0
    unconfirmed_limit: int = 500
    poll_interval_seconds: float = 0.05
    reconnect: Backoff = field(
        default_factory=lambda: Backoff(initial_seconds=0.2, maximum_seconds=5.0, jitter=0.2)
    )
    global_keyprefix: str = ""
    tls: TlsOptions = field(default_factory=TlsOptions)
    transport_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in (
            "confirm_timeout_seconds",
            "connect_timeout_seconds",
            "acknowledgement_timeout_seconds",
            "close_timeout_seconds",
            "poll_interval_seconds",
        ):
            require_seconds(name, getattr(self, name))
        require_seconds("heartbeat_seconds", self.heartbeat_seconds, least=1)
        require_whole_number("unconfirmed_limit", self.unconfirmed_limit, least=1, most=10_000)
        if _NAME.fullmatch(self.exchange) is None or len(self.exchange) > _LONGEST_EXCHANGE_BYTES:
            raise ValueError(
                f"exchange must be 1 to {_LONGEST_EXCHANGE_BYTES} letters, digits, '.', '_' or '-', "
                f"not {self.exchange!r}"
            )
        if not self.queue_prefix or self.queue_prefix.isspace():
            raise ValueError(f"queue_prefix must not be blank, not {self.queue_prefix!r}")
