"""What it means for a job that its handler has failed."""

import logging
from dataclasses import dataclass
from typing import Final

from jobs.execution.errors import JobArgumentsError, JobFailure, JobResultError, JobTimeoutError
from jobs.execution.handler import JobHandler
from jobs.settlement import Settlement
from jobs.snapshot import StartedJob
from uow.failure_text import class_path, failure_detail, single_cause
from uow.outcome import Reject, RetryAfter

HANDLER_ERROR: Final = "handler_error"
REJECTED: Final = "rejected"
RETRY_AFTER: Final = "retry_after"
TIMEOUT: Final = "timeout"
ARGUMENTS: Final = "arguments"
RESULT: Final = "result"
DATABASE_LOST: Final = "database_lost"
SHUTDOWN: Final = "shutdown"
CANCELLED: Final = "cancelled"

_CODES: Final = (
    (Reject, REJECTED),
    (RetryAfter, RETRY_AFTER),
    (JobTimeoutError, TIMEOUT),
    (JobArgumentsError, ARGUMENTS),
    (JobResultError, RESULT),
)
VERDICTS: Final = (JobFailure, *(kind for kind, _ in _CODES))
"""What a handler says itself about its attempt."""
_LONGEST_DELAY_SECONDS: Final = 366 * 86_400.0
_PERMANENT: Final = (Reject, JobArgumentsError, JobResultError)

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed attempt: how it is settled, and the class of what its handler raised, for telemetry."""

    settlement: Settlement
    kind: str


def failure_of(error: BaseException, job: StartedJob, handler: JobHandler) -> Failure:
    """What to record of an attempt that ended in `error`.

    A group with a single exception in it (a TaskGroup of which one child failed) counts as that exception.
    """
    cause = single_cause(error)
    settlement = Settlement.fail(
        job.reference,
        error_code=_code(cause),
        error_detail=_detail(cause, job),
        retry_after_seconds=_delay_seconds(cause, job, handler),
    )
    return Failure(settlement=settlement, kind=class_path(cause))


def _code(cause: BaseException) -> str:
    if isinstance(cause, JobFailure):
        try:
            return str(cause.code)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - of a class of the host that makes none; its class is told
            return HANDLER_ERROR
    return next((code for kind, code in _CODES if isinstance(cause, kind)), HANDLER_ERROR)


def _detail(cause: BaseException, job: StartedJob) -> str:
    return failure_detail(cause, handler_input=job.arguments)


def _delay_seconds(cause: BaseException, job: StartedJob, handler: JobHandler) -> float | None:
    if isinstance(cause, _PERMANENT) or job.attempts_left < 1:
        return None
    try:
        delay = _wished_seconds(cause, job, handler)
        return None if delay is None else min(max(0.0, float(delay)), _LONGEST_DELAY_SECONDS)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the host's code; logged, and the failure is recorded
        _log.error(
            "the retry policy of handler %s failed (%s); the job is not retried",
            handler.name,
            class_path(error),
        )
        return None


def _wished_seconds(cause: BaseException, job: StartedJob, handler: JobHandler) -> float | None:
    if isinstance(cause, RetryAfter):
        return cause.delay_seconds
    return None if handler.retry is None else handler.retry.delay_seconds(cause, job.reference.ordinal)
