"""The small parts of the loops: pipeline, circuit, slots, supervision, options."""

import asyncio
import logging
import sqlite3
from typing import Any

import pytest
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from outbox.claimed import ClaimedMessage
from outbox.options import OutboxOptions
from outbox.settlement import SettlementKind
from relay.broker import BrokerUnavailableError, PublishResult, Verdict
from relay.options import (
    OptionRuleError,
    RelayOptions,
    check_consuming_options,
    check_publishing_options,
)
from relay.publishing.circuit import Circuit, CircuitState
from relay.publishing.pipeline import run_pipeline
from relay.publishing.report import outcome_of
from relay.publishing.verdict import settlement_of
from tests.support.relaying import make_message
from uow.backoff import Backoff
from uow.loop.polling import AdaptivePolling
from uow.loop.slots import Slots
from uow.loop.supervision import (
    LoopHealth,
    StopRequest,
    is_outage,
    run_with_grace,
    supervise,
    unless_stopped,
)
from uow.wake import WakeSignal

AT_ONCE = Backoff(initial_seconds=0.001, maximum_seconds=0.002)


class Stages:
    """Numbered batches and what was done with them."""

    def __init__(self, batches: int) -> None:
        self.left = list(range(1, batches))
        self.log: list[str] = []
        self.broken: str | None = None

    async def claim(self) -> int | None:
        await self._do("claim", self.left[0] if self.left else None)
        return self.left.pop(0) if self.left else None

    async def send(self, batch: int) -> str:
        await self._do("send", batch)
        return f"result {batch}"

    async def settle(self, batch: int, result: str) -> None:
        assert result == f"result {batch}"
        await self._do("settle", batch)

    async def _do(self, stage: str, batch: int | None) -> None:
        self.log.append(f"{stage} {batch}")
        await asyncio.sleep(0)
        if self.broken == f"{stage} {batch}":
            raise ZeroDivisionError(self.broken)


def flow(stages: Stages) -> Any:
    return run_pipeline(0, claim=stages.claim, send=stages.send, settle=stages.settle)


async def test_three_batches_are_in_three_stages_at_the_same_time() -> None:
    stages = Stages(3)
    await flow(stages)
    assert stages.log == [
        *("send 0", "claim 1"),
        *("send 1", "claim 2", "settle 0"),
        *("send 2", "claim None", "settle 1"),
        "settle 2",
    ]


@pytest.mark.parametrize(
    ("broken", "settled"),
    [("claim 1", {0}), ("send 1", {0, 2}), ("settle 0", {0, 1, 2})],
)
async def test_after_an_error_nothing_more_is_claimed_and_what_is_in_hand_goes_through(
    broken: str, settled: set[int]
) -> None:
    stages = Stages(10)
    stages.broken = broken
    with pytest.raises(ZeroDivisionError):
        await flow(stages)
    done = {int(each.split()[1]) for each in stages.log if each.startswith("settle")}
    assert done == settled
    assert len([each for each in stages.log if each.startswith("claim")]) <= 2


async def test_cancelling_the_pipeline_cancels_its_stages() -> None:
    never = asyncio.Event()
    cancelled: list[int] = []

    async def wait(batch: int) -> None:
        try:
            await never.wait()
        except asyncio.CancelledError:
            cancelled.append(batch)
            raise

    async def nothing(*_arguments: Any) -> None: ...

    task = asyncio.create_task(run_pipeline(7, claim=nothing, send=wait, settle=nothing))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == [7]


async def answers() -> None: ...


async def away() -> None:
    raise BrokerUnavailableError("away")


async def test_the_circuit_asks_before_anything_is_claimed_and_closes_when_it_is_answered() -> None:
    circuit = Circuit(answers, pauses=AT_ONCE)
    assert not circuit.usable
    assert await circuit.wait_until_usable(StopRequest())
    assert circuit.closed


async def test_after_an_outage_the_circuit_is_on_trial_until_a_message_is_taken() -> None:
    circuit = Circuit(answers, pauses=AT_ONCE)
    await circuit.wait_until_usable(StopRequest())
    circuit.judge([Verdict.CONFIRMED, Verdict.UNKNOWN])
    assert circuit.state is CircuitState.OPEN
    await circuit.wait_until_usable(StopRequest())
    assert circuit.state is CircuitState.TRIAL
    circuit.judge([])
    assert circuit.state is CircuitState.TRIAL
    circuit.judge([Verdict.REFUSED])
    assert circuit.closed


