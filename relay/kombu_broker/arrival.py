"""From what py-amqp and kombu hand over to a Delivery."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import amqp
import kombu.message

from relay.broker import Delivery

STANDARD_PROPERTIES: Final = frozenset(
    {
        "delivery_mode",
        "priority",
        "correlation_id",
        "reply_to",
        "expiration",
        "message_id",
        "timestamp",
        "type",
        "user_id",
        "app_id",
    }
)
"""AMQP's properties; an emulated transport puts its own book-keeping among them."""

DEAD_REASON_HEADER: Final = "ms-dead-reason"
"""Why a message is in a dead queue, where we put it there ourselves."""

_REDELIVERED: Final = "redelivered"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the subscription needs to settle a delivery: on which of its connections it came, and its tag."""

    generation: int
    tag: Any


def amqp_message(body: Any, headers: Mapping[str, Any], properties: Mapping[str, Any]) -> Any:
    """A py-amqp message to send."""
    return amqp.Message(body, application_headers=headers, **properties)


def amqp_delivery(message: Any, generation: int) -> Delivery:
    """The Delivery of a py-amqp message."""
    properties = dict(message.properties)
    return Delivery(
        headers=properties.pop("application_headers", None) or {},
        content_type=properties.get("content_type"),
        properties=properties,
        body=_as_bytes(message.body),
        redelivered=bool(message.delivery_info.get(_REDELIVERED)),
        handle=Receipt(generation, message.delivery_info["delivery_tag"]),
    )


def virtual_delivery(message: kombu.message.Message, generation: int) -> Delivery:
    """The Delivery of a message of an emulated transport, without the transport's book-keeping."""
    headers = dict(message.headers or {})
    redelivered = bool(headers.pop(_REDELIVERED, False)) or bool(_raw(message).get(_REDELIVERED))
    return Delivery(
        headers=headers,
        content_type=message.content_type,
        properties=properties_of(message),
        body=_as_bytes(message.body),
        redelivered=redelivered,
        handle=Receipt(generation, message.delivery_tag),
    )


def properties_of(message: kombu.message.Message) -> dict[str, Any]:
    """The AMQP properties of a message of an emulated transport."""
    properties = {key: value for key, value in message.properties.items() if key in STANDARD_PROPERTIES}
    content = {"content_type": message.content_type, "content_encoding": message.content_encoding}
    return properties | {key: value for key, value in content.items() if value is not None}


def _raw(message: kombu.message.Message) -> Mapping[str, Any]:
    raw = getattr(message, "_raw", None)  # kombu keeps the mark of a restored message only there
    return raw if isinstance(raw, Mapping) else {}


def _as_bytes(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return b"" if body is None else bytes(body)
