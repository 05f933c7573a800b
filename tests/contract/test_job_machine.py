"""The life of jobs against a plain model, with stale tokens and a clock that jumps; on every database.

It runs through the sync drivers, which also shows that the store asks nothing of the async ones.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import Engine, MetaData, create_engine, delete, make_url, select

from jobs import (
    AttemptReference,
    CancelAnswer,
    ExecutionStatus,
    Fenced,
    JobIdentityConflictError,
    JobKey,
    JobOptions,
    JobState,
    JobStore,
    JobSubmission,
    ProgressAnswer,
    PutOff,
    RetryAnswer,
    Settled,
    Settlement,
    SettlementKind,
    StartedJob,
    add_job_tables,
)
from jobs.state import FINAL, RETRYABLE, AttemptState
from tests.support.job_model import TICKS, ModelJob
from tests.support.jobs import SCOPE, START, submission
from uow.sql.clock import PinnedClock
from uow.sql.sqlite import prepare_sqlite
from uow.ticks import UtcInstant

T = TypeVar("T")

DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
OPTIONS = JobOptions(lease_seconds=60)
QUEUES = ("mail", "Mail")
OLD_HANDLER = ("invoices.render", 1)
PUT_OFF_SECONDS = 30
SOON = UtcInstant.from_datetime(START + timedelta(seconds=60))

# Identities that other rules of comparing would take for one.
SCOPED = [
    (SCOPE, submission("a", queue="mail", max_attempts=2)),
    (SCOPE, submission("A", queue="mail", max_attempts=3, priority=7)),
    (SCOPE, submission("a ", queue="Mail", max_attempts=1, version=2)),
    (SCOPE, submission("\xe4", queue="mail", max_attempts=2, version=2, not_before=SOON)),
    (SCOPE.upper(), submission("a", scope=SCOPE.upper(), queue="Mail", max_attempts=100, priority=-100)),
]
REQUESTS = {request.key: request for _, request in SCOPED}
SCOPE_OF = {request.key: scope for scope, request in SCOPED}
FORGERIES = {
    request.key: submission(request.key.job_id, scope=scope, arguments={"other": True})
    for scope, request in SCOPED
}

OWNERS = st.sampled_from(["executor-1", "executor-2"])
KEYS = st.sampled_from(sorted(REQUESTS))
DELAYS = st.sampled_from([None, 0.0, 5.0, 60.0])
TEXTS = st.sampled_from([None, "s3://bucket/ä", "x" * 1000])

tables = add_job_tables(MetaData())


class JobMachine(RuleBasedStateMachine):
    """Every verb answers as the model says, and every row is as the model says."""

    engine: ClassVar[Engine]

    def __init__(self) -> None:
        super().__init__()
        self.clock = PinnedClock(START)
        self.store = JobStore(tables, options=OPTIONS, clock=self.clock)
        self.model: dict[JobKey, ModelJob] = {}
        self.references: list[AttemptReference] = []
        for table in (tables.job, tables.attempt):
            self.run(lambda connection, table=table: connection.execute(delete(table)))

    def run(self, step: Callable[..., T], *arguments: Any, **options: Any) -> T:
        with self.engine.begin() as connection:
            return step(connection, *arguments, **options)

    @property
    def now(self) -> int:
        return UtcInstant.from_datetime(self.clock.moment).ticks

    @rule(keys=st.lists(KEYS, min_size=1, max_size=4))
    def submit(self, keys: list[JobKey]) -> None:
        submitted = self.run(self.store.submit_many, [REQUESTS[each] for each in keys])
        for place, (each, stored) in enumerate(zip(keys, submitted, strict=True)):
            assert stored.created == (each not in self.model and each not in keys[:place])
        for each in set(keys) - self.model.keys():
            not_before = REQUESTS[each].initial_not_before
            due = self.now if not_before is None else not_before.ticks
            self.model[each] = ModelJob(REQUESTS[each], created=self.now, next_run=due)
        for each, stored in zip(keys, submitted, strict=True):
            snapshot, model = stored.snapshot, self.model[each]
            assert REQUESTS[each].differs_from(snapshot) == ()
            assert (snapshot.key, snapshot.state, snapshot.priority) == (
                each,
                model.state,
                REQUESTS[each].priority,
            )
            assert (snapshot.created.ticks, snapshot.next_run.ticks) == (model.created, model.next_run)
            assert (snapshot.attempts_left, snapshot.attempt_count) == (
                model.attempts_left,
                len(model.attempts),
            )

    @rule(key=KEYS, others=st.lists(KEYS, max_size=2))
    def submit_forged(self, key: JobKey, others: list[JobKey]) -> None:
        if key in self.model or key in others:
            requests: list[JobSubmission] = [*(REQUESTS[each] for each in others), FORGERIES[key]]
            with pytest.raises(JobIdentityConflictError) as caught:
                self.run(self.store.submit_many, requests)
            assert caught.value.key == key
            assert "arguments" in caught.value.differs

    @rule(limit=st.integers(1, 3), queues=st.sets(st.sampled_from(QUEUES), min_size=1), owner=OWNERS)
    def start_many(self, limit: int, queues: set[str], owner: str) -> None:
        expected = self.first_due(queues, limit)
        due = self.run(self.store.get_due, queues, limit)
        assert Counter(job.priority for job in due) == Counter(lane[1] for lane in expected.elements())
        report = self.run(self.store.start_many, queues, limit=limit, owner=owner)
        assert report.put_off == ()
        self.check_taken([job.reference.key for job in report.started], expected)
        self.begin(report.started, owner)

    @rule(owner=OWNERS, limit=st.integers(1, 100))
    def start_known(self, owner: str, limit: int) -> None:
        """An executor of an older release: what it does not know is put off and not charged."""
        expected = self.first_due(QUEUES, limit)
        report = self.run(
            self.store.start_many,
            QUEUES,
            limit=limit,
            owner=owner,
            handlers=[OLD_HANDLER],
            put_off_seconds=PUT_OFF_SECONDS,
        )
        taken = [*(job.reference.key for job in report.started), *(job.key for job in report.put_off)]
        self.check_taken(taken, expected)
        assert {(job.handler, job.handler_version) for job in report.started} <= {OLD_HANDLER}
        self.begin(report.started, owner)
        self.put_off(report.put_off)

    def first_due(self, queues: Collection[str], limit: int) -> Counter[tuple[str, int]]:
        """How many jobs of each lane are to be taken, where one lane of a priority may go before another."""
        due = [job for job in self.model.values() if job.is_due(self.now) and job.submission.queue in queues]
        due.sort(key=lambda job: -job.submission.priority)
        return Counter(job.lane for job in due[:limit])

    def check_taken(self, taken: Sequence[JobKey], expected: Counter[tuple[str, int]]) -> None:
        assert len(set(taken)) == len(taken)
        jobs = [self.model[each] for each in taken]
        assert all(job.is_due(self.now) for job in jobs)
        by_priority = Counter[int]()
        for (_, priority), count in expected.items():
            by_priority[priority] += count
        assert Counter(job.submission.priority for job in jobs) == by_priority
        for job in jobs:
            left = [
                other.next_run
                for each, other in self.model.items()
                if each not in taken and other.lane == job.lane and other.is_due(self.now)
            ]
            assert all(job.next_run <= other for other in left)

    def begin(self, started: Sequence[StartedJob], owner: str) -> None:
        order = [(-job.priority, self.model[job.reference.key].next_run) for job in started]
        assert order == sorted(order)
        for job in started:
            model = self.model[job.reference.key]
            assert model.handler == (job.handler, job.handler_version)
            assert job.arguments == model.submission.arguments
            model.start(self.now, token=job.reference.token, owner=owner, lease_seconds=OPTIONS.lease_seconds)
            assert job.reference.ordinal == len(model.attempts)
            assert job.attempts_left == model.attempts_left
            assert job.reference.token not in {each.token for each in self.references}
            self.references.append(job.reference)

    def put_off(self, jobs: Sequence[PutOff]) -> None:
        for job in jobs:
            model = self.model[job.key]
            assert model.handler == (job.handler, job.handler_version) != OLD_HANDLER
            model.next_run = self.now + PUT_OFF_SECONDS * TICKS

    @rule(key=KEYS, owner=OWNERS)
    def try_start(self, key: JobKey, owner: str) -> None:
        model = self.model.get(key)
        started = self.run(self.store.try_start, key, owner=owner)
        if model is None or not model.is_due(self.now):
            assert started is Fenced.FENCED
        else:
            assert isinstance(started, StartedJob)
            self.begin([started], owner)

    @rule(data=st.data(), percent=st.integers(0, 100), message=TEXTS)
    def progress(self, data: st.DataObject, percent: int, message: str | None) -> None:
        for reference in self.some_references(data, most=1):
            model = self.held(reference)
            answer = self.run(self.store.progress, reference, percent, message)
            if model is None:
                assert answer is ProgressAnswer.FENCED
            elif model.cancel:
                assert answer is ProgressAnswer.CANCEL_REQUESTED
            elif percent < (model.percent or 0):
                assert answer is ProgressAnswer.LOWER
            else:
                assert answer is ProgressAnswer.RECORDED
                model.progress(percent, message)

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        references = self.some_references(data)
        assert self.run(self.store.renew, references) == self.statuses(references)
        for reference in references:
            if (model := self.held(reference)) is not None:
                model.renew(self.now, OPTIONS.lease_seconds)

    @rule(data=st.data())
    def ask_status(self, data: st.DataObject) -> None:
        references = self.some_references(data)
        assert self.run(self.store.execution_status_many, references) == self.statuses(references)

    def statuses(self, references: Collection[AttemptReference]) -> dict[AttemptReference, ExecutionStatus]:
        found = {}
        for reference in references:
            model = self.held(reference)
            if model is None:
                found[reference] = ExecutionStatus.ENDED
            else:
                found[reference] = (
                    ExecutionStatus.CANCEL_REQUESTED if model.cancel else ExecutionStatus.ACTIVE
                )
        return found

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        settlements = [self.drawn_settlement(data, each) for each in self.some_references(data)]
        held = [self.held(each.reference) for each in settlements]
        answers = self.run(self.store.settle_many, settlements)
        for settlement, model, answer in zip(settlements, held, answers, strict=True):
            if model is None:
                assert answer is Settled.FENCED
                continue
            model.end(
                self.now,
                AttemptState(_ENDS_AS[settlement.kind]),
                result=settlement.result_reference,
                error=settlement.error_code,
                requeue_seconds=settlement.delay_seconds if settlement.requeue else None,
                counts=settlement.counts,
            )
            assert answer.value == model.state.value

    def drawn_settlement(self, data: st.DataObject, reference: AttemptReference) -> Settlement:
        succeed = st.builds(Settlement.succeed, st.just(reference), result_reference=TEXTS)
        fail = st.builds(
            Settlement.fail, st.just(reference), error_code=st.just("timeout"), retry_after_seconds=DELAYS
        )
        interrupt = st.builds(
            Settlement.interrupt, st.just(reference), requeue=st.booleans(), counts=st.booleans()
        )
        return data.draw(succeed | fail | interrupt)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        key = self.some_key(data, JobState.RUNNING)
        answer = self.run(self.store.cancel, SCOPE_OF[key], key.job_id)
        model = self.model.get(key)
        if model is None:
            assert answer is CancelAnswer.NOT_FOUND
        elif model.state in FINAL:
            assert answer is CancelAnswer.FINAL
        else:
            queued = model.state is JobState.QUEUED
            assert answer is (CancelAnswer.CANCELLED if queued else CancelAnswer.REQUESTED)
            model.request_cancel(self.now)

    @rule(data=st.data(), delay=DELAYS)
    def retry(self, data: st.DataObject, delay: float | None) -> None:
        key = self.some_key(data, *RETRYABLE)
        run = None if delay is None else UtcInstant(self.now + round(delay * TICKS))
        answer = self.run(self.store.retry, SCOPE_OF[key], key.job_id, next_run=run)
        model = self.model.get(key)
        if model is None:
            assert answer is RetryAnswer.NOT_FOUND
        elif model.state not in RETRYABLE:
            assert answer is RetryAnswer.INVALID_STATE
        elif model.attempts_left == 0:
            assert answer is RetryAnswer.NO_ATTEMPTS_LEFT
        else:
            assert answer is RetryAnswer.QUEUED
            model.retry(self.now if run is None else run.ticks)

    @rule(data=st.data(), requeue=st.booleans(), counts=st.booleans())
    def recover(self, data: st.DataObject, requeue: bool, counts: bool) -> None:
        for reference in self.some_references(data, most=1):
            model = self.model.get(reference.key)
            runs = model is not None and model.runs(reference)
            answer = self.run(self.store.recover, reference, requeue=requeue, counts=counts)
            if model is None or not runs:
                assert answer is Settled.FENCED
                continue
            self.interrupt(model, "interrupted", requeue=requeue, counts=counts)
            assert answer.value == model.state.value

    @rule(limit=st.integers(1, 3), hopeless=KEYS)
    def recover_expired(self, limit: int, hopeless: JobKey) -> None:
        expired = {
            each: model.expires
            for each, model in self.model.items()
            if model.expires is not None and model.expires <= self.now
        }
        recovered = self.run(
            self.store.recover_expired,
            limit=limit,
            requeue=lambda attempt: attempt.reference.key != hopeless,
        )
        taken = [each.attempt.reference.key for each in recovered]
        first = sorted(expired.values())[:limit]
        assert [expired[each] for each in taken] == first
        for each in recovered:
            reference = each.attempt.reference
            model = self.model[reference.key]
            assert model.runs(reference)
            self.interrupt(model, "lease_expired", requeue=reference.key != hopeless)
            assert each.settled.value == model.state.value

    def interrupt(self, model: ModelJob, error: str, *, requeue: bool, counts: bool = True) -> None:
        delay = 0.0 if requeue else None
        model.end(self.now, AttemptState.INTERRUPTED, error=error, requeue_seconds=delay, counts=counts)

    @rule(state=st.sampled_from(FINAL), age=st.sampled_from([0.0, 60.0]))
    def cleanup(self, state: JobState, age: float) -> None:
        before = self.now - round(age * TICKS)
        old = [
            each
            for each, model in self.model.items()
            if model.state is state and model.completed is not None and model.completed < before
        ]
        assert self.run(self.store.cleanup, state) == 0
        assert self.run(self.store.cleanup, state, older_than_seconds=age) == len(old)
        for each in old:
            del self.model[each]

    @rule(seconds=st.sampled_from([0.000001, 5, 5, 59.999999, 60]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def held(self, reference: AttemptReference) -> ModelJob | None:
        model = self.model.get(reference.key)
        return model if model is not None and model.is_held(reference, self.now) else None

    def some_references(self, data: st.DataObject, most: int = 4) -> list[AttemptReference]:
        """Some of those that are held at this moment, and of all that ever were."""
        if not self.references:
            return []
        held = [reference for reference in self.references if self.held(reference) is not None]
        drawn = st.sampled_from(held or self.references) | st.sampled_from(self.references)
        return data.draw(st.lists(drawn, min_size=1, max_size=most, unique=True))

    def some_key(self, data: st.DataObject, *states: JobState) -> JobKey:
        """One in these states, or any."""
        inside = sorted(each for each, model in self.model.items() if model.state in states)
        return data.draw(st.sampled_from(inside) | KEYS if inside else KEYS)

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        jobs = self.run(lambda connection: connection.execute(select(*_job_columns())).all())
        assert {JobKey(*row[:2]): _plain(row[2:]) for row in jobs} == {
            each: model.row() for each, model in self.model.items()
        }
        rows = self.run(lambda connection: connection.execute(select(*_attempt_columns())).all())
        assert {(row[0], row[1], row[2]): _plain(row[3:]) for row in rows} == {
            (each.scope_hash, each.job_id, ordinal): attempt.row()
            for each, model in self.model.items()
            for ordinal, attempt in enumerate(model.attempts, start=1)
        }
        for model in self.model.values():
            model.check()


_ENDS_AS = {
    SettlementKind.SUCCEED: "succeeded",
    SettlementKind.FAIL: "failed",
    SettlementKind.INTERRUPT: "interrupted",
}


def _plain(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value.ticks if isinstance(value, UtcInstant) else value for value in values)


def _job_columns() -> list[Any]:
    names = (
        "scope_hash", "job_id", "state", "queued_in", "next_run_ticks", "attempt_count", "forgiven_count",
        "attempt_token", "owner", "lease_expires_ticks", "heartbeat_ticks", "cancel_requested",
        "progress_percent", "progress_message", "result_reference", "error_code", "completed_ticks",
    )  # fmt: skip
    return [tables.job.c[name] for name in names]


def _attempt_columns() -> list[Any]:
    names = (
        "scope_hash", "job_id", "ordinal", "token", "owner", "started_ticks", "state", "ended_ticks",
        "progress_percent", "progress_message", "result_reference", "error_code",
    )  # fmt: skip
    return [tables.attempt.c[name] for name in names]


def test_jobs_live_as_the_model_says(database_kind: str, database_url: str) -> None:
    engine = create_engine(make_url(database_url).set(drivername=DRIVERS[database_kind]))
    prepare_sqlite(engine)
    tables.job.metadata.create_all(engine)

    class Machine(JobMachine):
        pass

    Machine.engine = engine
    try:
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            Machine,
            settings=settings(
                max_examples=25,
                stateful_step_count=50,
                deadline=None,
                # Making a failure smaller takes minutes on a server; add Phase.shrink to look into one.
                phases=[Phase.explicit, Phase.reuse, Phase.generate],
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
    finally:
        engine.dispose()
