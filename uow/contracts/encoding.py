"""One event becomes one message, or is refused with the place, the kind of value and the rule."""

from collections.abc import Callable
from typing import Any

from uow.contracts.codec import Codec
from uow.contracts.contract import Contract
from uow.contracts.error import (
    BodyTooLargeError,
    DecodeError,
    EnvelopeMismatchError,
    PayloadFieldError,
    ValueRefusedError,
)
from uow.contracts.fidelity import Fault, find_difference, find_unwritable
from uow.contracts.reading import check_identity
from uow.contracts.structure import kind_of, value_at
from uow.message import Message
from uow.text import check_ordering_key


def encode_event(contract: Contract, codec: Codec, event: Any, *, maximum_body_bytes: int) -> Message:
    """The message of `event`, without trace fields. Nothing of it changes when the event does later.

    Raises ValueRefusedError, BodyTooLargeError, or TextError for the ordering key.
    """
    _refuse(contract, find_unwritable(event))
    body = _write(contract, codec, event)
    if len(body) > maximum_body_bytes:
        rule = f"takes {len(body)} UTF-8 bytes as JSON; at most {maximum_body_bytes} are allowed"
        raise BodyTooLargeError(contract.routing_key, "", kind_of(event), rule)
    returned = _read_back(contract, event, lambda: codec.read(contract.routing_key, body))
    _refuse(contract, find_difference(event, returned))
    message = Message(
        id=event.id,
        contract_name=contract.name,
        contract_version=contract.version,
        occurred_at=event.occurred_at,
        payload=body.decode(),
        ordering_key=_ordering_key(contract, event),
    )
    _read_back(contract, event, lambda: check_identity(message))
    return message


def _refuse(contract: Contract, fault: Fault | None) -> None:
    if fault is not None:
        raise ValueRefusedError(contract.routing_key, fault.path, fault.kind, fault.rule)


def _write(contract: Contract, codec: Codec, event: Any) -> bytes:
    try:
        return codec.write(event)
    except Exception as error:
        fault = codec.find_formless(event) or Fault(kind_of(event), "has no JSON form that pydantic knows")
        raise ValueRefusedError(contract.routing_key, fault.path, fault.kind, fault.rule) from error


def _read_back(contract: Contract, event: Any, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except PayloadFieldError as error:
        path, rule = error.path, error.rule
    except EnvelopeMismatchError as error:
        path, rule = error.field, "the JSON text holds another value under this name"
    except DecodeError:
        path, rule = "", "its JSON text cannot be read"
    raise ValueRefusedError(
        contract.routing_key, path, kind_of(value_at(event, path)), f"cannot come back: {rule}"
    )


def _ordering_key(contract: Contract, event: Any) -> str | None:
    key = None if contract.ordering_key is None else contract.ordering_key(event)
    return None if key is None else check_ordering_key(key)
