"""What went wrong between us and a broker, in words without secrets and in classes we can act on."""

from typing import Final

import amqp.exceptions
import kombu.exceptions

from uow.secret import describe_error

NOT_FOUND: Final = 404
ACCESS_REFUSED: Final = 403
_TOO_LARGE: Final = 311
PRECONDITION_FAILED: Final = 406

ChannelFault: Final = amqp.exceptions.ChannelError
"""The broker closed the channel; the connection still stands."""

_BLAMES_A_MESSAGE: Final = frozenset({501, 502, 503, 505, 540})


class ConnectionLost(Exception):  # noqa: N818 - a turn of events inside this package, not an error of ours
    """The connection is of no use any more.

    error_code: what the verdicts on messages in doubt say. blames_message: the broker closed it because of
    something that we sent, so that one message may be at fault and would take down every connection.
    """

    def __init__(
        self, reason: str, *, error_code: str = "connection_lost", blames_message: bool = False
    ) -> None:
        super().__init__(reason)
        self.error_code = error_code
        self.blames_message = blames_message


FAULTS: Final[tuple[type[Exception], ...]] = (
    ConnectionLost,
    amqp.exceptions.AMQPError,
    kombu.exceptions.KombuError,
    kombu.exceptions.OperationalError,
    OSError,
)
"""What we, py-amqp, kombu and sockets raise for an outage; `faults_of` adds those of a transport's driver."""


def lost(error: BaseException) -> ConnectionLost:
    """The ConnectionLost for an error of the driver; one that is one already stays as it is."""
    if isinstance(error, ConnectionLost):
        return error
    code = getattr(error, "reply_code", None)
    return ConnectionLost(describe_fault(error), blames_message=code in _BLAMES_A_MESSAGE)


def describe_fault(error: BaseException) -> str:
    """The error in one line, without passwords and without any part of a message."""
    if isinstance(error, ConnectionLost):
        return str(error)
    if isinstance(error, amqp.exceptions.AMQPError):
        text = str(error.reply_text or "").splitlines()
        return f"{type(error).__name__} {error.reply_code or ''}: {text[0] if text else ''}".strip(" :")
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error.strerror or error}"
    return describe_error(error)


def refusal_code(error: BaseException) -> str:
    """The outbox's code for a channel that the broker closed because of this one message.

    RabbitMQ says 406 for many things; that a message is too large stands only in its words, so the label
    `too_large` is a courtesy: both codes are permanent.
    """
    code = getattr(error, "reply_code", None)
    text = str(getattr(error, "reply_text", "") or "")
    if code == _TOO_LARGE or (code == PRECONDITION_FAILED and "size" in text):
        return "too_large"
    return "refused"
