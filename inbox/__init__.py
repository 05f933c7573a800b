"""The inbox: one receipt per message and consumer, completed in the commit of the handler."""

from inbox.context import HandlerContext
from inbox.errors import (
    DuplicateHandlerError,
    HandlerError,
    HandlerNotAsyncError,
    HandlerSignatureError,
    InboxOptionError,
    NoHandlerError,
    ProcessingTimeoutError,
    ReceiptLeaseLostError,
)
from inbox.handlers import Consumer
from inbox.options import ConsumerOptions, InboxOptions
from inbox.participant import ReceiptCompletion, ReceiptParticipant
from inbox.receiver import Receiver
from inbox.state import ReceiptState
from inbox.store import InboxStore
from inbox.table import InboxNotMappedError, add_inbox_table, inbox_table
from inbox.view import (
    FailedReceiptCursor,
    FailedReceiptFilter,
    InboxCounts,
    LeaseFate,
    OperationAnswer,
    ReceiptRecord,
    ResetReport,
)

__all__ = [
    "Consumer",
    "ConsumerOptions",
    "DuplicateHandlerError",
    "FailedReceiptCursor",
    "FailedReceiptFilter",
    "HandlerContext",
    "HandlerError",
    "HandlerNotAsyncError",
    "HandlerSignatureError",
    "InboxCounts",
    "InboxNotMappedError",
    "InboxOptionError",
    "InboxOptions",
    "InboxStore",
    "LeaseFate",
    "NoHandlerError",
    "OperationAnswer",
    "ProcessingTimeoutError",
    "ReceiptCompletion",
    "ReceiptLeaseLostError",
    "ReceiptParticipant",
    "ReceiptRecord",
    "ReceiptState",
    "Receiver",
    "ResetReport",
    "add_inbox_table",
    "inbox_table",
]
