"""What a module says about one of its schedules."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy

POLICIES: Final = {
    "misfire": MisfirePolicy,
    "overlap": OverlapPolicy,
    "gap": GapPolicy,
    "fold": FoldPolicy,
}
"""The fields that hold a policy, and its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDeclaration:
    """Who a schedule is and when it is due by default: metadata alone, nothing of the work it does.

    Nothing is refused here: ScheduleCatalog.compose tells every fault of every declaration at once.

    name: 1 to 100 of `A-Z a-z 0-9 . _ -`; alarms, history and operators know the schedule by it, so it stays
    whatever becomes of classes and functions. module: to which it belongs.
    cron, interval: exactly one of them, or when disabled also none. time_zone: an IANA name, for cron.
    enabled: whether its slots fire; without, operators may still trigger it. critical: whether a release is
    held up while it cannot be relied on. source: where a deployment configures it, for people.
    misfire: what becomes of slots that are later than misfire_grace; `catch_up` makes up for at most
    catch_up_limit slots (1 to 10,000) that are not older than catch_up_age. overlap: what becomes of a slot
    that comes while a run has not ended. gap, fold: for times of day that a clock leaves out, or shows twice.
    jitter: the schedule starts up to this much (at most a day) after each slot, always by the same.
    succeed_within: how long ago the last success may be. queue, max_attempts (1 to 100), priority (-100 to
    100): of the jobs of its runs.
    """

    name: str
    module: str
    cron: str | None = None
    interval: timedelta | None = None
    time_zone: str = "UTC"
    enabled: bool = True
    critical: bool = False
    source: str = ""
    description: str = ""
    misfire: MisfirePolicy = MisfirePolicy.LATEST
    misfire_grace: timedelta = timedelta(seconds=60)
    catch_up_limit: int = 100
    catch_up_age: timedelta = timedelta(days=1)
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    gap: GapPolicy = GapPolicy.RUN_AFTER
    fold: FoldPolicy = FoldPolicy.FIRST
    jitter: timedelta = timedelta(0)
    succeed_within: timedelta | None = None
    queue: str = "default"
    max_attempts: int = 3
    priority: int = 0

    def __post_init__(self) -> None:
        for field, kind in POLICIES.items():
            value = getattr(self, field)
            if isinstance(value, str) and value in list(kind):  # also one that is given by its text
                object.__setattr__(self, field, kind(value))
