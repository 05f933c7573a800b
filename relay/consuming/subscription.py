"""From consumers and contracts to what the broker, or the inbox, has to bind."""

from collections.abc import Iterable, Sequence

from inbox.handlers import Consumer
from relay.broker import ConsumerBinding
from uow.contracts import Contracts
from uow.errors import FixTheCodeError
from uow.message import routing_key
from uow.suggestion import did_you_mean


class UnknownConsumerError(FixTheCodeError):
    """The App has no consumer of this name; names compare by code point."""


def check_consumer(name: str, known: Iterable[str]) -> None:
    """Raises UnknownConsumerError, with the closest name, unless `name` is one of the known ones."""
    names = tuple(known)
    if name not in names:
        raise UnknownConsumerError(f"this App has no consumer {name!r}{did_you_mean(name, names)}")


def bindings_of(consumers: Sequence[Consumer], contracts: Contracts) -> list[ConsumerBinding]:
    """One binding for each consumer: every version whose payload becomes an event class that it handles."""
    return [
        ConsumerBinding(consumer=consumer.name, routing_keys=_routing_keys(consumer, contracts))
        for consumer in consumers
    ]


def _routing_keys(consumer: Consumer, contracts: Contracts) -> frozenset[str]:
    return frozenset(
        routing_key(contracts.contract_of(event_type).name, version)
        for event_type in consumer.event_types
        for version in contracts.source_versions(event_type)
    )
