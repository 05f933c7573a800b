"""One acquired receipt, one unit of work, one outcome; the same on every database."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, event, insert, select
from sqlalchemy.ext.asyncio import async_sessionmaker

from inbox.acquisition import AcquireStatus
from inbox.attempt import Attempt
from inbox.context import HandlerContext
from inbox.handlers import Handler
from inbox.options import ConsumerOptions, InboxOptions
from inbox.outcome import ConsumeOutcome
from inbox.receipt import ReceiptKey
from tests.support.receiving import Bench, OrderPlaced, PaymentMade, order, pay, payment
from uow.backoff import Backoff
from uow.message import Message
from uow.outcome import Reject, RetryAfter
from uow.telemetry import current_correlation_id

pytest_plugins = ("tests.support.inbox_fixture",)

SECRET = "4111-1111-1111-1111"


async def row_of(bench: Bench, message: Message, consumer: str = "billing") -> dict[str, object]:
    return await bench.inbox.row(ReceiptKey(message.id, consumer))


async def state_of(bench: Bench, message: Message) -> tuple[object, object, object]:
    row = await row_of(bench, message)
    return row["state"], row["error_code"], row["attempt_count"]


def failing(error: BaseException) -> Callable[[OrderPlaced, HandlerContext], Awaitable[None]]:
    """A handler that writes and enqueues, and then fails."""

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        await context.session.flush()
        raise error

    return handler


async def nothing_kept(bench: Bench) -> bool:
    return await bench.payments() == [] and await bench.enqueued() == 0


async def test_effects_follow_up_events_and_the_receipt_commit_together(
    bench: Bench, counted: list[str]
) -> None:
    message = order(7)
    assert await bench.run(pay, message) is ConsumeOutcome.CONSUMED
    assert (await bench.payments(), await bench.enqueued()) == ([7], 1)
    assert await state_of(bench, message) == ("processed", None, 1)
    assert await bench.inbox.status("billing", message) is AcquireStatus.ALREADY_PROCESSED
    assert counted == ["consumed"]


async def test_consumed_is_counted_after_the_commit_only(bench: Bench, counted: list[str]) -> None:
    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        await context.session.flush()
        assert counted == []

    assert await bench.run(handler, order()) is ConsumeOutcome.CONSUMED
    assert counted == ["consumed"]


async def test_a_handler_is_given_the_event_and_its_scope(bench: Bench) -> None:
    message = order(3)
    seen: list[object] = []

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        seen.extend([event, context.message, context.consumer, context.attempt])
        assert context.session is context.unit.session
        assert context.unit.active

    assert await bench.run(handler, message) is ConsumeOutcome.CONSUMED
    assert seen == [
        OrderPlaced(number=3, id=message.id, occurred_at=message.occurred_at),
        message,
        "billing",
        1,
    ]


async def test_a_failed_attempt_is_rolled_back_recorded_and_due_after_its_back_off(
    bench: Bench, counted: list[str]
) -> None:
    bench.options = InboxOptions(backoff=Backoff(initial_seconds=5, jitter=0))
    message = order()
    assert await bench.run(failing(RuntimeError("no money")), message) is ConsumeOutcome.CONSUME_FAILED
    assert await nothing_kept(bench)
    row = await row_of(bench, message)
    assert (row["state"], row["error_code"], row["attempt_count"]) == ("failed", "handler_error", 1)
    assert row["error_detail"] == "RuntimeError: no money"
    assert row["next_attempt_at"] == bench.inbox.clock.moment + timedelta(seconds=5)
    assert counted == ["consume_failed"]
    bench.inbox.clock.advance(5)
    assert await bench.run(failing(RuntimeError("no money")), message) is ConsumeOutcome.CONSUME_FAILED
    assert (await row_of(bench, message))["next_attempt_at"] == bench.inbox.clock.moment + timedelta(
        seconds=10
    )
    bench.inbox.clock.advance(10)
    assert await bench.run(pay, message) is ConsumeOutcome.CONSUMED
    assert await state_of(bench, message) == ("processed", None, 3)
    assert await bench.payments() == [1]


class _Beyond(BaseException):
    """As the timeouts of some libraries, which no `except Exception` catches."""


@pytest.mark.parametrize(
    "error", [SystemExit(3), _Beyond("a timeout"), BaseExceptionGroup("two", [_Beyond()])]
)
async def test_whatever_a_handler_raises_is_its_own_failure(
    bench: Bench, counted: list[str], error: BaseException
) -> None:
    message = order()
    assert await bench.run(failing(error), message) is ConsumeOutcome.CONSUME_FAILED
    assert await nothing_kept(bench)
    assert await state_of(bench, message) == ("failed", "handler_error", 1)
    assert counted == ["consume_failed"]


async def test_the_last_attempt_that_fails_dead_letters(bench: Bench, counted: list[str]) -> None:
    message = order()
    options = ConsumerOptions(max_retry_attempts=2)
    outcomes = []
    for _ in range(3):
        outcomes.append(await bench.run(failing(ValueError()), message, consumer_options=options))
        bench.inbox.clock.advance(900)
    assert outcomes == [ConsumeOutcome.CONSUME_FAILED] * 2 + [ConsumeOutcome.DEAD_LETTER]
    assert await state_of(bench, message) == ("dead_lettered", "handler_error", 3)
    assert counted == outcomes
    assert await nothing_kept(bench)


async def test_with_no_retries_the_first_failure_dead_letters(bench: Bench) -> None:
    bench.options = InboxOptions(max_retry_attempts=0)
    assert await bench.run(failing(ValueError()), order()) is ConsumeOutcome.DEAD_LETTER


async def test_a_handler_may_say_when_to_call_again(bench: Bench) -> None:
    message = order()
    assert (
        await bench.run(failing(RetryAfter(90.25, "bank closed")), message) is ConsumeOutcome.CONSUME_FAILED
    )
    row = await row_of(bench, message)
    assert (row["state"], row["error_code"]) == ("failed", "retry_after")
    assert row["error_detail"] == "uow.outcome.RetryAfter: bank closed"
    assert row["next_attempt_at"] == bench.inbox.clock.moment + timedelta(seconds=90.25)
    assert await nothing_kept(bench)


async def test_asking_for_later_for_ever_ends_in_a_dead_letter(bench: Bench) -> None:
    message = order()
    bench.options = InboxOptions(max_retry_attempts=1)
    assert await bench.run(failing(RetryAfter(1)), message) is ConsumeOutcome.CONSUME_FAILED
    bench.inbox.clock.advance(1)
    assert await bench.run(failing(RetryAfter(1)), message) is ConsumeOutcome.DEAD_LETTER
    assert await state_of(bench, message) == ("dead_lettered", "retry_after", 2)


async def test_a_handler_may_reject_for_good(bench: Bench, counted: list[str]) -> None:
    message = order()
    assert await bench.run(failing(Reject("no such customer")), message) is ConsumeOutcome.DEAD_LETTER
    assert await state_of(bench, message) == ("dead_lettered", "rejected", 1)
    assert (await row_of(bench, message))["error_detail"] == "uow.outcome.Reject: no such customer"
    assert await nothing_kept(bench)
    assert counted == ["dead_letter"]


async def test_a_wish_that_comes_out_of_a_task_group_is_heard(bench: Bench) -> None:
    async def refuse() -> None:
        raise Reject("no")

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse())

    assert await bench.run(handler, order()) is ConsumeOutcome.DEAD_LETTER


@pytest.mark.parametrize(
    "change",
    [
        {"payload": f'{{"card":"{SECRET}"'},
        {"payload": "null"},
        {"payload": f'{{"number":"{SECRET}"}}'},
        {"contract_name": "orders.unknown"},
        {"contract_version": 9},
    ],
    ids=["malformed", "null", "wrong field", "unknown name", "unknown version"],
)
async def test_what_cannot_be_read_is_dead_lettered_at_once_without_its_payload(
    bench: Bench, change: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    message = replace(order(), **change)  # type: ignore[arg-type]
    assert await bench.run(pay, message) is ConsumeOutcome.DEAD_LETTER
    row = await row_of(bench, message)
    assert (row["state"], row["error_code"]) == ("dead_lettered", "contract")
    assert SECRET not in str(row["error_detail"])
    assert SECRET not in caplog.text
    assert await nothing_kept(bench)


async def test_an_event_without_a_handler_here_is_dead_lettered(bench: Bench) -> None:
    from tests.support.receiving import contracts

    encoded = contracts.encode(PaymentMade(number=1))
    assert await bench.run(pay, encoded) is ConsumeOutcome.DEAD_LETTER
    row = await row_of(bench, encoded)
    assert row["error_code"] == "contract"
    assert row["error_detail"] == "consumer 'billing' has no handler for PaymentMade"


async def test_a_handler_that_takes_too_long_is_cancelled(bench: Bench, counted: list[str]) -> None:
    message, cancelled = order(), asyncio.Event()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    options = ConsumerOptions(processing_timeout_seconds=0.05)
    assert await bench.run(handler, message, consumer_options=options) is ConsumeOutcome.CONSUME_FAILED
    assert cancelled.is_set()
    assert await nothing_kept(bench)
    assert await state_of(bench, message) == ("failed", "timeout", 1)
    assert counted == ["consume_failed"]


async def test_too_late_is_too_late_also_for_a_handler_that_ignores_its_cancellation(bench: Bench) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    options = ConsumerOptions(processing_timeout_seconds=0.05)
    assert await bench.run(handler, message, consumer_options=options) is ConsumeOutcome.CONSUME_FAILED
    assert await nothing_kept(bench)
    assert (await state_of(bench, message))[1] == "timeout"


async def test_too_late_is_too_late_also_for_a_handler_that_blocks_the_loop(bench: Bench) -> None:
    import time

    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        time.sleep(0.06)

    options = ConsumerOptions(processing_timeout_seconds=0.05)
    assert await bench.run(handler, message, consumer_options=options) is ConsumeOutcome.CONSUME_FAILED
    assert await nothing_kept(bench)
    assert (await state_of(bench, message))[1] == "timeout"


async def test_a_handler_that_goes_on_in_spite_of_its_cancellation_is_given_up(
    bench: Bench, counted: list[str]
) -> None:
    message, stubborn, may_end = order(), asyncio.Event(), asyncio.Event()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()
            stubborn.set()

    options = ConsumerOptions(processing_timeout_seconds=0.05)
    receiver = bench.receiver(handler, consumer_options=options)
    attempt = Attempt(await bench.inbox.acquired("billing", message))
    task = asyncio.create_task(receiver.handle(attempt))
    await stubborn.wait()
    if bench.inbox.engine.dialect.name == "sqlite":  # its write transaction keeps everybody else out
        may_end.set()
        assert await task is ConsumeOutcome.CONSUME_FAILED
    else:
        await receiver.give_up(attempt)
        assert attempt.outcome is ConsumeOutcome.CONSUME_FAILED
        assert await state_of(bench, message) == ("failed", "timeout", 1)
        may_end.set()
        assert await task is ConsumeOutcome.LEASE_LOST
        await receiver.give_up(attempt)
    assert attempt.outcome is ConsumeOutcome.CONSUME_FAILED
    assert counted == ["consume_failed"]
    assert await state_of(bench, message) == ("failed", "timeout", 1)
    assert await nothing_kept(bench)


@pytest.mark.parametrize("error", [TimeoutError("the bank"), asyncio.CancelledError("a child of mine")])
async def test_a_timeout_or_cancellation_of_the_handlers_own_is_its_failure(
    bench: Bench, error: BaseException
) -> None:
    message = order()
    assert await bench.run(failing(error), message) is ConsumeOutcome.CONSUME_FAILED
    assert (await state_of(bench, message))[1] == "handler_error"
    assert await nothing_kept(bench)


async def test_a_lost_lease_cancels_the_handler_and_nothing_is_recorded(
    bench: Bench, counted: list[str]
) -> None:
    message, running = order(), asyncio.Event()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        running.set()
        await asyncio.Event().wait()

    attempt = Attempt(await bench.inbox.acquired("billing", message))
    before = await bench.inbox.rows()
    task = asyncio.create_task(bench.receiver(handler).handle(attempt))
    await running.wait()
    attempt.lose_lease()
    attempt.lose_lease()
    assert await task is ConsumeOutcome.LEASE_LOST
    assert attempt.outcome is ConsumeOutcome.LEASE_LOST
    assert await nothing_kept(bench)
    assert await bench.inbox.rows() == before
    assert counted == ["lease_lost"]
    attempt.lose_lease()


async def test_a_lease_lost_before_the_run_begins_runs_nothing(bench: Bench) -> None:
    attempt = Attempt(await bench.inbox.acquired("billing", order()))
    attempt.lose_lease()
    assert await bench.receiver(pay).handle(attempt) is ConsumeOutcome.LEASE_LOST
    assert await nothing_kept(bench)


async def test_a_handler_that_blocks_past_its_lease_cannot_complete(bench: Bench, counted: list[str]) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        bench.inbox.clock.advance(60)  # as time.sleep(60) with nobody to renew

    assert await bench.run(handler, message) is ConsumeOutcome.LEASE_LOST
    assert await nothing_kept(bench)
    assert counted == ["lease_lost"]
    (again,) = await bench.inbox.claim("billing")
    assert again.attempt == 2
    assert await bench.receiver(pay).handle(again) is ConsumeOutcome.CONSUMED
    assert await bench.payments() == [1]


async def test_a_failure_after_the_lease_is_lost_records_nothing(bench: Bench) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        bench.inbox.clock.advance(60)
        await bench.inbox.claim("billing")
        raise RuntimeError("late")

    assert await bench.run(handler, message) is ConsumeOutcome.LEASE_LOST
    assert await state_of(bench, message) == ("processing", None, 2)


async def test_of_two_runs_of_one_receipt_one_is_kept(bench: Bench, counted: list[str]) -> None:
    """A stale holder still runs while the next one has taken over."""
    message, both = order(), asyncio.Barrier(2)

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await both.wait()
        await pay(event, context)

    stale = await bench.inbox.acquired("billing", message)
    bench.inbox.clock.advance(60)
    current = await bench.inbox.acquired("billing", message)
    receiver = bench.receiver(handler)
    outcomes = await asyncio.gather(receiver.handle(stale), receiver.handle(current))
    assert outcomes[1] is ConsumeOutcome.CONSUMED or outcomes[1] is ConsumeOutcome.CONSUME_FAILED
    assert outcomes[0] is not ConsumeOutcome.CONSUMED
    assert len(counted) == 2
    if outcomes[1] is ConsumeOutcome.CONSUME_FAILED:  # its row met that of the stale run, not yet undone
        bench.inbox.clock.advance(900)
        assert await bench.run(pay, message) is ConsumeOutcome.CONSUMED
    assert (await bench.payments(), await bench.enqueued()) == ([1], 1)


async def test_many_receipts_run_at_once_on_one_receiver(bench: Bench, counted: list[str]) -> None:
    answers = await bench.inbox.acquire("billing", *(order(number) for number in range(12)))
    receiver = bench.receiver(pay)
    outcomes = await asyncio.gather(
        *(receiver.handle(answer.receipt) for answer in answers if answer.receipt)
    )
    assert set(outcomes) == {ConsumeOutcome.CONSUMED}
    assert await bench.payments() == list(range(12))
    assert counted == ["consumed"] * 12


async def test_two_copies_delivered_at_once_run_once(bench: Bench) -> None:
    message = order()

    async def deliver() -> ConsumeOutcome | None:
        (answer,) = await bench.inbox.acquire("billing", message)
        return await bench.receiver(pay).handle(answer.receipt) if answer.receipt else answer.outcome

    outcomes = await asyncio.gather(*(deliver() for _ in range(4)))
    assert outcomes.count(ConsumeOutcome.CONSUMED) == 1
    assert set(outcomes) <= {ConsumeOutcome.CONSUMED, ConsumeOutcome.BUSY, ConsumeOutcome.DUPLICATE}
    assert (await bench.payments(), await bench.enqueued()) == ([1], 1)


async def test_a_cancelled_run_gives_its_receipt_back_and_costs_no_attempt(
    bench: Bench, counted: list[str]
) -> None:
    message, running = order(), asyncio.Event()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        running.set()
        await asyncio.Event().wait()

    attempt = Attempt(await bench.inbox.acquired("billing", message))
    task = asyncio.create_task(bench.receiver(handler).handle(attempt))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert attempt.outcome is ConsumeOutcome.CANCELLED
    assert counted == ["cancelled"]
    assert await nothing_kept(bench)
    assert await state_of(bench, message) == ("received", None, 0)
    assert (await bench.inbox.acquired("billing", message)).attempt == 1
    assert bench.inbox.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


async def test_a_second_cancellation_does_not_tear_the_bookkeeping(bench: Bench) -> None:
    message, running = order(), asyncio.Event()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        running.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(bench.receiver(handler).handle(await bench.inbox.acquired("billing", message)))
    await running.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert await state_of(bench, message) == ("received", None, 0)


async def test_a_cancellation_while_a_failure_is_recorded_lets_it_be_recorded(
    bench: Bench, counted: list[str]
) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        this = asyncio.current_task()
        assert this is not None
        asyncio.get_running_loop().call_later(0, asyncio.get_running_loop().call_soon, this.cancel)
        raise Reject("no")

    attempt = Attempt(await bench.inbox.acquired("billing", message))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(bench.receiver(handler).handle(attempt))
    # Where the cancellation found the run is the scheduler's choice; what is stored and counted agree.
    assert attempt.outcome in {ConsumeOutcome.DEAD_LETTER, ConsumeOutcome.CANCELLED}
    stored = {ConsumeOutcome.DEAD_LETTER: "dead_lettered", ConsumeOutcome.CANCELLED: "received"}
    assert (await state_of(bench, message))[0] == stored[attempt.outcome]
    assert counted == [attempt.outcome]


async def test_a_message_that_outlived_its_attempts_is_buried_without_being_run(bench: Bench) -> None:
    bench.options = InboxOptions(max_retry_attempts=1)
    message, runs = order(), []

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        runs.append(context.attempt)

    for _ in range(2):  # two attempts whose process died
        await bench.inbox.acquired("billing", message)
        bench.inbox.clock.advance(60)
    receipt = await bench.inbox.step(bench.inbox.store.claim_suspect, ["billing"])
    assert receipt is not None
    assert await bench.receiver(handler).handle(receipt) is ConsumeOutcome.DEAD_LETTER
    assert runs == []
    assert (await state_of(bench, message))[:2] == ("dead_lettered", "process_died")


async def test_the_correlation_id_of_the_message_is_in_force_and_goes_on(bench: Bench) -> None:
    from outbox.store import OutboxStore
    from tests.support.receiving import outbox_table

    seen: list[str | None] = []

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        seen.append(current_correlation_id())
        await pay(event, context)

    assert await bench.run(handler, order(correlation_id="Zoë-1")) is ConsumeOutcome.CONSUMED
    assert seen == ["Zoë-1"]
    assert current_correlation_id() is None
    claim = await bench.inbox.step(OutboxStore(outbox_table).claim)
    assert [row.message.correlation_id for row in claim.rows] == ["Zoë-1"]


@pytest.mark.parametrize(
    ("handler", "outcome", "error_type"),
    [
        (pay, "consumed", None),
        (failing(ValueError("secret")), "consume_failed", "ValueError"),
        (failing(Reject("secret")), "dead_letter", "uow.outcome.Reject"),
    ],
    ids=["consumed", "failed", "rejected"],
)
async def test_the_span_is_told_the_outcome_and_the_class_of_the_error(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    handler: Handler[OrderPlaced],
    outcome: str,
    error_type: str | None,
) -> None:
    told: list[tuple[str, str | None]] = []

    class Span:
        def set_outcome(self, outcome: str, *, error_type: str | None = None) -> None:
            told.append((outcome, error_type))

    @contextlib.contextmanager
    def span(message: Message, consumer: str, provider: str) -> Iterator[Span]:
        assert (consumer, provider) == ("billing", "local")
        yield Span()

    monkeypatch.setattr("inbox.receiver.consume_span", span)
    await bench.run(handler, order())
    assert told == [(outcome, error_type)]


async def test_a_renewal_while_the_handler_reads_and_writes_does_not_disturb_its_commit(bench: Bench) -> None:
    message, read, renewed = order(), asyncio.Event(), asyncio.Event()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await context.session.execute(select(payment))
        read.set()
        await renewed.wait()
        await pay(event, context)

    receipt = await bench.inbox.acquired("billing", message)
    if bench.inbox.engine.dialect.name == "mysql":
        # From MariaDB 11.6 on this is its default, and the unit then needs READ COMMITTED.
        engine = bench.inbox.engine.execution_options(isolation_level="READ COMMITTED")
        event.listen(engine.sync_engine, "begin", snapshot_isolation)
        bench.sessions = async_sessionmaker(engine)
    task = asyncio.create_task(bench.receiver(handler).handle(receipt))
    await read.wait()
    if bench.inbox.engine.dialect.name != "sqlite":
        bench.inbox.clock.advance(20)
        assert await bench.inbox.step(bench.inbox.store.renew, [receipt.lease]) == frozenset()
    renewed.set()
    assert await task is ConsumeOutcome.CONSUMED


def snapshot_isolation(connection: Connection) -> None:
    connection.exec_driver_sql("SET SESSION innodb_snapshot_isolation = ON")


async def test_a_caught_failure_of_a_nested_block_keeps_nothing(bench: Bench) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        try:
            async with context.unit:
                raise ValueError("inside")
        except ValueError:
            pass

    assert await bench.run(handler, message) is ConsumeOutcome.CONSUME_FAILED
    assert await nothing_kept(bench)
    assert str((await row_of(bench, message))["error_detail"]).startswith("uow.unit_errors.RollbackOnlyError")


async def test_a_commit_by_the_handler_is_refused_and_keeps_nothing(bench: Bench) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        await pay(event, context)
        await context.session.commit()

    assert await bench.run(handler, message) is ConsumeOutcome.CONSUME_FAILED
    assert await nothing_kept(bench)
    assert (await state_of(bench, message))[1] == "handler_error"


async def test_a_database_error_is_told_without_its_statement_and_values(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    message = order()

    async def handler(event: OrderPlaced, context: HandlerContext) -> None:
        for _ in range(2):
            await context.session.execute(insert(payment).values(number=1, note=SECRET))

    with caplog.at_level(logging.DEBUG, "inbox"):
        assert await bench.run(handler, message) is ConsumeOutcome.CONSUME_FAILED
    detail = str((await row_of(bench, message))["error_detail"])
    assert detail.startswith("sqlalchemy.exc.IntegrityError: ")
    assert SECRET not in detail
    assert "INSERT" not in detail
    assert "handler_error sqlalchemy.exc.IntegrityError" in caplog.text
    assert "in handler" in caplog.text, "the log tells where"
    assert SECRET not in "".join(
        record.getMessage() for record in caplog.records if record.name != "aiosqlite"
    )


async def test_texts_of_exceptions_that_no_database_takes_are_made_fit(bench: Bench) -> None:
    message = order()
    bad = "\x00\ud800" + "😀" * 2000
    assert await bench.run(failing(RuntimeError(bad)), message) is ConsumeOutcome.CONSUME_FAILED
    detail = str((await row_of(bench, message))["error_detail"])
    assert detail.startswith("RuntimeError: \ufffd\ufffd😀")
    assert len(detail.encode("utf-16-le")) // 2 <= 1000


async def test_an_exception_that_repeats_the_whole_payload_is_stored_without_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    message = order()
    assert await bench.run(failing(RuntimeError(f"bad: {message.payload}")), message)
    assert (await row_of(bench, message))["error_detail"] == "RuntimeError: bad: [payload]"
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("inbox")]
    assert ours
    assert not any(message.payload in line or "bad:" in line for line in ours)
