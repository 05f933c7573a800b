"""Which failures of a handler another attempt may mend, and when it comes."""

from dataclasses import dataclass, field

from uow.backoff import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a failed attempt is followed by another one, as long as the job has attempts left.

    on: exceptions of these classes are retried. give_up_on: those of these are not, although `on` has them.
    backoff: the delay, which grows with the number of the attempt. Subclass it for other rules. Without a
    policy nothing is retried but what the handler asks for with RetryAfter; Reject is never retried.
    """

    on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()
    backoff: Backoff = field(default_factory=Backoff)

    def __post_init__(self) -> None:
        for name in ("on", "give_up_on"):
            kinds = getattr(self, name)
            classes = isinstance(kinds, tuple) and all(isinstance(kind, type) for kind in kinds)
            if not (classes and all(issubclass(kind, BaseException) for kind in kinds)):
                raise ValueError(f"{name} must be a tuple of classes of exceptions, not {kinds!r}")

    def delay_seconds(self, error: BaseException, attempt: int) -> float | None:
        """How long to wait before the attempt after `attempt` (1 is the first); None to give up."""
        if isinstance(error, self.give_up_on) or not isinstance(error, self.on):
            return None
        return self.backoff.delay_seconds(attempt)
