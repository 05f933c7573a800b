"""The success of a job, committed with the effects of its handler."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from sqlalchemy import Connection

from jobs.answer import Settled
from jobs.errors import AttemptFencedError, AttemptMissingError, JobCancelledError
from jobs.key import AttemptReference
from jobs.settlement import Settlement
from jobs.store import JobStore
from uow.participant import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompletion:
    """Stage it in a unit of work to make an attempt succeed with its commit."""

    reference: AttemptReference
    result_reference: str | None = None


class JobCompletionParticipant:
    """Writes the success of staged attempts just before COMMIT, each under its token.

    An attempt that is ours no longer, or whose job was cancelled before, raises and so rolls back all the
    effects of its handler: database effects happen exactly once.
    """

    def __init__(self, store: JobStore) -> None:
        self._store = store

    def accepts(self, item: object) -> bool:
        """Whether `item` is a JobCompletion."""
        return isinstance(item, JobCompletion)

    def stage(self, item: Any, **options: Any) -> Staged:
        """Keep the reference; there is nothing to serialize."""
        if options:
            raise TypeError(f"a JobCompletion takes no options, not {', '.join(sorted(options))}")
        return Staged(key=item.reference.key, content=item, value=item)

    def conflict(self, staged: Staged, earlier: Staged) -> Exception:
        """One job completed twice in one unit, under two tokens or with two results."""
        completion: JobCompletion = staged.value
        return AttemptFencedError(completion.reference)

    def write(self, connection: Connection, staged: Sequence[Staged]) -> str | None:
        """Complete all. Raises AttemptFencedError, JobCancelledError or AttemptMissingError."""
        completions: list[JobCompletion] = [each.value for each in staged]
        settlements = [
            Settlement.succeed(each.reference, result_reference=each.result_reference) for each in completions
        ]
        settled = self._store.settle_many(connection, settlements)
        for completion, outcome in zip(completions, settled, strict=True):
            _require_success(completion.reference, outcome)
        return None

    def committed(self, staged: Sequence[Staged]) -> None:
        """Nothing to tell: the executor counts what it ran."""


def _require_success(reference: AttemptReference, settled: Settled) -> None:
    match settled:
        case Settled.SUCCEEDED:
            return
        case Settled.CANCELLED:
            raise JobCancelledError(reference)
        case Settled.ATTEMPT_MISSING:
            raise AttemptMissingError(reference)
        case Settled.FENCED | Settled.FAILED | Settled.INTERRUPTED | Settled.QUEUED:
            raise AttemptFencedError(reference)
        case _:
            assert_never(settled)
