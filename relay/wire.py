"""The envelope on the wire: body, AMQP properties and headers. Reading is strict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relay.wire_part import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    NAME_HEADER,
    OCCURRED_AT_HEADER,
    PERSISTENT,
    TRACEPARENT_HEADER,
    TRACESTATE_HEADER,
    VERSION_HEADER,
    WireError,
    check_content,
    read_contract,
    read_message_id,
    read_occurred_at,
    read_optional_text,
    read_payload,
    read_table,
)
from uow.contracts import MAXIMUM_BODY_BYTES, check_identity
from uow.message import Message
from uow.text import (
    TextError,
    character_fault,
    check_contract_name,
    check_correlation_id,
    check_routing_key,
    check_traceparent,
    check_tracestate,
)

__all__ = ["WireError", "WireMessage", "decode_wire", "encode_wire"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireMessage:
    """One message as a broker sends it.

    properties: AMQP basic properties by their usual names (`message_id`, `type`, `correlation_id`,
    `content_type`, `content_encoding`, `delivery_mode`). headers: plain text and whole numbers only.
    """

    body: bytes = field(repr=False)
    properties: dict[str, Any]
    headers: dict[str, Any]
    routing_key: str


def encode_wire(message: Message) -> WireMessage:
    """The wire form of `message`; its body is the stored payload byte for byte.

    Raises TextError for a message that no reader would accept, so that it never reaches a broker.
    """
    _check_metadata(message)
    properties: dict[str, Any] = {
        "message_id": message.id.hex,
        "type": message.routing_key,
        "content_type": CONTENT_TYPE,
        "content_encoding": CONTENT_ENCODING,
        "delivery_mode": PERSISTENT,
    }
    if message.correlation_id is not None:
        properties["correlation_id"] = message.correlation_id
    headers: dict[str, Any] = {
        NAME_HEADER: message.contract_name,
        VERSION_HEADER: message.contract_version,
        OCCURRED_AT_HEADER: str(message.occurred_at),
    }
    if message.traceparent is not None:
        headers[TRACEPARENT_HEADER] = message.traceparent
    if message.tracestate is not None:
        headers[TRACESTATE_HEADER] = message.tracestate
    return WireMessage(
        body=_body(message.payload), properties=properties, headers=headers, routing_key=message.routing_key
    )


def decode_wire(
    body: bytes,
    content_type: str | None,
    headers: Mapping[str, Any] | None,
    properties: Mapping[str, Any] | None,
    *,
    maximum_body_bytes: int = MAXIMUM_BODY_BYTES,
) -> Message:
    """The message of one delivery. Further headers and properties are left alone.

    Checked: content type `application/json` (at most with `charset=utf-8`); message id of 32 lower-case hex
    digits; name, version, occurrence time with seven digits; `type` equal to `{name}.v{version}`; correlation
    id and trace fields by their limits; a body of UTF-8 text without byte order mark and NUL, at most
    `maximum_body_bytes` long, that is a JSON object with the same `id` and `occurred_at`. Whether the
    contract is registered and the payload fits it is left to `Contracts.decode`.
    Raises WireError, or another DecodeError for the payload.
    """
    headers, properties = read_table(headers, "headers"), read_table(properties, "properties")
    check_content(content_type, properties.get("content_encoding"))
    name, version = read_contract(headers, properties)
    message = Message(
        id=read_message_id(properties),
        contract_name=name,
        contract_version=version,
        occurred_at=read_occurred_at(headers),
        payload=read_payload(body, maximum_body_bytes),
        correlation_id=read_optional_text(properties, "correlation_id", check_correlation_id, "property"),
        traceparent=read_optional_text(headers, TRACEPARENT_HEADER, check_traceparent, "header"),
        tracestate=read_optional_text(headers, TRACESTATE_HEADER, check_tracestate, "header"),
    )
    check_identity(message)
    return message


def _check_metadata(message: Message) -> None:
    check_contract_name(message.contract_name)
    check_routing_key(message.routing_key)
    if message.correlation_id is not None:
        check_correlation_id(message.correlation_id)
    if message.traceparent is not None:
        check_traceparent(message.traceparent)
    if message.tracestate is not None:
        check_tracestate(message.tracestate)


def _body(payload: str) -> bytes:
    fault = character_fault(payload)
    if fault is not None:
        raise TextError("payload", fault)
    return payload.encode()
