"""One message becomes one event, or an error that repeats nothing of the payload."""

from typing import Any, Final

from uow.contracts.codec import Codec
from uow.contracts.error import EnvelopeMismatchError, PayloadFieldError
from uow.contracts.fidelity import find_unwritable
from uow.contracts.reading import check_identity, hidden_path
from uow.contracts.upcasting import UpcasterGraph
from uow.message import Message

_ESCAPED_NUL: Final = "\\u0000"


def decode_message(message: Message, codec: Codec, upcasters: UpcasterGraph, route: tuple[int, ...]) -> Any:
    """The event of `message`, after the upcasters along `route`; `codec` reads the last version of it.

    Raises DecodeError.
    """
    contract = message.routing_key
    check_identity(message)
    payload: str | bytes = message.payload
    if len(route) > 1:
        payload = upcasters.apply(contract, message.payload, route)
    event = codec.read(contract, payload)
    if event.id != message.id:
        raise EnvelopeMismatchError(contract, "id")
    if event.occurred_at != message.occurred_at:
        raise EnvelopeMismatchError(contract, "occurred_at")
    if _ESCAPED_NUL in message.payload:
        fault = find_unwritable(event)
        if fault is not None:
            raise PayloadFieldError(contract, hidden_path(fault.steps, codec.names), fault.rule)
    return event
