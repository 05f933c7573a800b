"""What a handler may say instead of succeeding. These are wishes of the business, not errors of ours."""

from datetime import timedelta


class RetryAfter(Exception):  # noqa: N818 - a wish, not an error
    """Raise it to end this attempt and be called again after `delay`; it counts as a failed attempt.

    Everything the attempt wrote is rolled back. Raises ValueError unless the delay is positive.
    """

    def __init__(self, delay: timedelta | float, reason: str = "") -> None:
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
        if not 0 < seconds <= 366 * 86_400:
            raise ValueError(f"delay must be positive and at most 366 days, not {seconds} s")
        super().__init__(reason or f"retry after {seconds:g} s")
        self.delay_seconds = seconds


class Reject(Exception):  # noqa: N818 - a wish, not an error
    """Raise it when no retry can help: the message is dead-lettered at once and waits for an operator."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
