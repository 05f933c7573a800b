"""A recovered job comes back when its recovery says."""

from jobs import ExpiredAttempt, JobState
from tests.support.jobs import StoredJobs, at, submission

pytest_plugins = ("tests.support.jobs_fixture",)


async def test_each_recovered_job_has_a_delay_of_its_own(stored: StoredJobs) -> None:
    for job_id in ("early", "late"):
        await stored.submit(submission(job_id))
        await stored.start(job_id)
    stored.advance(60)

    def delay_seconds(attempt: ExpiredAttempt) -> float:
        return 7.5 if attempt.reference.job_id == "late" else 0.0

    await stored.step(stored.store.recover_expired, delay_seconds=delay_seconds)
    jobs = {job_id: await stored.get(job_id) for job_id in ("early", "late")}
    assert {job.state for job in jobs.values()} == {JobState.QUEUED}
    assert {job_id: job.next_run for job_id, job in jobs.items()} == {"early": at(60), "late": at(67.5)}