async def test_a_broker_that_stays_away_is_asked_with_growing_pauses_until_the_stop() -> None:
    pauses: list[float] = []
    stop = StopRequest()

    class Noting(Backoff):
        def delay_seconds(self, failures: int) -> float:
            pauses.append(super().delay_seconds(failures))
            if len(pauses) == 5:
                stop.request()
            return 0.0

    circuit = Circuit(away, pauses=Noting(initial_seconds=1, maximum_seconds=8, jitter=0))
    assert not await circuit.wait_until_usable(stop)
    assert pauses == [1, 2, 4, 8, 8]


async def test_an_outage_is_told_once_at_its_beginning_and_once_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answering = [away, away, away, answers]

    async def answer_or_not() -> None:
        await answering.pop(0)()

    circuit = Circuit(answer_or_not, pauses=AT_ONCE)
    with caplog.at_level(logging.INFO, logger="relay.publishing.circuit"):
        await circuit.wait_until_usable(StopRequest())
    assert [record.getMessage()[:20] for record in caplog.records] == [
        "the broker is away (",
        "the broker answers a",
    ]


async def test_slots_are_granted_first_come_first_served_and_never_beyond_the_limit() -> None:
    slots = Slots(3)
    first, second, third = slots.request(2), slots.request(2), slots.request(1)
    assert (first.result(), second.result()) == (2, 1)
    assert not third.done()
    slots.give_back(2)
    assert third.result() == 1
    assert slots.in_use == 2


async def test_a_cancelled_reservation_leaves_nothing_granted() -> None:
    slots = Slots(1)
    held = slots.request(1)
    waiting = asyncio.create_task(slots.reserve(1))
    await asyncio.sleep(0)
    slots.give_back(held.result())
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert slots.request(1).result() == 1


