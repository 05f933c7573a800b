"""Rules for names and metadata: length in UTF-16 units and UTF-8 bytes, no NUL, no lone surrogate.

`len()` counts code points, while databases, brokers and other languages count UTF-16 units or bytes:
257 emoji are 257 code points, 514 UTF-16 units and 1028 UTF-8 bytes.
"""

import unicodedata
from typing import Final

from uow.errors import FixTheCodeError

NAME_UNITS: Final = 200
ROUTING_KEY_BYTES: Final = 254
QUEUE_NAME_BYTES: Final = 240
CORRELATION_ID_UNITS: Final = 200
CORRELATION_ID_BYTES: Final = 255
TRACEPARENT_UNITS: Final = 128
TRACESTATE_UNITS: Final = 512
ORDERING_KEY_UNITS: Final = 200

_WILDCARDS: Final = "*#"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class TextError(FixTheCodeError, ValueError):
    """A name or a piece of metadata that no store or broker may hold; never shows the text itself.

    `field` is where it stood, `rule` what it broke.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}")
        self.field = field
        self.rule = rule

    def __reduce__(self) -> tuple[type["TextError"], tuple[str, str]]:
        return type(self), (self.field, self.rule)


def utf16_units(text: str) -> int:
    """How many UTF-16 code units `text` takes; a lone surrogate counts as one."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8_bytes_of(text: str) -> int:
    """How many UTF-8 bytes `text` takes; a lone surrogate counts as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def character_fault(text: str) -> str | None:
    """The rule that a character of `text` breaks everywhere (NUL, lone surrogate), or None."""
    if "\x00" in text:
        return "must not contain NUL (U+0000)"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"must not contain a lone surrogate (U+{ord(text[error.start]):04X})"
    return None


def check_text(
    field: str,
    value: object,
    *,
    units: int | None = None,
    utf8_bytes: int | None = None,
    forbidden: str = "",
    control: bool = True,
    blank: bool = True,
) -> str:
    """`value` itself when it is text within the limits; raises TextError naming `field` and the rule.

    units: most UTF-16 units. utf8_bytes: most UTF-8 bytes. forbidden: characters it must not contain.
    control: whether control characters (Unicode category Cc) are allowed. blank: whether it may be empty
    or only white space. NUL and lone surrogates are never allowed.
    """
    if not isinstance(value, str):
        raise TextError(field, f"must be text, not {type(value).__name__}")
    rule = (
        character_fault(value)
        or _content_fault(value, forbidden=forbidden, control=control, blank=blank)
        or _length_fault(value, units=units, utf8_bytes=utf8_bytes)
    )
    if rule is not None:
        raise TextError(field, rule)
    return value


def check_contract_name(name: object, field: str = "contract name") -> str:
    """A contract name: not blank, at most 200 UTF-16 units, no `*`, `#` or control characters."""
    return check_text(field, name, units=NAME_UNITS, forbidden=_WILDCARDS, control=False, blank=False)


def check_routing_key(key: object, field: str = "routing key") -> str:
    """`{name}.v{version}`: under 255 UTF-8 bytes, which is what an AMQP short string can hold."""
    return check_text(field, key, utf8_bytes=ROUTING_KEY_BYTES)


def check_consumer_name(name: object, field: str = "consumer name") -> str:
    """A consumer name: not blank, at most 200 UTF-16 units."""
    return check_text(field, name, units=NAME_UNITS, blank=False)


def check_queue_name(prefix: str, consumer: str, field: str = "queue name") -> str:
    """The queue name `{prefix}.{consumer}`: at most 240 UTF-8 bytes."""
    return check_text(field, f"{prefix}.{consumer}", utf8_bytes=QUEUE_NAME_BYTES)


def check_correlation_id(value: object, field: str = "correlation_id") -> str:
    """A correlation id: not blank, at most 200 UTF-16 units and 255 UTF-8 bytes."""
    return check_text(field, value, units=CORRELATION_ID_UNITS, utf8_bytes=CORRELATION_ID_BYTES, blank=False)


def check_traceparent(value: object, field: str = "traceparent") -> str:
    """A W3C traceparent by length only: not blank, at most 128 UTF-16 units."""
    return check_text(field, value, units=TRACEPARENT_UNITS, blank=False)


def check_tracestate(value: object, field: str = "tracestate") -> str:
    """A W3C tracestate by length only: not blank, at most 512 UTF-16 units."""
    return check_text(field, value, units=TRACESTATE_UNITS, blank=False)


def check_ordering_key(value: object, field: str = "ordering_key") -> str:
    """An ordering key: not blank, at most 200 UTF-16 units."""
    return check_text(field, value, units=ORDERING_KEY_UNITS, blank=False)


def clean_text(text: str, *, units: int) -> str:
    """`text` made fit to be stored: NUL and lone surrogates replaced by U+FFFD, cut to `units` UTF-16 units.

    For texts that we did not choose, such as the message of a handler's exception.
    """
    whole = text.replace("\x00", _REPLACEMENT)
    if not whole.isascii():
        whole = "".join(_REPLACEMENT if "\ud800" <= each <= "\udfff" else each for each in whole[: units + 1])
    if utf16_units(whole) <= units:
        return whole
    cut = whole.encode("utf-16-le")[: units * 2]
    return cut.decode("utf-16-le", "ignore")


def _content_fault(text: str, *, forbidden: str, control: bool, blank: bool) -> str | None:
    if not blank and (not text or text.isspace()):
        return "must not be blank"
    for character in forbidden:
        if character in text:
            return f"must not contain {character!r}"
    if not control and any(unicodedata.category(character) == "Cc" for character in text):
        return "must not contain control characters"
    return None


def _length_fault(text: str, *, units: int | None, utf8_bytes: int | None) -> str | None:
    if units is not None and (actual := utf16_units(text)) > units:
        return f"must have at most {units} UTF-16 units, not {actual}"
    if utf8_bytes is not None and (actual := utf8_bytes_of(text)) > utf8_bytes:
        return f"must have at most {utf8_bytes} UTF-8 bytes, not {actual}"
    return None
