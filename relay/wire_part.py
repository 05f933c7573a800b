"""The parts of a delivery, read strictly: each is what the protocol says, or the delivery is refused."""

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from uow.contracts import DecodeError
from uow.contracts.contract import MAXIMUM_VERSION
from uow.message import routing_key
from uow.text import TextError, check_contract_name, check_routing_key
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


def read_table(table: object, part: str) -> Mapping[str, Any]:
    """Headers or properties; none at all are an empty table."""
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise WireError(part, f"must be a table, not {type(table).__name__}")
    return table


def check_content(content_type: object, content_encoding: object) -> None:
    """JSON in UTF-8: `application/json`, at most with `charset=utf-8`; content encoding `utf-8` or absent."""
    if not isinstance(content_type, str) or _CONTENT_TYPE.fullmatch(content_type) is None:
        raise WireError("content type", f"must be {CONTENT_TYPE}")
    if content_encoding is None:
        return
    if not isinstance(content_encoding, str) or content_encoding.lower() != CONTENT_ENCODING:
        raise WireError("content encoding", f"must be {CONTENT_ENCODING} or absent")


def read_contract(headers: Mapping[str, Any], properties: Mapping[str, Any]) -> tuple[str, int]:
    """Name and version from the headers, which the property `type` must repeat."""
    name = _text(headers, NAME_HEADER, check_contract_name, "header")
    version = _present(headers, VERSION_HEADER, "header")
    if type(version) is not int or not 1 <= version <= MAXIMUM_VERSION:
        raise WireError(f"header {VERSION_HEADER}", f"must be a whole number from 1 to {MAXIMUM_VERSION}")
    if _text(properties, "type", check_routing_key, "property") != routing_key(name, version):
        raise WireError(
            "property type", f"must be {{name}}.v{{version}} of {NAME_HEADER} and {VERSION_HEADER}"
        )
    return name, version


def read_message_id(properties: Mapping[str, Any]) -> UUID:
    """The message id from 32 lower-case hexadecimal digits."""
    message_id = _present(properties, "message_id", "property")
    if not isinstance(message_id, str) or _MESSAGE_ID.fullmatch(message_id) is None:
        raise WireError("property message_id", "must be 32 lower-case hexadecimal digits")
    return UUID(hex=message_id)


def read_occurred_at(headers: Mapping[str, Any]) -> UtcInstant:
    """The instant from UTC text with exactly seven fractional digits."""
    text = _present(headers, OCCURRED_AT_HEADER, "header")
    instant = None
    if isinstance(text, str) and _INSTANT.fullmatch(text) is not None:
        with contextlib.suppress(ValueError):
            instant = UtcInstant.parse(text)
    if instant is None:
        raise WireError(f"header {OCCURRED_AT_HEADER}", "must be UTC text like 2026-01-01T00:00:00.0000000Z")
    return instant


def read_payload(body: object, maximum_body_bytes: int) -> str:
    """The body as text: UTF-8, no byte order mark, no NUL, within the limit."""
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


def read_optional_text(
    source: Mapping[str, Any], key: str, check: Callable[[object, str], str], kind: str
) -> str | None:
    """A text that may be absent; `check` holds its limits."""
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
