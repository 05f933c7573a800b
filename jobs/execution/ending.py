"""How the call of a handler ended, before anything of it is recorded."""

from dataclasses import dataclass
from typing import Final, assert_never

from jobs.answer import Settled
from jobs.execution.attempt_run import AttemptRun
from jobs.execution.errors import JobTimeoutError
from jobs.execution.failure import CANCELLED, DATABASE_LOST, SHUTDOWN, TIMEOUT, failure_of
from jobs.execution.stop_reason import StopReason
from jobs.recover import INTERRUPTED
from jobs.settlement import Settlement, SettlementKind
from jobs.state import AttemptState
from uow.telemetry import JobOutcome

_DATABASE_PAUSE_SECONDS: Final = 5.0
_OUTCOMES: Final = {
    Settled.SUCCEEDED: JobOutcome.SUCCEEDED,
    Settled.FAILED: JobOutcome.FAILED,
    Settled.CANCELLED: JobOutcome.CANCELLED,
    Settled.INTERRUPTED: JobOutcome.INTERRUPTED,
    Settled.QUEUED: JobOutcome.INTERRUPTED,
    Settled.FENCED: JobOutcome.LEASE_LOST,
    Settled.ATTEMPT_MISSING: JobOutcome.LEASE_LOST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is to be recorded of an attempt.

    settlement: how it is to be settled; None when there is nothing to record: it was committed with its
    effects (`outcome` is then SUCCEEDED), or it is not ours any more (LEASE_LOST). error: what the handler
    raised, for the log. error_type: for telemetry.
    """

    settlement: Settlement | None = None
    outcome: JobOutcome = JobOutcome.SUCCEEDED
    error: BaseException | None = None
    error_type: str | None = None


COMMITTED: Final = Ending()
LOST: Final = Ending(outcome=JobOutcome.LEASE_LOST, error_type="lease_lost")


def succeeded(run: AttemptRun, result: str | None) -> Ending:
    """The handler of a plain attempt returned in time."""
    return Ending(settlement=Settlement.succeed(run.reference, result_reference=result))


def failed(run: AttemptRun, error: BaseException) -> Ending:
    """The handler raised `error`, and nobody had asked it to end."""
    failure = failure_of(error, run.job, run.handler)
    return Ending(settlement=failure.settlement, error=error, error_type=failure.kind)


def timed_out(run: AttemptRun, cause: BaseException | None = None) -> Ending:
    """The handler took too long, whatever it did then."""
    error = JobTimeoutError(f"the handler took longer than {run.timeout_seconds or 0:g} s")
    error.__cause__ = cause
    return Ending(
        settlement=failure_of(error, run.job, run.handler).settlement, error=error, error_type=TIMEOUT
    )


def cancelled(run: AttemptRun) -> Ending:
    """Someone had asked for the end of the job; the store makes it cancelled."""
    return Ending(
        settlement=Settlement.interrupt(
            run.reference, error_code=CANCELLED, error_detail="its cancellation was asked for while it ran"
        )
    )


def _shut_down(run: AttemptRun) -> Ending:
    """The executor stops: that uses up no attempt."""
    return Ending(
        settlement=Settlement.interrupt(
            run.reference,
            error_code=SHUTDOWN,
            error_detail="its executor was stopped before the handler had ended",
            requeue=run.handler.requeue_interrupted or not run.called,
            counts=False,
        )
    )


def database_lost(run: AttemptRun, error: BaseException) -> Ending:
    """The database, not the handler, kept a transactional attempt from committing: nothing was committed."""
    return Ending(
        settlement=Settlement.interrupt(
            run.reference,
            error_code=DATABASE_LOST,
            error_detail=f"{type(error).__name__}: its transaction could not be committed",
            requeue=run.handler.requeue_interrupted,
            delay_seconds=_DATABASE_PAUSE_SECONDS,
        ),
        error=error,
        error_type=DATABASE_LOST,
    )


def interrupted(run: AttemptRun) -> Ending:
    """Its task was cancelled by someone else, as when the event loop ends: that counts, as a crash does."""
    return Ending(
        settlement=Settlement.interrupt(
            run.reference,
            error_code=INTERRUPTED,
            error_detail="the task in which its handler ran was cancelled from outside",
            requeue=run.handler.requeue_interrupted or not run.called,
        )
    )


def stopped(run: AttemptRun, reason: StopReason, error: BaseException | None) -> Ending:
    """The handler ended without a result after it was asked to end."""
    match reason:
        case StopReason.LEASE_LOST:
            return LOST
        case StopReason.TIMEOUT:
            return timed_out(run, error)
        case StopReason.CANCEL_REQUESTED:
            return cancelled(run)
        case StopReason.SHUTDOWN:
            return _shut_down(run)
        case _:
            assert_never(reason)


def outcome_of(settlement: Settlement, settled: Settled | None) -> JobOutcome:
    """How an attempt counts that was settled so; None says that its lease ran out before it could be."""
    if settled is Settled.QUEUED and settlement.kind is SettlementKind.FAIL:
        return JobOutcome.RETRY_SCHEDULED
    return JobOutcome.LEASE_LOST if settled is None else _OUTCOMES[settled]


def outcome_in(state: AttemptState | None, settlement: Settlement | None) -> JobOutcome | None:
    """How an attempt counts that was found in this state, which is ours; None when that cannot be said."""
    match state:
        case AttemptState.SUCCEEDED:
            return JobOutcome.SUCCEEDED
        case AttemptState.CANCELLED:
            return JobOutcome.CANCELLED
        case AttemptState.FAILED:
            retried = settlement is not None and settlement.requeue
            return JobOutcome.RETRY_SCHEDULED if retried else JobOutcome.FAILED
        case AttemptState.INTERRUPTED | AttemptState.RUNNING | None:
            return None
        case _:
            assert_never(state)
