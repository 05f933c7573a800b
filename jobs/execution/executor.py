"""The executor: claims jobs, runs their handlers under leases, and settles what they ended in."""

import asyncio
from collections.abc import Callable, Collection, Iterable

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from jobs.answer import ExecutionStatus
from jobs.execution.attempt_run import AttemptRun
from jobs.execution.cancellation_watch import CancellationWatch
from jobs.execution.claim import Claimer
from jobs.execution.claiming import Claiming
from jobs.execution.options import ExecutorOptions
from jobs.execution.recovery import Recovery
from jobs.execution.registry import JobRegistry, handlers_of
from jobs.execution.runner import PATIENCE_SECONDS, AttemptRunner
from jobs.execution.settler import Settler
from jobs.execution.stop_reason import StopReason
from jobs.key import AttemptReference
from jobs.snapshot import StartedJob
from jobs.store import JobStore
from uow.loop.chore import owner_name
from uow.loop.renewal import LeaseKeeper
from uow.loop.supervision import LoopHealth, StopRequest, run_with_grace, supervise
from uow.sql.lease import LeaseStore
from uow.unit import SelfManagedUnitOfWork
from uow.wake import WakeSignal


class JobExecutor:
    """Runs due jobs of its queues until it is stopped; any number of executors share the work.

    engine: of the database of `store`. registries: whose handlers it runs. leases: for queues whose jobs are
    limited over all executors. unit_of_work: makes a new unit for each transactional attempt, with a
    JobCompletionParticipant of `store` among its participants. wake: ends the wait of an idle executor.
    made_room: called, to wake the others too, when a job of a queue with a limit over all executors has
    ended. owner: kept with each attempt, for people. Leases are renewed from a thread of their own, so a
    handler that blocks the event loop keeps its lease. Raises DuplicateJobHandlerError.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        store: JobStore,
        registries: Iterable[JobRegistry],
        *,
        leases: LeaseStore,
        unit_of_work: Callable[[], SelfManagedUnitOfWork],
        wake: WakeSignal | None = None,
        made_room: Callable[[], None] | None = None,
        options: ExecutorOptions | None = None,
        owner: str | None = None,
    ) -> None:
        self._store = store
        self._handlers = handlers_of(registries)
        self._options = options or ExecutorOptions()
        self._wake = wake or WakeSignal()
        self._made_room = made_room or self._wake
        self._unrecorded: set[AttemptRun] = set()
        self._stop = StopRequest()
        self._task: asyncio.Task[None] | None = None
        self._nothing_runs = StopRequest()
        self._runs: dict[AttemptReference, AttemptRun] = {}
        self._keeper: LeaseKeeper[AttemptReference] = LeaseKeeper(
            engine, self._renew, lease_seconds=store.lease_seconds, name="lease renewal of jobs"
        )
        self._settler = Settler(engine, store, self._keeper)
        self._runner = AttemptRunner(
            engine,
            store,
            self._settler,
            unit_of_work,
            recorded=self._recorded,
            ended=self._unrecorded.discard,
        )
        self._claiming, self._watch, self._recovery = self._loops(engine, leases, owner or owner_name())

    @property
    def health(self) -> tuple[LoopHealth, ...]:
        """How its loops stand."""
        return self._claiming.health, self._watch.health, self._recovery.health

    @property
    def running(self) -> Collection[AttemptReference]:
        """The attempts that run here now."""
        return tuple(self._runs)

    async def run(self) -> None:
        """Execute until `stop`; then see it."""
        grace_seconds = self._options.stop_grace_seconds
        self._task = asyncio.current_task()
        try:
            await run_with_grace(
                self._run_loops(), self._stop, grace_seconds=grace_seconds, name="job executor"
            )
        finally:
            await self._close()

    def stop(self) -> None:
        """Claim nothing more. Running handlers get the grace period and are then cancelled.

        What ended is settled; the jobs of the others are queued again, without using up an attempt, where
        their handlers allow that. Then `run` ends.
        """
        self._stop.request()
        self._wake()

    async def _run_loops(self) -> None:
        async with asyncio.TaskGroup() as watching:
            watching.create_task(supervise(self._watch.run, self._watch.health, self._nothing_runs))
            async with asyncio.TaskGroup() as group:
                for loop in (self._claiming, self._recovery):
                    group.create_task(supervise(loop.run, loop.health, self._stop))
            while self._runs:
                await asyncio.wait([run.over for run in self._runs.values()])
                await asyncio.sleep(0)
            self._nothing_runs.request()

    async def _close(self) -> None:
        try:
            await self._end_all()
        finally:
            await self._keeper.close()

    async def _end_all(self) -> None:
        runs = list(self._runs.values())
        for run in runs:
            run.ask_to_stop(StopReason.SHUTDOWN)
        if runs:
            await asyncio.wait([run.over for run in runs], timeout=PATIENCE_SECONDS)
        for run in runs:
            self._runner.give_up(run)
        await self._runner.given_up()
        # The tasks of those that were given up, now or before, go on alone, perhaps for ever.
        if tasks := [run.task for run in self._unrecorded if run.task is not None and not run.given_up]:
            await asyncio.wait(tasks)
        await self._settler.idle()

    def _loops(
        self, engine: AsyncEngine, leases: LeaseStore, owner: str
    ) -> tuple[Claiming, CancellationWatch, Recovery]:
        claimer = Claimer(
            store=self._store,
            leases=leases,
            owner=owner,
            handlers=self._handlers.keys(),
            put_off_seconds=self._options.unknown_handler_seconds,
        )
        poll_seconds = self._options.status_poll_seconds
        return (
            Claiming(engine, claimer, self._begin, options=self._options, wake=self._wake, stop=self._stop),
            CancellationWatch(
                engine, self._store, self._runs, poll_seconds=poll_seconds, stop=self._nothing_runs
            ),
            Recovery(engine, self._store, self._handlers, stop=self._stop),
        )

    def _begin(self, jobs: tuple[StartedJob, ...], claimed_at: float) -> None:
        self._keeper.hold([job.reference for job in jobs], claimed_at=claimed_at, on_lost=self._lose)
        loop = asyncio.get_running_loop()
        self._runner.look()
        ending, report = self._is_ending, self._runner.call.report
        for job in jobs:
            handler = self._handlers[job.handler, job.handler_version]
            run = AttemptRun(job, handler, report, on_end=self._end)
            self._runs[job.reference] = run
            if ending:  # since it was being claimed: it does not begin any more
                run.ask_to_stop(StopReason.SHUTDOWN)
            run.task = loop.create_task(self._runner.run(run), name=handler.task_name)
            self._unrecorded.add(run)

    @property
    def _is_ending(self) -> bool:
        return self._stop.requested or (self._task is not None and self._task.cancelling() > 0)

    def _end(self, run: AttemptRun) -> None:
        self._runs.pop(run.reference, None)
        self._claiming.ended(run.job)

    def _recorded(self, run: AttemptRun) -> None:
        if self._claiming.makes_room(run.job.queue):
            self._made_room()

    def _lose(self, reference: AttemptReference) -> None:
        run = self._runs.get(reference)
        if run is not None:
            run.ask_to_stop(StopReason.LEASE_LOST)

    def _renew(
        self, connection: Connection, references: Collection[AttemptReference]
    ) -> list[AttemptReference]:
        statuses = self._store.renew(connection, references)
        return [reference for reference, status in statuses.items() if status is ExecutionStatus.ENDED]
