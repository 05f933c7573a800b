"""What the inbox refuses, by who must act."""

from inbox.receipt import ReceiptKey
from uow.errors import FixTheCodeError, LookAtItError, TryAgainError


class InboxOptionError(FixTheCodeError, ValueError):
    """An option has a value its rule forbids; the text names option, value and rule."""


class HandlerError(FixTheCodeError):
    """Root of what is wrong with a handler's registration."""


class DuplicateHandlerError(HandlerError):
    """A consumer has one handler for each event class; register a second consumer for a second effect."""


class HandlerNotAsyncError(HandlerError, TypeError):
    """A handler must be `async def`: a plain function would block the event loop and every lease with it."""


class HandlerSignatureError(HandlerError, TypeError):
    """A handler is called with two positional arguments, the event and its HandlerContext."""


class ReceiptLeaseLostError(TryAgainError):
    """The receipt is no longer ours (expired, taken over, finished by another): nothing may be committed."""

    def __init__(self, key: ReceiptKey) -> None:
        super().__init__(
            f"the receipt of message {key.message_id} at consumer {key.consumer!r} is held no longer; "
            "the unit is rolled back and whoever holds the receipt runs the handler"
        )
        self.key = key

    def __reduce__(self) -> tuple[type["ReceiptLeaseLostError"], tuple[ReceiptKey]]:
        return type(self), (self.key,)


class NoHandlerError(LookAtItError):
    """This consumer received an event for which it has no handler (any more)."""


class ProcessingTimeoutError(TryAgainError):
    """A handler took longer than its processing timeout; it was cancelled and nothing was kept."""
