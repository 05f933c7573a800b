"""What can be the handler of a job, how it is called, and that each name and version has one."""

import functools
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest

from jobs import (
    AttemptStoppedError,
    DuplicateJobHandlerError,
    HandlerKind,
    JobContext,
    JobFailure,
    JobHandler,
    JobHandlerError,
    JobRegistry,
    JobSubmissionError,
    RetryPolicy,
    StopReason,
)
from jobs.execution.registry import handlers_of


async def plain(context: JobContext) -> None: ...


async def transactional(context: JobContext, unit: Any) -> None: ...


def threaded(context: Any) -> None: ...


class Renderer:
    async def __call__(self, context: JobContext) -> None: ...

    async def method(self, context: JobContext) -> None: ...

    def sync_method(self, context: Any) -> None: ...


async def configured(context: JobContext, paper: str) -> None: ...


def kind_of(function: Callable[..., Any], **options: Any) -> HandlerKind:
    registry = JobRegistry()
    assert registry.handler("a", **options)(function) is function
    (handler,) = registry
    assert handler.function is function
    return handler.kind


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (plain, HandlerKind.PLAIN),
        (Renderer(), HandlerKind.PLAIN),
        (Renderer().method, HandlerKind.PLAIN),
        (functools.partial(configured, paper="A4"), HandlerKind.PLAIN),
        (threaded, HandlerKind.THREAD),
        (Renderer().sync_method, HandlerKind.THREAD),
        (lambda context: None, HandlerKind.THREAD),
    ],
)
def test_the_function_says_how_it_is_called(function: Callable[..., Any], kind: HandlerKind) -> None:
    assert kind_of(function) is kind


def test_a_transactional_handler_gets_the_unit_and_must_be_async() -> None:
    assert kind_of(transactional, transactional=True) is HandlerKind.TRANSACTIONAL
    with pytest.raises(JobHandlerError, match="handler a: a transactional handler must be `async def`"):
        kind_of(threaded, transactional=True)


@pytest.mark.parametrize(
    ("function", "options", "told"),
    [
        (transactional, {}, "is called as handler(context), but missing a required argument: 'unit'"),
        (plain, {"transactional": True}, "is called as handler(context, unit), but too many positional"),
        (configured, {}, "missing a required argument: 'paper'"),
        (lambda: None, {}, "too many positional arguments"),
        (7, {}, "int cannot be called"),
    ],
)
def test_a_function_that_cannot_be_called_so_is_refused_at_once(
    function: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(JobHandlerError, match=re.escape(told)) as caught:
        kind_of(function, **options)
    assert "handler a, version 1" in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "ä", "a" * 129])
def test_a_name_that_no_job_can_have_is_refused(name: str) -> None:
    with pytest.raises(JobSubmissionError, match="must be 1 to 128 characters"):
        JobRegistry().handler(name)(plain)


@pytest.mark.parametrize("name", [None, 7, plain])
def test_a_decorator_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(JobHandlerError, match="a handler needs a name"):
        JobRegistry().handler(name)


@pytest.mark.parametrize("version", [0, -1, 1.0, True, "1", 2_147_483_648])
def test_a_version_that_no_job_can_have_is_refused(version: Any) -> None:
    with pytest.raises(ValueError, match="version of handler a"):
        JobRegistry().handler("a", version=version)(plain)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "5"])
def test_a_timeout_that_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(ValueError, match="timeout_seconds of handler a"):
        JobRegistry().handler("a", timeout_seconds=seconds)(plain)
    with pytest.raises(ValueError, match="timeout_seconds of handler a"):
        JobRegistry(timeout_seconds=seconds).handler("a")(plain)


@pytest.mark.parametrize("retry", [3, True, "always", RetryPolicy])
def test_a_retry_that_is_no_policy_is_refused(retry: Any) -> None:
    with pytest.raises(JobHandlerError, match="handler a, version 1: retry must be a RetryPolicy, not"):
        JobRegistry().handler("a", retry=retry)(plain)


def test_a_handler_may_have_options_of_its_own_in_place_of_those_of_its_registry() -> None:
    often, seldom = RetryPolicy(), RetryPolicy(on=(OSError,))
    registry = JobRegistry(timeout_seconds=5, retry=often)
    registry.handler("a")(plain)
    registry.handler("b", timeout_seconds=7, retry=seldom, requeue_interrupted=False)(plain)
    first, second = registry
    assert (first.timeout_seconds, first.retry, first.requeue_interrupted) == (5, often, True)
    assert (second.timeout_seconds, second.retry, second.requeue_interrupted) == (7, seldom, False)


def test_each_name_and_version_has_one_handler() -> None:
    one, two = JobRegistry(), JobRegistry()
    one.handler("a")(plain)
    one.handler("a", version=2)(threaded)
    with pytest.raises(DuplicateJobHandlerError, match="there is a handler a, version 2, already"):
        one.handler("a", version=2)(plain)
    two.handler("A")(plain)
    assert set(handlers_of([one, two])) == {("a", 1), ("a", 2), ("A", 1)}
    assert (len(one), len(two)) == (2, 1)
    two.add(JobHandler(name="a", version=1, kind=HandlerKind.PLAIN, function=plain))
    with pytest.raises(DuplicateJobHandlerError):
        handlers_of([one, two])
    with pytest.raises(DuplicateJobHandlerError):
        handlers_of([one, one])


def test_errors_of_handlers_can_be_pickled() -> None:
    stopped = pickle.loads(pickle.dumps(AttemptStoppedError(StopReason.TIMEOUT)))
    assert (stopped.reason, str(stopped)) == (StopReason.TIMEOUT, "the attempt is asked to end: timeout")
    failure = pickle.loads(pickle.dumps(JobFailure("declined", "no money")))
    assert (failure.code, failure.detail, str(failure)) == ("declined", "no money", "no money")
    assert str(JobFailure("declined")) == "declined"
