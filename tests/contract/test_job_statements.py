"""The number of statements of each verb does not grow with the batch."""

from collections.abc import Awaitable
from typing import Any

import pytest

from jobs import JobState, Settlement
from tests.support.jobs import SCOPE, StoredJobs, key, submission, submissions
from tests.support.statements import recorded_statements

pytest_plugins = ("tests.support.jobs_fixture",)

BATCHES = (1, 40, 600)

# Where WITH may change rows, a job and its attempt are changed in one statement; without UPDATE ... RETURNING
# rows are locked and read before they are changed.
EXPECTED = {
    "submit_many": {"postgresql": 1, "sqlite": 1, "mariadb": 2},
    "submit_many again": {"postgresql": 2, "sqlite": 2, "mariadb": 3},
    "get_due": {"postgresql": 2, "sqlite": 2, "mariadb": 2},
    "start_many": {"postgresql": 1, "sqlite": 3, "mariadb": 4},
    "start_many, some put off": {"postgresql": 1, "sqlite": 3, "mariadb": 5},
    "renew": {"postgresql": 1, "sqlite": 1, "mariadb": 2},
    "execution_status_many": {"postgresql": 1, "sqlite": 1, "mariadb": 1},
    "settle_many": {"postgresql": 1, "sqlite": 2, "mariadb": 2},
    "settle_many, all kinds": {"postgresql": 1, "sqlite": 2, "mariadb": 2},
    "settle_many, fenced": {"postgresql": 2, "sqlite": 2, "mariadb": 2},
    "recover_expired": {"postgresql": 2, "sqlite": 3, "mariadb": 3},
    "recover_expired, some abandoned": {"postgresql": 2, "sqlite": 3, "mariadb": 3},
    "list": {"postgresql": 1, "sqlite": 1, "mariadb": 1},
    "counts": {"postgresql": 4, "sqlite": 4, "mariadb": 4},
    "cleanup": {"postgresql": 3, "sqlite": 3, "mariadb": 3},
}
SINGLE = {
    "try_start": {"postgresql": 1, "sqlite": 2, "mariadb": 3},
    "progress": {"postgresql": 1, "sqlite": 2, "mariadb": 2},
    "succeed": {"postgresql": 1, "sqlite": 2, "mariadb": 2},
    "retry": {"postgresql": 1, "sqlite": 1, "mariadb": 1},
    "cancel": {"postgresql": 1, "sqlite": 1, "mariadb": 2},
    "get": {"postgresql": 1, "sqlite": 1, "mariadb": 1},
}


class Counting:
    """Runs verbs and remembers how many statements each of them took."""

    def __init__(self, stored: StoredJobs) -> None:
        self.stored = stored
        self.numbers: dict[str, int] = {}

    async def __call__(self, verb: str, work: Awaitable[Any]) -> Any:
        with recorded_statements(self.stored.engine) as statements:
            result = await work
        self.numbers[verb] = len(statements)
        return result


async def test_every_verb_takes_the_same_number_of_statements_for_any_batch(
    stored: StoredJobs, database_kind: str
) -> None:
    numbers = [await _numbers(stored, batch) for batch in BATCHES]
    by_verb = {verb: [each[verb] for each in numbers] for verb in EXPECTED}
    assert by_verb == {verb: [of_kind[database_kind]] * len(BATCHES) for verb, of_kind in EXPECTED.items()}


async def _numbers(stored: StoredJobs, batch: int) -> dict[str, int]:
    counted, store = Counting(stored), stored.store
    await stored.clear()
    requests = submissions(batch, prefix=f"{batch}-")
    await counted("submit_many", stored.submit(*requests))
    await counted("submit_many again", stored.submit(*requests))
    assert len(await counted("get_due", stored.step(store.get_due, ["default"], batch))) == batch
    report = await counted("start_many", stored.claim(limit=batch))
    references = [job.reference for job in report.started]
    assert len(references) == batch
    await counted("renew", stored.step(store.renew, references))
    await counted("execution_status_many", stored.step(store.execution_status_many, references))
    done = [Settlement.succeed(reference) for reference in references]
    await counted("settle_many", stored.settle(*done))
    await counted("settle_many, fenced", stored.settle(*done))
    await counted("list", stored.step(store.list, SCOPE, None, None, batch))
    await counted("counts", stored.step(store.counts))

    await stored.submit(*submissions(batch + 3, prefix=f"again {batch}-"))
    references = [job.reference for job in (await stored.claim(limit=batch + 3)).started]
    await counted("settle_many, all kinds", stored.settle(*_all_kinds(references)))
    await stored.claim()
    await stored.submit(*submissions(batch, prefix=f"lost {batch}-"))
    await stored.claim(limit=1000)
    stored.advance(60)
    recovered = await counted("recover_expired", stored.step(store.recover_expired, limit=batch))
    assert len(recovered) == batch

    await stored.submit(submission(f"other {batch}", handler="other"))
    known = [("invoices.render", 1)]
    report = await counted("start_many, some put off", stored.claim(limit=1000, handlers=known))
    assert len(report.put_off) == 1
    cleanup = stored.step(store.cleanup, JobState.SUCCEEDED, older_than_seconds=0, limit=batch)
    assert await counted("cleanup", cleanup) == batch

    await stored.clear()
    await stored.submit(*submissions(batch, prefix=f"unknown {batch}-", handler="unknown"))
    await stored.claim(limit=1000)
    stored.advance(2 * 86_400)
    recovering = stored.step(store.recover_expired, limit=batch, handlers=known)
    assert len(await counted("recover_expired, some abandoned", recovering)) == batch
    return counted.numbers


def _all_kinds(references: list[Any]) -> list[Settlement]:
    kinds = [
        lambda each: Settlement.succeed(each, result_reference=each.job_id),
        lambda each: Settlement.fail(each, error_code="e", error_detail=each.job_id),
        lambda each: Settlement.fail(each, error_code="e", retry_after_seconds=each.ordinal),
        lambda each: Settlement.interrupt(each, requeue=True, counts=False),
    ]
    return [kinds[number % 4](reference) for number, reference in enumerate(references)]


async def test_verbs_on_one_job_take_few(stored: StoredJobs, database_kind: str) -> None:
    counted, store = Counting(stored), stored.store
    await stored.submit(submission())
    started = await counted("try_start", stored.step(store.try_start, key(), owner="me"))
    await counted("progress", stored.step(store.progress, started.reference, 5))
    await counted("succeed", stored.step(store.succeed, started.reference))
    await stored.submit(submission("other"))
    await counted("cancel", stored.step(store.cancel, SCOPE, "other"))
    await counted("retry", stored.step(store.retry, SCOPE, "other"))
    await counted("get", stored.step(store.get, SCOPE, "other"))
    assert counted.numbers == {verb: of_kind[database_kind] for verb, of_kind in SINGLE.items()}


@pytest.mark.parametrize("database_kind", ["postgresql"])
async def test_the_text_of_a_statement_is_the_same_for_any_batch(stored: StoredJobs) -> None:
    """So it is built, compiled and planned once."""
    texts: list[set[str]] = []
    for batch in (3, 300):
        with recorded_statements(stored.engine) as statements:
            await stored.submit(*submissions(batch, prefix=f"{batch}-"))
            references = [job.reference for job in (await stored.claim(limit=batch)).started]
            await stored.step(stored.store.renew, references)
            await stored.settle(*map(Settlement.succeed, references))
        texts.append(set(statements))
    assert texts[0] == texts[1]
    assert len(texts[0]) == 4
