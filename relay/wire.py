"""The envelope on the wire: body, AMQP properties and headers. Reading is strict."""

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from uow.contracts import MAXIMUM_BODY_BYTES, DecodeError, check_identity
from uow.contracts.contract import MAXIMUM_VERSION
from uow.message import Message, routing_key
from uow.text import (
    TextError,
    character_fault,
    check_contract_name,
    check_correlation_id,
    check_routing_key,
    check_traceparent,
    check_tracestate,
)
from uow.ticks import UtcInstant

CONTENT_TYPE: Final = "application/json"
CONTENT_ENCODING: Final = "utf-8"
PERSISTENT: Final = 2

NAME_HEADER: Final = "ms-contract-name"
VERSION_HEADER: Final = "ms-contract-version"
OCCURRED_AT_HEADER: Final = "ms-occurred-at"
TRACEPARENT_HEADER: Final = "traceparent"
TRACESTATE_HEADER: Final = "tracestate"

_CONTENT_TYPE: Final = re.compile(
    r"application/json(?:\s*;\s*charset=(?:utf-8|\"utf-8\"))?\s*", re.IGNORECASE
)
_MESSAGE_ID: Final = re.compile(r"[0-9a-f]{32}")
_INSTANT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{7}Z", re.ASCII)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class WireError(DecodeError):
    """A delivery that is not one of our messages; `part` says what is off. Never shows the body."""

    def __init__(self, part: str, rule: str) -> None:
        super().__init__(f"delivery refused: {part} {rule}")
        self.part = part
        self.rule = rule

    def __reduce__(self) -> tuple[type["WireError"], tuple[str, str]]:
        return type(self), (self.part, self.rule)


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
    headers: Mapping[str, Any],
    properties: Mapping[str, Any],
    *,
    maximum_body_bytes: int = MAXIMUM_BODY_BYTES,
) -> Message:
    """The message of one delivery. Further headers and properties are left alone.

    Checked: content type `application/json` (at most with `charset=utf-8`); message id of 32 lower-case hex
    digits; name, version, occurrence time with seven digits; `type` equal to `{name}.v{version}`; correlation
    id and trace fields by their limits; a body of UTF-8 text without byte order mark and NUL, at most
    `maximum_body_bytes` long, that is a JSON object with the same `id` and `occurred_at`. Whether the contract
    is registered and the payload fits it is left to `Contracts.decode`.
    Raises WireError, or another DecodeError for the payload.
    """
    _check_content(content_type, properties.get("content_encoding"))
    name, version = _contract(headers, properties)
    message = Message(
        id=_message_id(properties),
        contract_name=name,
        contract_version=version,
        occurred_at=_occurred_at(headers),
        payload=_payload(body, maximum_body_bytes),
        correlation_id=_optional(properties, "correlation_id", check_correlation_id, "property"),
        traceparent=_optional(headers, TRACEPARENT_HEADER, check_traceparent, "header"),
        tracestate=_optional(headers, TRACESTATE_HEADER, check_tracestate, "header"),
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


def _check_content(content_type: object, content_encoding: object) -> None:
    if not isinstance(content_type, str) or _CONTENT_TYPE.fullmatch(content_type) is None:
        raise WireError("content type", f"must be {CONTENT_TYPE}")
    if content_encoding is None:
        return
    if not isinstance(content_encoding, str) or content_encoding.lower() != CONTENT_ENCODING:
        raise WireError("content encoding", f"must be {CONTENT_ENCODING} or absent")


def _contract(headers: Mapping[str, Any], properties: Mapping[str, Any]) -> tuple[str, int]:
    name = _text(headers, NAME_HEADER, check_contract_name, "header")
    version = _present(headers, VERSION_HEADER, "header")
    if type(version) is not int or not 1 <= version <= MAXIMUM_VERSION:
        raise WireError(f"header {VERSION_HEADER}", f"must be a whole number from 1 to {MAXIMUM_VERSION}")
    if _text(properties, "type", check_routing_key, "property") != routing_key(name, version):
        raise WireError(
            "property type", f"must be {{name}}.v{{version}} of {NAME_HEADER} and {VERSION_HEADER}"
        )
    return name, version


def _message_id(properties: Mapping[str, Any]) -> UUID:
    message_id = _present(properties, "message_id", "property")
    if not isinstance(message_id, str) or _MESSAGE_ID.fullmatch(message_id) is None:
        raise WireError("property message_id", "must be 32 lower-case hexadecimal digits")
    return UUID(hex=message_id)


def _occurred_at(headers: Mapping[str, Any]) -> UtcInstant:
    text = _present(headers, OCCURRED_AT_HEADER, "header")
    instant = None
    if isinstance(text, str) and _INSTANT.fullmatch(text) is not None:
        with contextlib.suppress(ValueError):
            instant = UtcInstant.parse(text)
    if instant is None:
        raise WireError(f"header {OCCURRED_AT_HEADER}", "must be UTC text like 2026-01-01T00:00:00.0000000Z")
    return instant


def _payload(body: object, maximum_body_bytes: int) -> str:
    if not isinstance(body, bytes):
        raise WireError("body", f"must be bytes, not {type(body).__name__}")
    if len(body) > maximum_body_bytes:
        raise WireError("body", f"has {len(body)} bytes; at most {maximum_body_bytes} are allowed")
    if body.startswith(_BYTE_ORDER_MARK):
        raise WireError("body", "must not begin with a byte order mark")
    if b"\x00" in body:
        raise WireError("body", "must not contain NUL")
    with contextlib.suppress(UnicodeDecodeError):
        return body.decode()
    raise WireError("body", "must be UTF-8")


def _optional(
    source: Mapping[str, Any], key: str, check: Callable[[object, str], str], kind: str
) -> str | None:
    return None if source.get(key) is None else _text(source, key, check, kind)


def _text(source: Mapping[str, Any], key: str, check: Callable[[object, str], str], kind: str) -> str:
    value = _present(source, key, kind)
    field = f"{kind} {key}"
    try:
        return check(value, field)
    except TextError as error:
        rule = error.rule
    raise WireError(field, rule)


def _present(source: Mapping[str, Any], key: str, kind: str) -> Any:
    value = source.get(key)
    if value is None:
        raise WireError(f"{kind} {key}", "is missing")
    return value
