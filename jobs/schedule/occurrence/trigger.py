"""What cron schedules and intervals have in common."""

from typing import Final, Protocol

from uow.ticks import UtcInstant

UPCOMING_LIMIT: Final = 1000
"""No listing of occurrences is longer than this."""


class Trigger(Protocol):
    """When something is due again: an immutable value, equal to another that is described alike.

    Nothing here reads a clock: an occurrence depends on the instants given and on nothing else.
    """

    def next_after(self, previous: UtcInstant) -> UtcInstant | None:
        """The first occurrence later than `previous`, the stored one; None when there is none any more."""
        ...

    def latest_until(self, previous: UtcInstant, until: UtcInstant) -> UtcInstant | None:
        """The newest occurrence later than `previous` and not later than `until`, None when there is none.

        That is where stepping on from `previous` would come to, found without the steps between.
        """
        ...

    def describe(self) -> str:
        """One line of ASCII that is the same exactly when the trigger is: store it to notice a change."""
        ...


def upcoming(trigger: Trigger, after: UtcInstant, count: int) -> tuple[UtcInstant, ...]:
    """The next `count` occurrences later than `after`, fewer when there are no more; for people to look at.

    Raises ValueError unless count is 1 to 1000.
    """
    if type(count) is not int or not 1 <= count <= UPCOMING_LIMIT:
        raise ValueError(f"count must be between 1 and {UPCOMING_LIMIT}, not {count!r}")
    found: list[UtcInstant] = []
    instant = trigger.next_after(after)
    while instant is not None:
        found.append(instant)
        instant = trigger.next_after(instant) if len(found) < count else None
    return tuple(found)
