"""What each kombu transport can promise, and how it has to be driven."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from relay.broker import BrokerFeatures


class Drive(StrEnum):
    """How a transport is driven."""

    AMQP = "amqp"
    """py-amqp: confirms, returns, a socket to wait on."""
    EVENTED = "evented"
    """Emulated by kombu over a socket that its event loop can wait on."""
    POLLED = "polled"
    """Emulated by kombu without anything to wait on; looked at in short intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportTraits:
    """One transport: its promises, its drive, and whether all its processes see the same bindings."""

    features: BrokerFeatures
    drive: Drive
    shared_bindings: bool


def _emulated(
    drive: Drive, *, confirms: bool, kill: bool, restart: bool, shared: bool = True
) -> TransportTraits:
    features = BrokerFeatures(
        confirms=confirms, mandatory=False, survives_kill=kill, survives_restart=restart, dead_queue=False
    )
    return TransportTraits(features=features, drive=drive, shared_bindings=shared)


_AMQP: Final = TransportTraits(
    features=BrokerFeatures(
        confirms=True, mandatory=True, survives_kill=True, survives_restart=True, dead_queue=True
    ),
    drive=Drive.AMQP,
    shared_bindings=True,
)
_REDIS: Final = _emulated(Drive.EVENTED, confirms=True, kill=True, restart=True)
_SQL: Final = _emulated(Drive.POLLED, confirms=True, kill=False, restart=True, shared=False)
_UNTESTED: Final = _emulated(Drive.POLLED, confirms=False, kill=False, restart=False, shared=False)

AMQP_SCHEMES: Final = ("amqp", "amqps", "pyamqp")
REDIS_SCHEMES: Final = ("redis", "rediss", "sentinel")
SQL_SCHEMES: Final = ("sqla", "sqlalchemy")

_TRAITS: Final = {
    **dict.fromkeys(AMQP_SCHEMES, _AMQP),
    **dict.fromkeys(REDIS_SCHEMES, _REDIS),
    **dict.fromkeys(SQL_SCHEMES, _SQL),
    "memory": _emulated(Drive.POLLED, confirms=False, kill=False, restart=False),
    "filesystem": _emulated(Drive.POLLED, confirms=False, kill=False, restart=True),
}


def traits_of(scheme: str) -> TransportTraits:
    """The traits of a transport; one that was never tested promises nothing.

    Redis keeps what a killed process held in its hash of unacknowledged messages, from where it comes
    back after the acknowledgement timeout; the instant between taking a message off the list and noting it
    there is not covered, and what a restart of Redis loses is decided by its own persistence (AOF).
    kombu's filesystem and SQLAlchemy transports lose what a killed process had taken; memory loses all.
    """
    return _TRAITS.get(scheme, _UNTESTED)
