"""What a relay says became of claimed rows, and what the store answers."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from uow.text import check_text, clean_text

ERROR_CODE_UNITS: Final = 64
ERROR_DETAIL_UNITS: Final = 1000


class SettlementKind(StrEnum):
    """The four things that can become of a claimed row."""

    PUBLISHED = "published"
    """The broker has it."""
    RETRY = "retry"
    """This try failed by a verdict about this message; it is tried again, or dead-lettered after the last."""
    DEAD_LETTER = "dead_letter"
    """No further try can help; an operator must look at it."""
    RELEASE = "release"
    """No verdict about this message (an outage, a stop); given back, and it costs no attempt."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of one claimed row. Build it with `published`, `retry`, `dead_letter` or `release`.

    error_code (at most 64 UTF-16 units) is asked for with RETRY and DEAD_LETTER. error_detail must not hold
    payload; it is cut to 1000 UTF-16 units. delay_seconds is the time before the row may be claimed again:
    asked for with RETRY, zero by default with RELEASE, not allowed otherwise. Raises ValueError.
    """

    sequence: int
    kind: SettlementKind
    error_code: str | None = None
    error_detail: str | None = None
    delay_seconds: float | None = None

    def __post_init__(self) -> None:
        failed = self.kind in {SettlementKind.RETRY, SettlementKind.DEAD_LETTER}
        delayed = self.kind in {SettlementKind.RETRY, SettlementKind.RELEASE}
        if failed != (self.error_code is not None):
            rule = "asked for" if failed else "not allowed"
            raise ValueError(f"error_code is {rule} with {self.kind.name}")
        if self.error_code is not None:
            check_text("error_code", self.error_code, units=ERROR_CODE_UNITS, control=False, blank=False)
        if self.delay_seconds is None:
            if self.kind is SettlementKind.RETRY:
                raise ValueError("delay_seconds is asked for with RETRY")
        elif not delayed or not (math.isfinite(self.delay_seconds) and self.delay_seconds >= 0):
            raise ValueError(f"delay_seconds must be a time of RETRY or RELEASE, not {self.delay_seconds}")
        if self.error_detail is not None:
            detail = clean_text(self.error_detail, units=ERROR_DETAIL_UNITS)
            object.__setattr__(self, "error_detail", detail)

    @classmethod
    def published(cls, sequence: int) -> Self:
        """The broker has it."""
        return cls(sequence=sequence, kind=SettlementKind.PUBLISHED)

    @classmethod
    def retry(
        cls, sequence: int, *, delay_seconds: float, error_code: str, error_detail: str | None = None
    ) -> Self:
        """Failed; to be tried again after `delay_seconds`, unless this was the last try."""
        return cls(
            sequence=sequence,
            kind=SettlementKind.RETRY,
            error_code=error_code,
            error_detail=error_detail,
            delay_seconds=delay_seconds,
        )

    @classmethod
    def dead_letter(cls, sequence: int, *, error_code: str, error_detail: str | None = None) -> Self:
        """Failed for good."""
        return cls(
            sequence=sequence,
            kind=SettlementKind.DEAD_LETTER,
            error_code=error_code,
            error_detail=error_detail,
        )

    @classmethod
    def release(cls, sequence: int, *, delay_seconds: float = 0.0) -> Self:
        """Given back without a verdict; may be claimed again after `delay_seconds`."""
        return cls(sequence=sequence, kind=SettlementKind.RELEASE, delay_seconds=delay_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleReport:
    """Which rows (by sequence) came to what; together they are exactly the rows that were to be settled.

    dead_lettered: those given up, with those whose last retry had failed. lost: those that were ours no
    longer (lease expired, taken over, fenced off by a replay), left as they are; count and log them.
    """

    published: tuple[int, ...] = ()
    retried: tuple[int, ...] = ()
    dead_lettered: tuple[int, ...] = ()
    released: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