async def test_a_reservation_given_up_while_it_waits_is_passed_over() -> None:
    slots = Slots(1)
    held = slots.request(1)
    waiting = asyncio.create_task(slots.reserve(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    slots.give_back(held.result())
    assert slots.in_use == 0


async def test_paused_slots_grant_nothing_until_they_are_resumed() -> None:
    slots = Slots(2)
    held = slots.request(1)
    slots.pause()
    waiting = slots.request(1)
    idle = asyncio.create_task(slots.idle())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not idle.done()
    slots.give_back(held.result())
    await idle
    slots.resume()
    assert waiting.result() == 1


async def test_a_loop_that_fails_is_logged_counted_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    health = LoopHealth(name="the loop")
    runs = 0

    async def body() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise ZeroDivisionError("a defect")
        health.tick()

    await supervise(body, health, StopRequest(), pauses=AT_ONCE)
    assert (runs, health.restarts, health.last_error, health.running) == (3, 2, "ZeroDivisionError", False)
    assert health.failing_since is None
    assert caplog.text.count("the loop: failed and will run again: ZeroDivisionError: a defect") == 2
    assert "in body" in caplog.text


async def test_an_outage_is_one_line_and_never_shows_the_parameters_of_a_statement(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[Exception] = [
        OperationalError("INSERT", {"payload": "secret-1"}, ConnectionRefusedError("refused")),
        IntegrityError("INSERT", {"payload": "secret-2"}, sqlite3.IntegrityError("(secret-3)")),
    ]

    async def body() -> None:
        if errors:
            raise errors.pop(0)

    await supervise(body, LoopHealth(name="the loop"), StopRequest(), pauses=AT_ONCE)
    assert "waits for an outage to end" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OperationalError("x", {}, OSError()), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (BrokerUnavailableError("away"), True),
        (ExceptionGroup("x", [OSError(), TimeoutError()]), True),
        (ExceptionGroup("x", [OSError(), ValueError()]), False),
        (DataError("x", {}, ValueError()), False),
        (ZeroDivisionError(), False),
    ],
)
def test_outages_are_told_from_defects(error: Exception, expected: bool) -> None:
    assert is_outage(error) is expected


async def test_a_loop_that_pauses_after_an_error_ends_at_once_when_it_is_stopped() -> None:
    stop = StopRequest()
    health = LoopHealth(name="the loop")

    async def body() -> None:
        raise ZeroDivisionError

    task = asyncio.create_task(
        supervise(body, health, stop, pauses=Backoff(initial_seconds=3600, maximum_seconds=3600))
    )
    await asyncio.sleep(0)
    stop.request()
    await asyncio.wait_for(task, 5)


async def test_work_is_cancelled_at_the_end_of_its_grace_and_errors_come_through() -> None:
    stop = StopRequest()
    stop.request()
    forever = asyncio.Event()
    await asyncio.wait_for(run_with_grace(_wait(forever), stop, grace_seconds=0.01, name="work"), 5)

    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_with_grace(fail(), stop, grace_seconds=5, name="work")


async def test_a_stop_cancels_what_waits_and_keeps_what_is_there() -> None:
    stop = StopRequest()

    async def three() -> int:
        return 3

    assert await unless_stopped(three(), stop) == 3
    waiting = asyncio.create_task(unless_stopped(_wait(asyncio.Event()), stop))
    await asyncio.sleep(0)
    stop.request()
    assert await asyncio.wait_for(waiting, 5) is None


async def test_an_idle_loop_polls_more_and_more_rarely_up_to_its_limit() -> None:
    waits: list[float] = []

    class Waiter:
        async def wait(self, timeout_seconds: float) -> bool:
            waits.append(timeout_seconds)
            return len(waits) == 5

    polling = AdaptivePolling(Waiter(), maximum_seconds=0.3)  # type: ignore[arg-type]
    for _ in range(6):
        await polling.wait()
    polling.found()
    await polling.wait()
    assert waits == [0.05, 0.1, 0.2, 0.3, 0.3, 0.05, 0.05]


def test_each_verdict_has_its_settlement_and_its_outcome() -> None:
    options = OutboxOptions(lease_seconds=60, backoff=Backoff(initial_seconds=5, jitter=0))
    row = ClaimedMessage(7, make_message(), failure_count=2)
    expected = {
        Verdict.CONFIRMED: (SettlementKind.PUBLISHED, None, None, "published"),
        Verdict.UNSENT: (SettlementKind.RELEASE, None, 0.0, "publish_failed"),
        Verdict.UNKNOWN: (SettlementKind.RELEASE, None, 60.0, "publish_failed"),
        Verdict.RETRY: (SettlementKind.RETRY, "nack", 20.0, "publish_failed"),
        Verdict.REFUSED: (SettlementKind.DEAD_LETTER, "refused", None, "dead_letter"),
    }
    for verdict in Verdict:
        settlement = settlement_of(row, PublishResult(verdict), options)
        found = (settlement.kind, settlement.error_code, settlement.delay_seconds, outcome_of(verdict).value)
        assert found == expected[verdict]
    too_large = settlement_of(row, PublishResult(Verdict.REFUSED, "too_large", "2 MiB"), options)
    assert (too_large.error_code, too_large.error_detail) == ("too_large", "2 MiB")


@pytest.mark.parametrize("option", RelayOptions.__dataclass_fields__)
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_every_option_must_be_positive_and_is_named(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=option):
        RelayOptions(**{option: value})


def test_a_clean_up_statement_deletes_at_most_ten_thousand_rows() -> None:
    assert RelayOptions(retention_batch_size=10_000).retention_batch_size == 10_000
    with pytest.raises(ValueError, match=r"retention_batch_size must be .* 1 to 10000, not 10001"):
        RelayOptions(retention_batch_size=10_001)


def test_a_lease_in_which_a_batch_cannot_finish_is_refused() -> None:
    check_publishing_options(lease_seconds=60, confirm_timeout_seconds=15, connect_timeout_seconds=5)
    with pytest.raises(OptionRuleError, match=r"lease_seconds \(40\) must be greater than 40"):
        check_publishing_options(lease_seconds=40, confirm_timeout_seconds=15, connect_timeout_seconds=5)


def test_a_broker_that_takes_a_delivery_back_while_its_handler_may_run_is_refused() -> None:
    check_consuming_options(
        acknowledgement_timeout_seconds=125.1,
        busy_wait_limit_seconds=5,
        processing_timeouts=[("billing", 120), ("shipping", 10)],
    )
    with pytest.raises(OptionRuleError, match=r"\(125\).*120, consumer 'billing'"):
        check_consuming_options(
            acknowledgement_timeout_seconds=125,
            busy_wait_limit_seconds=5,
            processing_timeouts=[("shipping", 10), ("billing", 120)],
        )


async def test_a_wake_signal_wakes_only_those_who_are_there() -> None:
    signal = WakeSignal()
    with signal.waiter() as waiter:
        pass
    signal()
    assert not await waiter.wait(0.01)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
