"""How many jobs of which queues are claimed next: by free slots, limits of queues and bytes of arguments."""

from typing import Any
from uuid import uuid4

import pytest

from jobs import AttemptReference, ExecutorOptions, StartedJob
from jobs.execution.argument_budget import ArgumentBudget
from jobs.execution.queue_shares import QueueShare, QueueShares
from uow.ticks import UtcInstant

MEBIBYTE = 1024 * 1024


def started(size: int) -> StartedJob:
    return StartedJob(
        reference=AttemptReference(bytes(32), "j", 1, uuid4()),
        handler="a",
        handler_version=1,
        queue="default",
        priority=0,
        arguments="x" * size,
        attempts_left=1,
        created=UtcInstant.now(),
        correlation_id=None,
        traceparent=None,
        tracestate=None,
    )


class TestArgumentBudget:
    def test_it_begins_small_and_grows_with_what_was_claimed(self) -> None:
        budget = ArgumentBudget(64 * MEBIBYTE)
        limits = []
        for _ in range(4):
            limits.append(budget.limit(1000))
            budget.take([started(4)] * budget.limit(1000))
        assert limits == [16, 128, 1000, 1000]
        assert budget.limit(3) == 3

    def test_large_arguments_leave_room_for_as_many_as_fit_beside_those_in_hand(self) -> None:
        budget = ArgumentBudget(MEBIBYTE)
        large = [started(MEBIBYTE // 4)] * 2
        budget.take(large)
        assert budget.limit(1000) == 2
        budget.take(large)
        assert budget.limit(1000) == 0
        budget.give_back(large[0])
        assert budget.limit(1000) == 1

    def test_one_claim_may_exceed_it_and_the_next_waits(self) -> None:
        budget = ArgumentBudget(MEBIBYTE)
        jobs = [started(MEBIBYTE)] * 3
        budget.take(jobs)
        assert budget.limit(5) == 0
        for job in jobs[:2]:
            budget.give_back(job)
            assert budget.limit(5) == 0
        budget.give_back(jobs[2])
        assert budget.limit(5) == 1, "with nothing in hand the greatest fits"

    def test_a_claim_without_a_job_teaches_nothing(self) -> None:
        budget = ArgumentBudget(MEBIBYTE)
        budget.take([started(MEBIBYTE // 2)])
        budget.take([])
        assert budget.limit(5) == 1


def shares(**options: Any) -> QueueShares:
    return QueueShares(ExecutorOptions(**options))


class TestQueueShares:
    def test_queues_without_a_limit_are_claimed_from_together(self) -> None:
        divided = shares(queues=("a", "b"))
        assert divided.next_shares() == [("a", "b")]
        assert divided.share(("a", "b"), 7) == QueueShare(queues=("a", "b"), limit=7)

    def test_each_with_a_limit_is_claimed_from_apart_and_first_in_turn(self) -> None:
        divided = shares(
            queues=("a", "b", "c", "d"), queue_concurrency={"c": 2, "a": 1}, queue_limits={"a": 3}
        )
        orders = [divided.next_shares() for _ in range(3)]
        assert {tuple(sorted(order)) for order in orders} == {(("a",), ("b", "d"), ("c",))}
        assert sorted(order[0] for order in orders) == [("a",), ("b", "d"), ("c",)]

    def test_what_runs_here_counts_against_the_limit_here(self) -> None:
        divided = shares(queues=("a",), queue_concurrency={"a": 3})
        assert divided.share(("a",), 10).limit == 3
        divided.began(["a", "a"])
        assert divided.share(("a",), 10).limit == 1
        divided.began(["a"])
        assert divided.share(("a",), 10).limit == 0
        divided.ended("a")
        assert divided.share(("a",), 10).limit == 1
        assert divided.share(("a",), 0).limit == 0

    def test_a_limit_everywhere_is_handed_on_to_the_claim(self) -> None:
        divided = shares(queues=("a", "b"), queue_limits={"a": 5}, queue_concurrency={"a": 2})
        assert divided.share(("a",), 10) == QueueShare(queues=("a",), limit=2, limit_everywhere=5)
        assert divided.is_limited_everywhere("a")
        assert not divided.is_limited_everywhere("b")

    @pytest.mark.parametrize("queues", [("a",), ("a", "b")])
    def test_every_queue_is_in_one_share(self, queues: tuple[str, ...]) -> None:
        divided = shares(queues=queues, queue_limits={"a": 1})
        for _ in range(3):
            assert sorted(queue for share in divided.next_shares() for queue in share) == list(queues)
