"""What RabbitMQ turns away, message by message, and never a neighbour with it."""

import pytest

from relay.broker import PublishResult, Verdict
from relay.kombu_broker import batch as batch_module
from relay.wire import WireMessage, encode_wire
from tests.support.brokers import BrokerGround, hex_ids, ids, make_message, publish, receive
from uow.message import Message

BAD = "orders.bad"


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> "Spoil":
    """Gives messages named `orders.bad` properties and headers that RabbitMQ cannot bear."""
    spoil = Spoil()
    monkeypatch.setattr(batch_module, "encode_wire", spoil.encode)
    return spoil


class Spoil:
    def __init__(self) -> None:
        self.properties: dict[str, object] = {}
        self.headers: dict[str, object] = {}
        self.routing_key = ""

    def encode(self, message: Message) -> WireMessage:
        wire = encode_wire(message)
        if message.contract_name != BAD:
            return wire
        return WireMessage(
            body=wire.body,
            properties=wire.properties | self.properties,
            headers=wire.headers | self.headers,
            routing_key=self.routing_key or wire.routing_key,
        )


def verdicts(results: list[PublishResult]) -> list[str]:
    return [result.error_code or result.verdict.value for result in results]


async def test_a_message_that_makes_the_broker_close_the_channel_is_refused_alone(
    rabbit: BrokerGround, spoil: Spoil
) -> None:
    binding = await rabbit.declare("billing", "orders.placed.v1", f"{BAD}.v1")
    spoil.properties = {"expiration": "tomorrow"}  # 406 PRECONDITION_FAILED
    batch = [make_message(BAD if position in {0, 7, 8, 29} else "orders.placed") for position in range(30)]
    publisher = await rabbit.broker.open_publisher()
    results = list(await publisher.publish(batch))
    for position, result in enumerate(results):
        if position in {0, 7, 8, 29}:
            assert (result.verdict, result.error_code) == (Verdict.REFUSED, "refused")
            assert result.detail is not None
            assert "invalid expiration" in result.detail
        else:
            assert result.verdict is Verdict.CONFIRMED
    subscription = await rabbit.broker.open_subscription(binding, prefetch=100)
    good = set(hex_ids([message for message in batch if message.contract_name != BAD]))
    received: set[str] = set()
    while received != good:
        received |= set(ids(await receive(subscription, 1)))
    await publish(publisher, make_message())


async def test_a_message_over_the_brokers_limit_is_refused_as_too_large(rabbit: BrokerGround) -> None:
    await rabbit.declare()
    limit = 134_217_728  # max_message_size, if nobody changed it
    huge = make_message(payload='"' + "x" * (limit - 1) + '"')
    publisher = await rabbit.broker.open_publisher()
    results = list(await publisher.publish([make_message(), huge, make_message()]))
    assert verdicts(results) == ["confirmed", "too_large", "confirmed"]
    assert results[1].verdict is Verdict.REFUSED


async def test_a_message_that_makes_the_broker_close_the_connection_is_found_and_refused(
    rabbit: BrokerGround, spoil: Spoil
) -> None:
    await rabbit.declare("billing", "orders.placed.v1", f"{BAD}.v1")
    spoil.headers = {"x-note": "y" * 200_000}  # headers must fit into one frame: 501 FRAME_ERROR
    batch = [make_message(), make_message(), make_message(BAD), make_message()]
    publisher = await rabbit.broker.open_publisher()
    results = list(await publisher.publish(batch))
    assert verdicts(results)[:3] == ["confirmed", "confirmed", "refused"]
    assert results[2].verdict is Verdict.REFUSED
    assert results[3].verdict in {Verdict.CONFIRMED, Verdict.UNSENT, Verdict.UNKNOWN}
    await publish(publisher, make_message())


