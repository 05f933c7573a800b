"""Which failed messages are meant: what the filters of outbox, inbox and operators have in common."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from uow.text import check_text

_MOST: Final = 2**31 - 1
_TEXTS: Final = ("contract_name", "consumer", "error_code")
_MOMENTS: Final = ("failed_from", "failed_before")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFilter:
    """Which failed messages; everything given must hold.

    failed_from (inclusive) and failed_before (exclusive) are aware moments. Raises ValueError naming the
    field for a moment without a zone, a version that is none, or a text that no store may hold.
    """

    contract_name: str | None = None
    contract_version: int | None = None
    error_code: str | None = None
    failed_from: datetime | None = None
    failed_before: datetime | None = None

    def __post_init__(self) -> None:
        for name in _TEXTS:
            if (text := getattr(self, name, None)) is not None:
                check_text(name, text)
        version = self.contract_version
        if version is not None and (type(version) is not int or not 1 <= version <= _MOST):
            raise ValueError(f"contract_version must be a whole number from 1 to {_MOST}, not {version!r}")
        for name in _MOMENTS:
            moment: datetime | None = getattr(self, name)
            if moment is not None and moment.utcoffset() is None:
                raise ValueError(f"{name} must have a time zone")
