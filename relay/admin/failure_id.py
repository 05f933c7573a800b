"""The opaque name of a failed message: `outbox:{32 hex}` or `inbox:{32 hex}:{escaped consumer}`."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self
from urllib.parse import quote, unquote
from uuid import UUID

from uow.errors import FixTheCodeError
from uow.text import TextError, check_consumer_name

_OUTBOX: Final = re.compile(r"outbox:([0-9a-f]{32})", re.ASCII)
_INBOX: Final = re.compile(r"inbox:([0-9a-f]{32}):(\S+)", re.ASCII)


class FailureIdError(FixTheCodeError):
    """The text is not a failure id; `failed list` shows those that exist."""


class FailureKind(StrEnum):
    """On which side a message failed: while it was published, or while a consumer handled it."""

    OUTBOX = "outbox"
    INBOX = "inbox"


@dataclass(frozen=True, slots=True)
class FailureId:
    """Names one failed message. `consumer` is None for the outbox and set for the inbox.

    `str()` gives the opaque text; blanks, colons and everything outside ASCII in a consumer's name are
    percent-escaped, so the text has no blank and may stand in a URL or a command line.
    """

    kind: FailureKind
    message_id: UUID
    consumer: str | None = None

    @classmethod
    def outbox(cls, message_id: UUID) -> Self:
        """The failure of publishing this message."""
        return cls(FailureKind.OUTBOX, message_id)

    @classmethod
    def inbox(cls, message_id: UUID, consumer: str) -> Self:
        """The failure of `consumer` to handle this message."""
        return cls(FailureKind.INBOX, message_id, consumer)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The failure id that `str()` wrote. Raises FailureIdError for any other text."""
        if match := _OUTBOX.fullmatch(text):
            return cls.outbox(UUID(match[1]))
        match = _INBOX.fullmatch(text)
        consumer = _unescape(match[2]) if match else None
        if match is None or consumer is None:
            raise FailureIdError(
                "not a failure id; expected outbox:{32 hex digits} or inbox:{32 hex digits}:{consumer} "
                "as `selfmanaged failed list` prints it"
            )
        return cls.inbox(UUID(match[1]), consumer)

    def __str__(self) -> str:
        if self.consumer is None:
            return f"{self.kind}:{self.message_id.hex}"
        return f"{self.kind}:{self.message_id.hex}:{quote(self.consumer, safe='')}"


def _unescape(text: str) -> str | None:
    try:
        consumer = check_consumer_name(unquote(text, errors="strict"))
        return consumer if quote(consumer, safe="") == text else None
    except (UnicodeError, TextError):
        return None
