"""The envelope that outbox, relay and inbox share."""

from uuid import uuid4

from uow.message import Message
from uow.ticks import UtcInstant


def test_the_text_form_of_a_message_does_not_show_its_payload() -> None:
    message = Message(
        id=uuid4(),
        contract_name="orders.placed",
        contract_version=2,
        occurred_at=UtcInstant(0),
        payload='{"card":"4111"}',
    )
    assert "4111" not in repr(message)
    assert "orders.placed" in repr(message)
