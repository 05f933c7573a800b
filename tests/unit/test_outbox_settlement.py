"""A settlement can only be said in ways that make sense."""

import pytest

from outbox import Settlement, SettlementKind
from uow.text import TextError


def test_the_four_outcomes() -> None:
    assert Settlement.published(1) == Settlement(1, SettlementKind.PUBLISHED)
    assert Settlement.retry(2, delay_seconds=5, error_code="nack", error_detail="d") == Settlement(
        2, SettlementKind.RETRY, "nack", "d", 5
    )
    assert Settlement.dead_letter(3, error_code="unroutable") == Settlement(
        3, SettlementKind.DEAD_LETTER, "unroutable"
    )
    assert Settlement.release(4) == Settlement(4, SettlementKind.RELEASE, delay_seconds=0.0)


@pytest.mark.parametrize("kind", [SettlementKind.RETRY, SettlementKind.DEAD_LETTER])
def test_a_failure_without_a_code_is_refused(kind: SettlementKind) -> None:
    with pytest.raises(ValueError, match=f"error_code is asked for with {kind.name}"):
        Settlement(1, kind, delay_seconds=5 if kind is SettlementKind.RETRY else None)


@pytest.mark.parametrize("kind", [SettlementKind.PUBLISHED, SettlementKind.RELEASE])
def test_a_code_without_a_failure_is_refused(kind: SettlementKind) -> None:
    with pytest.raises(ValueError, match=f"error_code is not allowed with {kind.name}"):
        Settlement(1, kind, "nack")


def test_a_retry_without_a_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="delay_seconds is asked for with RETRY"):
        Settlement(1, SettlementKind.RETRY, "nack")


@pytest.mark.parametrize("delay", [-0.001, float("nan"), float("inf")])
def test_a_delay_that_is_no_time_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="delay_seconds must be a time of RETRY or RELEASE, not"):
        Settlement.retry(1, delay_seconds=delay, error_code="nack")
    with pytest.raises(ValueError, match="delay_seconds must be a time of RETRY or RELEASE, not"):
        Settlement.release(1, delay_seconds=delay)


def test_a_delay_of_a_finished_row_is_refused() -> None:
    with pytest.raises(ValueError, match="delay_seconds must be a time of RETRY or RELEASE, not 1"):
        Settlement(1, SettlementKind.PUBLISHED, delay_seconds=1)


def test_an_error_code_fits_its_column_counted_in_utf16_units() -> None:
    assert Settlement.dead_letter(1, error_code="😀" * 32).error_code == "😀" * 32
    for code in ("x" * 65, "😀" * 33, "", "a\x00", "\ud800", "a\nb"):
        with pytest.raises(TextError, match="error_code"):
            Settlement.dead_letter(1, error_code=code)


def test_a_detail_is_cut_to_its_column_and_made_fit_to_be_stored() -> None:
    detail = Settlement.dead_letter(1, error_code="x", error_detail="\x00" + "😀" * 600).error_detail
    assert detail == "\ufffd" + "😀" * 499
