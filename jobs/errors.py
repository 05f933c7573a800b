"""What jobs refuse, by who must act."""

from collections.abc import Sequence

from jobs.key import AttemptReference, JobKey
from uow.errors import FixTheCodeError, LookAtItError, TryAgainError


class JobOptionError(FixTheCodeError, ValueError):
    """An option has a value its rule forbids; the text names option, value and rule."""


class JobSubmissionError(FixTheCodeError, ValueError):
    """A part of a submission breaks its rule; the text names field and rule, never the arguments.

    `field` is the part, `rule` what it broke.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}")
        self.field = field
        self.rule = rule

    def __reduce__(self) -> tuple[type["JobSubmissionError"], tuple[str, str]]:
        return type(self), (self.field, self.rule)


class JobIdentityConflictError(FixTheCodeError):
    """One job identity with two requests: give the other request an id of its own, or submit the same again.

    `differs` names what differs; values are never shown. Priority and trace take no part.
    """

    def __init__(self, key: JobKey, differs: Sequence[str]) -> None:
        super().__init__(
            f"job {key.job_id!r} of this scope was submitted before with another request "
            f"({', '.join(differs)}); what asks for something else needs an id of its own"
        )
        self.key = key
        self.differs = tuple(differs)

    def __reduce__(self) -> tuple[type["JobIdentityConflictError"], tuple[JobKey, tuple[str, ...]]]:
        return type(self), (self.key, self.differs)


class UnfitSessionError(FixTheCodeError):
    """An independent submission got a session that is not its own: the sessionmaker must make new ones."""


class JobVanishedError(TryAgainError):
    """Jobs were neither added nor found: something deletes them at the moment they are submitted again."""


class JobNotFoundError(LookAtItError):
    """This scope has no such job, whatever other scopes have."""

    def __init__(self, key: JobKey) -> None:
        super().__init__(f"there is no job {key.job_id!r} in this scope")
        self.key = key

    def __reduce__(self) -> tuple[type["JobNotFoundError"], tuple[JobKey]]:
        return type(self), (self.key,)


class AttemptMissingError(LookAtItError):
    """A running job has no row of its attempt, so nothing was changed; someone deleted history by hand."""

    def __init__(self, reference: AttemptReference) -> None:
        super().__init__(
            f"job {reference.job_id!r} is running but the row of its attempt {reference.ordinal} is gone"
        )
        self.reference = reference

    def __reduce__(self) -> tuple[type["AttemptMissingError"], tuple[AttemptReference]]:
        return type(self), (self.reference,)


class AttemptFencedError(TryAgainError):
    """The attempt is no longer ours (expired, ended, taken over), so its unit of work is rolled back."""

    def __init__(self, reference: AttemptReference) -> None:
        super().__init__(
            f"attempt {reference.ordinal} of job {reference.job_id!r} is held no longer; "
            "its effects are rolled back"
        )
        self.reference = reference

    def __reduce__(self) -> tuple[type["AttemptFencedError"], tuple[AttemptReference]]:
        return type(self), (self.reference,)


class JobCancelledError(TryAgainError):
    """The job was cancelled before its success was committed, so its unit of work is rolled back."""

    def __init__(self, reference: AttemptReference) -> None:
        super().__init__(
            f"job {reference.job_id!r} was cancelled before attempt {reference.ordinal} could commit; "
            "its effects are rolled back"
        )
        self.reference = reference

    def __reduce__(self) -> tuple[type["JobCancelledError"], tuple[AttemptReference]]:
        return type(self), (self.reference,)
