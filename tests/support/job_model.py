"""What stored jobs should be, in plain Python: nothing of the store's own code."""

from dataclasses import dataclass, field
from uuid import UUID

from jobs import AttemptReference, JobState, JobSubmission
from jobs.state import ATTEMPT_TRANSITIONS, FINAL, TRANSITIONS, AttemptState

TICKS = 10_000_000


@dataclass
class ModelAttempt:
    """What a row of the attempts should be."""

    token: UUID
    owner: str
    started: int
    state: AttemptState = AttemptState.RUNNING
    ended: int | None = None
    percent: int | None = None
    message: str | None = None
    result: str | None = None
    error: str | None = None

    def row(self) -> tuple[object, ...]:
        progress = (self.percent, self.message)
        return (
            self.token,
            self.owner,
            self.started,
            self.state,
            self.ended,
            *progress,
            self.result,
            self.error,
        )


@dataclass
class ModelJob:
    """What a row of the jobs should be."""

    submission: JobSubmission
    created: int
    next_run: int
    state: JobState = JobState.QUEUED
    attempts: list[ModelAttempt] = field(default_factory=list)
    forgiven: int = 0
    cancel: bool = False
    percent: int | None = None
    message: str | None = None
    result: str | None = None
    error: str | None = None
    expires: int | None = None
    heartbeat: int | None = None
    completed: int | None = None

    def row(self) -> tuple[object, ...]:
        running = self.state is JobState.RUNNING
        return (
            self.state,
            self.submission.queue if self.state is JobState.QUEUED else None,
            self.next_run,
            len(self.attempts),
            self.forgiven,
            self.attempts[-1].token if self.attempts else None,
            self.attempts[-1].owner if running else None,
            self.expires,
            self.heartbeat,
            int(self.cancel),
            self.percent,
            self.message,
            self.result,
            self.error,
            self.completed,
        )

    @property
    def attempts_left(self) -> int:
        return self.submission.max_attempts - (len(self.attempts) - self.forgiven)

    @property
    def handler(self) -> tuple[str, int]:
        return self.submission.handler, self.submission.handler_version

    @property
    def lane(self) -> tuple[str, int]:
        return self.submission.queue, self.submission.priority

    def is_due(self, now: int) -> bool:
        return self.state is JobState.QUEUED and self.next_run <= now

    def runs(self, reference: AttemptReference) -> bool:
        return self.state is JobState.RUNNING and self.attempts[-1].token == reference.token

    def is_held(self, reference: AttemptReference, now: int) -> bool:
        return self.runs(reference) and self.expires is not None and self.expires > now

    def become(self, state: JobState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state

    def start(self, now: int, *, token: UUID, owner: str, lease_seconds: float) -> None:
        assert self.attempts_left > 0
        self.become(JobState.RUNNING)
        self.attempts.append(ModelAttempt(token, owner, now))
        self.renew(now, lease_seconds)

    def renew(self, now: int, lease_seconds: float) -> None:
        self.expires, self.heartbeat = now + round(lease_seconds * TICKS), now

    def progress(self, percent: int, message: str | None) -> None:
        for each in (self, self.attempts[-1]):
            each.percent, each.message = percent, message

    def end(
        self,
        now: int,
        state: AttemptState,
        *,
        result: str | None = None,
        error: str | None = None,
        requeue_seconds: float | None = None,
        counts: bool = True,
    ) -> None:
        """The attempt ends; a cancellation comes first, then the wish for another attempt."""
        attempt = self.attempts[-1]
        self.forgiven += not counts
        state = AttemptState.CANCELLED if self.cancel else state
        assert state in ATTEMPT_TRANSITIONS[attempt.state]
        attempt.state, attempt.ended, attempt.error = state, now, error
        attempt.result = self.result = None if self.cancel else result
        self.error, self.expires, self.heartbeat = error, None, None
        if requeue_seconds is not None and not self.cancel and self.attempts_left > 0:
            self.become(JobState.QUEUED)
            self.next_run = now + round(requeue_seconds * TICKS)
            self.percent = self.message = None
        else:
            self.become(JobState(state.value))
            self.completed = now

    def request_cancel(self, now: int) -> None:
        self.cancel = True
        if self.state is JobState.QUEUED:
            self.become(JobState.CANCELLED)
            self.completed = now

    def retry(self, next_run: int) -> None:
        self.become(JobState.QUEUED)
        self.next_run, self.cancel = next_run, False
        self.percent = self.message = self.result = self.error = self.completed = None

    def check(self) -> None:
        """What holds whatever happened."""
        assert (self.completed is not None) == (self.state in FINAL)
        assert (self.expires is not None) == (self.state is JobState.RUNNING)
        assert self.attempts_left >= 0
        running = [attempt for attempt in self.attempts if attempt.state is AttemptState.RUNNING]
        assert len(running) == (self.state is JobState.RUNNING)
        if self.state is JobState.QUEUED:
            assert self.attempts_left > 0
            assert not self.cancel
