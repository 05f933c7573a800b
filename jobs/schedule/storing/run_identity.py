"""The jobs and the identities of runs: the same for one slot, whoever fires it."""

from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.ground import HANDLER_PREFIX, SCOPE
from jobs.submission import JobSubmission
from uow.ticks import UtcInstant

_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:selfmanaged:schedule-run")


def slot_job_id(name: str, nominal: UtcInstant) -> str:
    """The id of the job of one slot."""
    return f"{name}@{nominal}"


def run_id_of(job_id: str) -> UUID:
    """The id of the run whose job this is."""
    return uuid5(_NAMESPACE, job_id)


def job_of(name: str, *, job_id: str, nominal: UtcInstant, cause: Cause, **options: Any) -> JobSubmission:
    """The job of one run of a schedule."""
    arguments = {"schedule": name, "nominal": str(nominal), "cause": cause.value}
    return JobSubmission.create(
        scope=SCOPE, job_id=job_id, handler=f"{HANDLER_PREFIX}{name}", arguments=arguments, **options
    )
