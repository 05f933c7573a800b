"""The executor of jobs of one process, put together from the parts of an App."""

from collections.abc import Collection
from dataclasses import replace

from jobs.execution.executor import JobExecutor
from jobs.execution.housekeeping import JobHousekeeping
from jobs.execution.options import ExecutorOptions
from jobs.execution.registry import JobRegistry
from jobs.schedule.hosting.envelope import AuditEnvelope
from jobs.schedule.hosting.host import ScheduleHost
from relay.composition.ground import JobGround, ProcessGround
from uow.errors import FixTheCodeError


class NothingToRunError(FixTheCodeError):
    """This process would have nothing to do, or nobody to hand work to; the text says what to give it."""


def make_executor(ground: ProcessGround, *, queues: Collection[str] | None) -> JobExecutor:
    """The executor of all handlers of the App, on `queues` or those of its options.

    Raises NothingToRunError, or JobOptionError for queues that no job can be in.
    """
    jobs = _jobs(ground)
    registries = [*ground.parts.work.registries, _schedule_handlers(ground)]
    if not any(len(registry) for registry in registries):
        raise NothingToRunError(
            "this App has neither handlers of jobs nor schedules; give it some: App(..., jobs=[registry])"
        )
    return JobExecutor(
        ground.parts.engine,
        jobs.store,
        registries,
        leases=ground.leases,
        unit_of_work=ground.handler_unit,
        wake=jobs.committed.local,
        made_room=jobs.committed,
        options=_with_queues(ground.parts.options.executor, queues),
    )


def make_job_housekeeping(ground: ProcessGround) -> JobHousekeeping:
    """Retention and diagnostics of jobs. Raises NothingToRunError."""
    return JobHousekeeping(
        ground.parts.engine, _jobs(ground).store, ground.leases, options=ground.parts.options.executor
    )


def make_schedule_host(ground: ProcessGround) -> ScheduleHost | None:
    """The host of the App's schedules, or None when it has none."""
    if ground.schedules is None or not ground.parts.work.schedules:
        return None
    return ScheduleHost(
        ground.parts.engine,
        ground.schedules.store,
        ground.parts.work.schedules,
        leases=ground.leases,
        committed=_jobs(ground).committed,
        options=ground.parts.options.schedules,
    )


def _schedule_handlers(ground: ProcessGround) -> JobRegistry:
    registry = JobRegistry()
    if ground.schedules is not None:
        envelope = AuditEnvelope(ground.parts.engine, ground.schedules.store, ground.handler_unit)
        for schedule in ground.parts.work.schedules.values():
            registry.add(envelope.handler_of(schedule))
    return registry


def _jobs(ground: ProcessGround) -> JobGround:
    if ground.jobs is None:
        raise NothingToRunError(
            "the tables of jobs were left out; call relay.add_messaging_tables(metadata) without jobs=False"
        )
    return ground.jobs


def _with_queues(options: ExecutorOptions, queues: Collection[str] | None) -> ExecutorOptions:
    if not queues:
        return options
    return replace(
        options,
        # A text alone is refused there, not taken for a queue of each letter.
        queues=queues if isinstance(queues, str) else tuple(queues),  # type: ignore[arg-type]
        queue_concurrency={name: most for name, most in options.queue_concurrency.items() if name in queues},
        queue_limits={name: most for name, most in options.queue_limits.items() if name in queues},
    )
