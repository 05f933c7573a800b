"""Time limits of a unit of work."""

from dataclasses import dataclass

from uow.option_rule import require_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOptions:
    """How long a unit of work waits for a database that does not answer.

    commit_patience_seconds: once the caller is cancelled, how much longer a running COMMIT may take before
    its connection is dropped and its outcome is unknown. Without a cancellation COMMIT has no limit.
    cleanup_seconds: how long ROLLBACK and giving the connection back may take before it is dropped.
    Raises ValueError naming the option and the rule.
    """

    commit_patience_seconds: float = 15.0
    cleanup_seconds: float = 5.0

    def __post_init__(self) -> None:
        for option in ("commit_patience_seconds", "cleanup_seconds"):
            require_seconds(option, getattr(self, option))
