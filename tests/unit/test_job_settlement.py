"""What an attempt ended with is made fit to be stored, whatever it is; only a delay can be refused."""

from uuid import UUID

import pytest

from jobs import AttemptReference, JobOptionError, JobOptions, JobState, Settlement, SettlementKind
from jobs.state import ATTEMPT_TRANSITIONS, FINAL, RETRYABLE, TRANSITIONS, AttemptState
from uow.text import character_fault, utf16_units

REFERENCE = AttemptReference(b"x" * 32, "j", 1, UUID(int=1))
HORRORS = ["\x00" * 3, "\ud800", "a" * 10_000_000, "😀" * 5_000_000, "é\x00\udfff" * 1_000_000]


@pytest.mark.parametrize("text", HORRORS, ids=["nul", "surrogate", "ascii", "emoji", "mixed"])
def test_any_text_is_made_fit_and_cut(text: str) -> None:
    done = Settlement.succeed(REFERENCE, result_reference=text)
    failed = Settlement.fail(REFERENCE, error_code=text, error_detail=text)
    interrupted = Settlement.interrupt(REFERENCE, error_code=text, error_detail=text)
    texts = [
        (done.result_reference, 1000),
        (failed.error_code, 64),
        (failed.error_detail, 1000),
        (interrupted.error_code, 64),
        (interrupted.error_detail, 1000),
    ]
    for cleaned, units in texts:
        assert cleaned
        assert character_fault(cleaned) is None
        assert utf16_units(cleaned) <= units


def test_texts_of_exactly_the_limit_are_kept() -> None:
    done = Settlement.succeed(REFERENCE, result_reference="😀" * 500)
    assert done.result_reference == "😀" * 500
    failed = Settlement.fail(REFERENCE, error_code="c" * 64, error_detail="d" * 1000)
    assert (failed.error_code, failed.error_detail) == ("c" * 64, "d" * 1000)


@pytest.mark.parametrize("code", ["", "  ", "\n"])
def test_a_blank_error_code_becomes_unspecified(code: str) -> None:
    assert Settlement.fail(REFERENCE, error_code=code).error_code == "unspecified"


def test_the_three_ways_to_end_an_attempt() -> None:
    assert Settlement.succeed(REFERENCE).kind is SettlementKind.SUCCEED
    final = Settlement.fail(REFERENCE, error_code="timeout")
    again = Settlement.fail(REFERENCE, error_code="timeout", retry_after_seconds=0)
    assert (final.requeue, again.requeue, again.counts) == (False, True, True)
    planned = Settlement.interrupt(REFERENCE, requeue=True, counts=False)
    assert (planned.kind, planned.requeue, planned.counts) == (SettlementKind.INTERRUPT, True, False)


@pytest.mark.parametrize("delay", [-0.001, float("nan"), float("inf"), 1e12])
def test_a_delay_must_be_a_time(delay: float) -> None:
    with pytest.raises(ValueError, match="delay_seconds must be"):
        Settlement.fail(REFERENCE, error_code="timeout", retry_after_seconds=delay)


@pytest.mark.parametrize("seconds", [0.999, 0, -1, float("nan"), float("inf"), "60", True])
def test_a_lease_lasts_at_least_a_second(seconds: object) -> None:
    with pytest.raises(JobOptionError, match="lease_seconds must be at least 1 and finite, not"):
        JobOptions(lease_seconds=seconds)  # type: ignore[arg-type]


def test_retention_is_off_by_default_and_separate_for_each_final_state() -> None:
    assert {JobOptions().retention_seconds(state) for state in JobState} == {None}
    options = JobOptions(
        succeeded_retention_seconds=1,
        failed_retention_seconds=2,
        cancelled_retention_seconds=0,
        interrupted_retention_seconds=4,
    )
    assert [options.retention_seconds(state) for state in FINAL] == [1, 2, 0, 4]
    with pytest.raises(JobOptionError, match="failed_retention_seconds"):
        JobOptions(failed_retention_seconds=-1)


def test_the_states_that_end_are_those_that_lead_nowhere_or_back_to_the_queue() -> None:
    for state, following in TRANSITIONS.items():
        assert (state in FINAL) == (following <= {JobState.QUEUED} and state is not JobState.QUEUED)
        assert (state in RETRYABLE) == (state in FINAL and JobState.QUEUED in following)
    assert all(not ATTEMPT_TRANSITIONS[state] for state in AttemptState if state is not AttemptState.RUNNING)
    assert {state.value for state in FINAL} == {state.value for state in AttemptState} - {"running"}
