"""What an executor says became of an attempt."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from jobs.key import AttemptReference
from jobs.table import CODE_UNITS, TEXT_UNITS
from uow.text import clean_text

UNSPECIFIED: Final = "unspecified"
"""The error code of a failure that came with a blank one."""

_LONGEST_DELAY_SECONDS: Final = 100 * 366 * 86_400.0


class SettlementKind(StrEnum):
    """The three ways in which an attempt ends."""

    SUCCEED = "succeed"
    FAIL = "fail"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of one attempt. Build it with `succeed`, `fail` or `interrupt`.

    Texts are made fit to be stored and cut (result_reference and error_detail to 1000 UTF-16 units,
    error_code to 64), so that none of them can leave a job running. requeue: another attempt follows in
    `delay_seconds`, if no cancellation is asked for and attempts are left. counts: whether this attempt
    used one up. Raises ValueError for a delay that is no time.
    """

    reference: AttemptReference
    kind: SettlementKind
    result_reference: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    requeue: bool = False
    counts: bool = True
    delay_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.delay_seconds) and 0 <= self.delay_seconds <= _LONGEST_DELAY_SECONDS):
            raise ValueError(f"delay_seconds must be 0 to {_LONGEST_DELAY_SECONDS}, not {self.delay_seconds}")
        for name, units in (
            ("result_reference", TEXT_UNITS),
            ("error_code", CODE_UNITS),
            ("error_detail", TEXT_UNITS),
        ):
            text = getattr(self, name)
            if text is not None:
                object.__setattr__(self, name, clean_text(text, units=units))
        if self.error_code is not None and not self.error_code.strip():
            object.__setattr__(self, "error_code", UNSPECIFIED)

    @classmethod
    def succeed(cls, reference: AttemptReference, *, result_reference: str | None = None) -> Self:
        """Done. `result_reference` says where the result is; it is kept unless a cancellation came first."""
        return cls(reference=reference, kind=SettlementKind.SUCCEED, result_reference=result_reference)

    @classmethod
    def fail(
        cls,
        reference: AttemptReference,
        *,
        error_code: str,
        error_detail: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> Self:
        """Failed. With `retry_after_seconds` another attempt follows then, if any is left."""
        return cls(
            reference=reference,
            kind=SettlementKind.FAIL,
            error_code=error_code,
            error_detail=error_detail,
            requeue=retry_after_seconds is not None,
            delay_seconds=retry_after_seconds or 0.0,
        )

    @classmethod
    def interrupt(
        cls,
        reference: AttemptReference,
        *,
        error_code: str = "interrupted",
        error_detail: str | None = None,
        requeue: bool = False,
        counts: bool = True,
        delay_seconds: float = 0.0,
    ) -> Self:
        """Ended from outside, without a verdict of its handler.

        A planned shutdown gives `requeue` where the handler may run again, and `counts=False`.
        """
        return cls(
            reference=reference,
            kind=SettlementKind.INTERRUPT,
            error_code=error_code,
            error_detail=error_detail,
            requeue=requeue,
            counts=counts,
            delay_seconds=delay_seconds,
        )
