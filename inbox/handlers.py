"""Subscriptions: a consumer and the handlers of its event classes."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

from inbox.context import HandlerContext
from inbox.errors import DuplicateHandlerError, HandlerNotAsyncError, HandlerSignatureError
from inbox.options import ConsumerOptions
from uow.handler_function import check_call, is_async
from uow.text import check_consumer_name

E = TypeVar("E")
Handler = Callable[[E, HandlerContext], Awaitable[None]]
_NO_OVERRIDES: Final = ConsumerOptions()


class Consumer:
    """A named subscriber: one durable queue, one receipt per message, one handler for each event class.

    The name is part of every receipt and compares by code point; renaming a consumer makes it a new one.
    Raises TextError for a name that is blank or longer than 200 UTF-16 units.
    """

    def __init__(self, name: str, *, options: ConsumerOptions | None = None) -> None:
        self.name: Final = check_consumer_name(name)
        self.options: Final = options or _NO_OVERRIDES
        self._handlers: dict[type[Any], Handler[Any]] = {}

    def handles(self, event_type: type[E]) -> Callable[[Handler[E]], Handler[E]]:
        """Decorate the `async def handler(event, context)` of this event class; returns it unchanged.

        Raises DuplicateHandlerError, HandlerNotAsyncError or HandlerSignatureError.
        """
        if not isinstance(event_type, type):
            raise HandlerSignatureError(
                f"consumer {self.name!r}: handles() takes an event class, as in "
                f"@consumer.handles(OrderPlaced), not {type(event_type).__name__}"
            )

        def register(handler: Handler[E]) -> Handler[E]:
            self._check(event_type, handler)
            self._handlers[event_type] = handler
            return handler

        return register

    @property
    def event_types(self) -> frozenset[type[Any]]:
        """The event classes that have a handler."""
        return frozenset(self._handlers)

    def find_handler(self, event_type: type[E]) -> Handler[E] | None:
        """The handler of exactly this class, or None."""
        return self._handlers.get(event_type)

    def __iter__(self) -> Iterator[type[Any]]:
        return iter(self._handlers)

    def __repr__(self) -> str:
        return f"Consumer({self.name!r})"

    def _check(self, event_type: type[Any], handler: Handler[Any]) -> None:
        told = f"consumer {self.name!r}, handler of {event_type.__qualname__}"
        if event_type in self._handlers:
            raise DuplicateHandlerError(
                f"{told}: there is one already; call both effects from one handler, or give the second "
                "effect a consumer of its own"
            )
        if not is_async(handler):
            raise HandlerNotAsyncError(
                f"{told}: must be `async def`; run blocking work with `await asyncio.to_thread(...)`"
            )
        try:
            check_call(handler, 2)
        except TypeError as error:
            raise HandlerSignatureError(
                f"{told}: is called as handler(event, context), but {error}"
            ) from error
