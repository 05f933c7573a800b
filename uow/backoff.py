"""Exponential back-off with jitter."""

import random
from dataclasses import dataclass

from uow.option_rule import require_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays in seconds: `initial_seconds` doubling to `maximum_seconds`, each shortened by up to `jitter`.

    `jitter` is the share (0 to 1) of a delay that chance may take away, so that failures that came
    together do not come back together. Raises ValueError naming the option and the rule.
    """

    initial_seconds: float = 5.0
    maximum_seconds: float = 900.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        require_seconds("initial_seconds", self.initial_seconds)
        require_seconds("maximum_seconds", self.maximum_seconds)
        if not self.maximum_seconds >= self.initial_seconds:
            raise ValueError(
                f"maximum_seconds must be at least initial_seconds ({self.initial_seconds}), "
                f"not {self.maximum_seconds}"
            )
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter must be between 0 and 1, not {self.jitter}")

    def delay_seconds(self, failures: int) -> float:
        """How long to wait after the `failures`-th failure in a row (1 is the first)."""
        doublings = min(max(failures, 1) - 1, 62)
        delay = min(self.initial_seconds * 2.0**doublings, self.maximum_seconds)
        return delay * (1 - self.jitter * random.random())  # noqa: S311 - spreads load, guards nothing
