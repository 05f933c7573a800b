"""Subscriptions: what is accepted as a handler and what is refused, with what words."""

import functools
from dataclasses import dataclass
from typing import Any

import pytest

from inbox.context import HandlerContext
from inbox.errors import DuplicateHandlerError, HandlerNotAsyncError, HandlerSignatureError, InboxOptionError
from inbox.handlers import Consumer
from inbox.options import ConsumerOptions
from uow.event import Event
from uow.text import TextError


@dataclass(frozen=True, kw_only=True)
class Placed(Event):
    number: int = 0


@dataclass(frozen=True, kw_only=True)
class Paid(Event):
    number: int = 0


def test_a_handler_is_registered_and_stays_an_ordinary_function() -> None:
    consumer = Consumer("billing")

    @consumer.handles(Placed)
    async def bill(event: Placed, context: HandlerContext) -> None:
        pass

    @consumer.handles(Paid)
    async def note(event: Paid, context: HandlerContext) -> None:
        pass

    assert bill.__name__ == "bill"
    assert consumer.find_handler(Placed) is bill
    assert consumer.event_types == {Placed, Paid}
    assert list(consumer) == [Placed, Paid]
    assert repr(consumer) == "Consumer('billing')"


def test_a_handler_is_of_exactly_its_class() -> None:
    consumer = Consumer("billing")

    @consumer.handles(Event)
    async def handler(event: Event, context: HandlerContext) -> None:
        pass

    assert consumer.find_handler(Placed) is None


def test_one_handler_may_take_several_classes() -> None:
    consumer = Consumer("billing")

    async def handler(event: Any, context: HandlerContext) -> None:
        pass

    consumer.handles(Placed)(handler)
    consumer.handles(Paid)(handler)
    assert consumer.find_handler(Placed) is consumer.find_handler(Paid) is handler


def test_a_second_handler_of_one_class_is_refused() -> None:
    consumer = Consumer("billing")

    @consumer.handles(Placed)
    async def first(event: Placed, context: HandlerContext) -> None:
        pass

    with pytest.raises(DuplicateHandlerError, match="consumer 'billing', handler of Placed: there is one"):

        @consumer.handles(Placed)
        async def second(event: Placed, context: HandlerContext) -> None:
            pass

    assert consumer.find_handler(Placed) is first


def plain(event: Placed, context: HandlerContext) -> None:
    pass


async def generator(event: Placed, context: HandlerContext) -> Any:
    yield event


class PlainCallable:
    def __call__(self, event: Placed, context: HandlerContext) -> None:
        pass


@pytest.mark.parametrize("handler", [plain, generator, PlainCallable(), functools.partial(plain), print, 7])
def test_what_is_not_async_def_is_refused_with_the_way_out(handler: Any) -> None:
    with pytest.raises(HandlerNotAsyncError, match=r"must be `async def`; .*asyncio\.to_thread"):
        Consumer("billing").handles(Placed)(handler)


class AsyncCallable:
    async def __call__(self, event: Placed, context: HandlerContext) -> None:
        pass

    async def method(self, event: Placed, context: HandlerContext) -> None:
        pass


async def three(event: Placed, context: HandlerContext, tariff: str) -> None:
    pass


@pytest.mark.parametrize(
    "handler", [AsyncCallable(), AsyncCallable().method, functools.partial(three, tariff="night")]
)
def test_methods_callables_and_partials_that_are_async_are_accepted(handler: Any) -> None:
    consumer = Consumer("billing")
    assert consumer.handles(Placed)(handler) is handler


async def one(event: Placed) -> None:
    pass


async def keyword_only(event: Placed, *, context: HandlerContext) -> None:
    pass


@pytest.mark.parametrize("handler", [one, three, keyword_only])
def test_a_handler_that_cannot_be_called_with_event_and_context_is_refused(handler: Any) -> None:
    with pytest.raises(HandlerSignatureError, match=r"is called as handler\(event, context\), but"):
        Consumer("billing").handles(Placed)(handler)


def test_handles_without_its_event_class_is_refused() -> None:
    consumer = Consumer("billing")

    async def handler(event: Placed, context: HandlerContext) -> None:
        pass

    with pytest.raises(HandlerSignatureError, match=r"@consumer\.handles\(OrderPlaced\), not function"):
        consumer.handles(handler)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "x" * 200, "\U0001f600" * 100, "Zoë billing", "a.b#*"])
def test_names_within_the_limits_are_kept_as_they_are(name: str) -> None:
    assert Consumer(name).name == name


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "must not be blank"),
        (" \t", "must not"),
        ("x" * 201, "at most 200 UTF-16 units, not 201"),
        ("\U0001f600" * 101, "at most 200 UTF-16 units, not 202"),
        ("a\x00", "NUL"),
        ("a\ud800", "lone surrogate"),
        (7, "must be text"),
    ],
)
def test_names_past_the_limits_are_refused(name: Any, rule: str) -> None:
    with pytest.raises(TextError, match=rule):
        Consumer(name)


def test_what_a_consumer_overrides_is_kept() -> None:
    options = ConsumerOptions(max_retry_attempts=0, processing_timeout_seconds=0.5, concurrency=1)
    assert Consumer("billing", options=options).options is options
    with pytest.raises(InboxOptionError, match="max_retry_attempts must be 0 to 100, not 101"):
        ConsumerOptions(max_retry_attempts=101)