async def test_what_cannot_be_encoded_is_refused_before_it_is_written(
    rabbit: BrokerGround, spoil: Spoil
) -> None:
    await rabbit.declare("billing", "orders.placed.v1", f"{BAD}.v1")
    publisher = await rabbit.broker.open_publisher()
    for spoil.headers, spoil.properties, spoil.routing_key in (
        ({"x-object": object()}, {}, ""),
        ({"x-number": 2**70}, {}, ""),
        ({}, {"correlation_id": "c" * 300}, ""),
        ({}, {}, "k" * 300),
    ):
        results = list(await publisher.publish([make_message(), make_message(BAD), make_message()]))
        assert verdicts(results) == ["confirmed", "refused", "confirmed"]
        assert results[1].verdict is Verdict.REFUSED


async def test_a_queue_that_is_full_turns_messages_away_for_now(rabbit: BrokerGround) -> None:
    arguments = {"x-max-length": 3, "x-overflow": "reject-publish"}

    def full_queue(channel: object) -> None:
        channel.exchange_declare(  # type: ignore[attr-defined]
            rabbit.options.exchange, "topic", durable=True, auto_delete=False
        )
        channel.queue_declare(  # type: ignore[attr-defined]
            rabbit.queue(), durable=True, auto_delete=False, arguments=arguments
        )
        channel.queue_bind(  # type: ignore[attr-defined]
            rabbit.queue(), rabbit.options.exchange, "orders.placed.v1"
        )

    binding = rabbit.binding()
    await rabbit.administer(full_queue)
    publisher = await rabbit.broker.open_publisher()
    await publish(publisher, *[make_message() for _ in range(3)])
    results = list(await publisher.publish([make_message(), make_message()]))
    assert [(result.verdict, result.error_code) for result in results] == [(Verdict.RETRY, "nack")] * 2
    subscription = await rabbit.broker.open_subscription(binding, prefetch=10)
    assert len(await receive(subscription, 3)) == 3


async def test_the_exchange_going_missing_refuses_nothing(rabbit: BrokerGround) -> None:
    await rabbit.declare()
    publisher = await rabbit.broker.open_publisher()
    await publish(publisher, make_message())
    await rabbit.delete_exchange()
    results = await publisher.publish([make_message() for _ in range(5)])
    assert {(result.verdict, result.error_code) for result in results} == {
        (Verdict.UNSENT, "exchange_missing")
    }
    await rabbit.declare()
    await publish(publisher, make_message())


async def test_the_exchange_going_missing_in_the_middle_of_a_batch_refuses_nothing(
    rabbit: BrokerGround, spoil: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question before the batch is answered, and then the exchange is gone."""
    from relay.kombu_broker.amqp_publishing import AmqpPublishing

    await rabbit.declare()
    publisher = await rabbit.broker.open_publisher()
    await publish(publisher, make_message())
    ready = AmqpPublishing._ready

    def ready_and_gone(self: AmqpPublishing, *arguments: object) -> bool:
        answer = ready(self, *arguments)  # type: ignore[arg-type]
        rabbit._administer(lambda channel: channel.exchange_delete(rabbit.options.exchange))
        return answer

    monkeypatch.setattr(AmqpPublishing, "_ready", ready_and_gone)
    results = await publisher.publish([make_message() for _ in range(5)])
    assert {result.error_code for result in results} == {"exchange_missing"}
    assert {result.verdict for result in results} <= {Verdict.UNSENT, Verdict.UNKNOWN}
    monkeypatch.setattr(AmqpPublishing, "_ready", ready)
    await rabbit.declare()
    await publish(publisher, make_message())


async def test_messages_are_persistent(rabbit: BrokerGround) -> None:
    binding = await rabbit.declare()
    publisher = await rabbit.broker.open_publisher()
    await publish(publisher, make_message())
    subscription = await rabbit.broker.open_subscription(binding, prefetch=1)
    [delivery] = await receive(subscription, 1)
    assert delivery.properties["delivery_mode"] == 2
