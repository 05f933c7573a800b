"""Brokers through kombu: the one place that imports kombu and py-amqp, and only once a broker is opened."""

from relay.broker import Broker
from relay.kombu_broker.options import BrokerOptions, TlsOptions

__all__ = ["BrokerOptions", "TlsOptions", "open_broker"]


def open_broker(url: str, options: BrokerOptions | None = None) -> Broker:
    """The broker at a kombu URL: `amqp://user:password@host:5672/virtual-host`, `redis://host:6379/0` ...

    No I/O; the first connection is made by the first use. Raises BrokerAddressError for a URL that is
    malformed, names an unknown transport, or one whose driver is not installed; its text shows no secrets.
    """
    from relay.kombu_broker.opening import open_kombu_broker  # noqa: PLC0415 - loads kombu

    return open_kombu_broker(url, options or BrokerOptions())
