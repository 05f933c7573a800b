"""What a host needs of a schedule in force: what is stored of it, how missed slots count, its jitter."""

from hashlib import sha256

from jobs.schedule.declaring.catalog import EffectiveSchedule
from jobs.schedule.storing.reconcile import DeclaredSchedule
from jobs.schedule.storing.slot_plan import MissRule


def declared_of(schedule: EffectiveSchedule) -> DeclaredSchedule:
    """What is stored of a schedule."""
    declaration = schedule.declaration
    return DeclaredSchedule(
        name=declaration.name,
        module=declaration.module,
        trigger=schedule.trigger,
        enabled=declaration.enabled,
        critical=declaration.critical,
        override_source=schedule.override_source,
    )


def miss_rule_of(schedule: EffectiveSchedule) -> MissRule:
    """How it treats missed slots."""
    declaration = schedule.declaration
    return MissRule(
        policy=declaration.misfire,
        grace=declaration.misfire_grace,
        limit=declaration.catch_up_limit,
        age=declaration.catch_up_age,
    )


def jitter_ticks_of(name: str, most_milliseconds: int) -> int:
    """How long after its slots a schedule starts: the same at every slot and on every host."""
    if most_milliseconds < 1:
        return 0
    drawn = int.from_bytes(sha256(name.encode()).digest()[:8]) % (most_milliseconds + 1)
    return drawn * 10_000
