"""From a URL to a broker of the right kind."""

from kombu.transport import get_transport_cls, virtual

from relay.broker import Broker, BrokerAddressError
from relay.kombu_broker.address import parse_address
from relay.kombu_broker.amqp_driver import AmqpDriver
from relay.kombu_broker.broker import KombuBroker
from relay.kombu_broker.connection import Connector
from relay.kombu_broker.options import BrokerOptions
from relay.kombu_broker.traits import REDIS_SCHEMES, Drive
from relay.kombu_broker.virtual_driver import VirtualDriver


def open_kombu_broker(url: str, options: BrokerOptions) -> Broker:
    """The broker at `url`; see `relay.kombu_broker.open_broker`."""
    connector = Connector(parse_address(url), options)
    if connector.traits.drive is Drive.AMQP:
        return KombuBroker(connector, AmqpDriver(connector))
    _check_emulated(connector.address.scheme)
    return KombuBroker(connector, VirtualDriver(connector))


def _check_emulated(scheme: str) -> None:
    try:
        transport = get_transport_cls(scheme)
    except (ImportError, AttributeError) as error:
        # without redis, kombu's module for it breaks where it derives from a class of redis
        missing = "redis" if scheme in REDIS_SCHEMES else str(error.name or error).partition(".")[0]
        extra = "; install selfmanaged[redis]" if missing == "redis" else ""
        raise BrokerAddressError(
            f"the {scheme} transport needs the Python package {missing!r}, which is not installed{extra}"
        ) from None
    if transport is None or not issubclass(transport, virtual.Transport):
        raise BrokerAddressError(f"the {scheme} transport cannot be driven; use amqp:// or redis://")
