"""Removes the queues and exchanges of one run of the demo; a service in production keeps its own."""

from kombu import Connection

from relay.kombu_broker import BrokerOptions


def remove_queues(broker_url: str, options: BrokerOptions, consumers: list[str]) -> None:
    """Delete what `topology declare` made for these consumers."""
    with Connection(broker_url) as connection:
        channel = connection.default_channel
        for consumer in consumers:
            channel.queue_delete(f"{options.queue_prefix}.{consumer}")
            channel.queue_delete(f"{options.queue_prefix}.{consumer}.dead")
        for exchange in (options.exchange, f"{options.exchange}.dead"):
            channel.exchange_delete(exchange)
        if connection.transport.driver_type == "redis":  # bindings are keys of their own
            for key in channel.client.scan_iter(f"*{options.exchange}*"):
                channel.client.delete(key)
