"""The wire form survives real brokers: text beyond ASCII in headers, properties, routing keys and bodies."""

import time
from uuid import uuid4

import pytest
from kombu import Connection, Exchange, Producer, Queue

from relay.wire import decode_wire, encode_wire
from tests.support import services
from uow.message import Message
from uow.ticks import UtcInstant

BROKERS = {
    "rabbitmq": services.RABBITMQ.require,
    "redis": services.REDIS.require,
    "memory": lambda: "memory://",
}
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def message(name: str, **fields: str) -> Message:
    """A message of this contract name, with an accented payload."""
    identity, instant = uuid4(), UtcInstant.now()
    payload = f'{{"id":"{identity}","occurred_at":"{instant}","customer":"Zo\xeb \U0001f600\u2028"}}'
    return Message(
        id=identity,
        contract_name=name,
        contract_version=2**31 - 1,
        occurred_at=instant,
        payload=payload,
        **fields,
    )


def carried(url: str, original: Message) -> Message:
    """Publish, take it from the queue again and decode."""
    wire = encode_wire(original)
    queue_name = f"wire.{uuid4().hex}"
    with Connection(url) as connection:
        channel = connection.channel()
        exchange = Exchange(f"{queue_name}.exchange", type="topic", durable=False, auto_delete=True)
        queue = Queue(queue_name, exchange, routing_key=wire.routing_key, durable=False, auto_delete=True)
        bound = queue(channel)
        bound.declare()
        try:
            Producer(channel).publish(
                wire.body,
                exchange=exchange,
                routing_key=wire.routing_key,
                headers=dict(wire.headers),
                **wire.properties,
            )
            deadline = time.monotonic() + 10
            while (found := bound.get(no_ack=True)) is None:
                assert time.monotonic() < deadline, "the message did not arrive"
        finally:
            bound.delete()
        # py-amqp decodes a body by its content encoding unless it is told not to.
        body = found.body.encode() if isinstance(found.body, str) else found.body
        assert body == wire.body
        return decode_wire(body, found.content_type, found.headers, found.properties)


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize(
    "name", ["orders.placed", "Bestellung bezahlt", "\u6ce8\u6587.\xe9", "\U0001f600" * 60, "a..b", " a "]
)
def test_a_message_comes_back_as_it_went(broker: str, name: str) -> None:
    original = message(
        name, correlation_id="Zo\xeb-\U0001f600", traceparent=TRACEPARENT, tracestate="vendor=\xfc"
    )
    assert carried(BROKERS[broker](), original) == original


@pytest.mark.parametrize("broker", BROKERS)
def test_what_is_absent_stays_absent(broker: str) -> None:
    original = message("orders.placed")
    assert carried(BROKERS[broker](), original) == original


@pytest.mark.parametrize("broker", BROKERS)
def test_the_longest_texts_pass(broker: str) -> None:
    original = message(
        "\u20ac" * 80 + "ab",
        correlation_id="\u20ac" * 85,
        traceparent="a" * 128,
        tracestate="\U0001f600" * 256,
    )
    assert len(original.routing_key.encode()) == 254
    assert carried(BROKERS[broker](), original) == original
