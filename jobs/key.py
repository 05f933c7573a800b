"""The identities of jobs and of their attempts."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """One job: the digest of its scope, and its id there."""

    scope_hash: bytes
    job_id: str


@dataclass(frozen=True, slots=True)
class AttemptReference:
    """One execution of a job. `token` is drawn when it starts and fences every later write.

    ordinal: 1 for the first attempt of the job.
    """

    scope_hash: bytes
    job_id: str
    ordinal: int
    token: UUID

    def __hash__(self) -> int:
        return hash(self.token)  # drawn at random; the others would only cost time

    @property
    def key(self) -> JobKey:
        """The job."""
        return JobKey(self.scope_hash, self.job_id)
