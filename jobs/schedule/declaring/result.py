"""What the executor of a schedule says about its run."""

from dataclasses import dataclass
from typing import Self

from jobs.table import CODE_UNITS
from uow.text import check_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """How a run ended; make it with `ok` or `failed`.

    summary: of a success, for people. code: of a failure, else empty. detail: of a failure, for people.
    """

    succeeded: bool
    summary: str | None = None
    code: str = ""
    detail: str = ""

    @classmethod
    def ok(cls, summary: str | None = None) -> Self:
        """The run did what it was for. summary: kept with the run, cut to 1000 UTF-16 units."""
        return cls(succeeded=True, summary=summary)

    @classmethod
    def failed(cls, code: str, detail: str = "") -> Self:
        """The business could not be done, as it may happen: the attempt fails, and others may follow.

        code: what failed, not blank, at most 64 UTF-16 units. detail: cut to 1000 units. Raises TextError.
        """
        check_text("code", code, units=CODE_UNITS, blank=False)
        return cls(succeeded=False, code=code, detail=detail)
