"""Exact UTC instants: whole ticks of 100 ns since 0001-01-01T00:00:00Z."""

import re
import time
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

TICKS_PER_SECOND: Final = 10_000_000
TICKS_PER_MICROSECOND: Final = 10
UNIX_EPOCH_TICKS: Final = 621_355_968_000_000_000
MAXIMUM_TICKS: Final = 3_155_378_975_999_999_999

_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TEXT: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,7}))?(?:Z|\+00:00)", re.ASCII)


class UtcInstant:
    """A point in time in UTC, exact to 100 ns, from year 1 to the end of year 9999. Immutable and ordered.

    `ticks` counts units of 100 ns since 0001-01-01T00:00:00Z, as .NET's `DateTime.Ticks` does;
    2026-01-01T00:00:00Z is 639028224000000000. Raises ValueError outside that range.
    """

    # Not a dataclass: converters would then read and write it as an object with one field, not as text.
    __slots__ = ("ticks",)
    __match_args__ = ("ticks",)
    ticks: int

    def __init__(self, ticks: int) -> None:
        if type(ticks) is not int:
            raise TypeError(f"ticks must be an int, not {type(ticks).__name__}")
        if not 0 <= ticks <= MAXIMUM_TICKS:
            raise ValueError(f"ticks must be between 0 and {MAXIMUM_TICKS}, not {ticks}")
        object.__setattr__(self, "ticks", ticks)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to {name!r} of a UtcInstant")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete {name!r} of a UtcInstant")

    def __eq__(self, other: object) -> bool:
        return self.ticks == other.ticks if isinstance(other, UtcInstant) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.ticks < other.ticks if isinstance(other, UtcInstant) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.ticks <= other.ticks if isinstance(other, UtcInstant) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.ticks > other.ticks if isinstance(other, UtcInstant) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.ticks >= other.ticks if isinstance(other, UtcInstant) else NotImplemented

    def __hash__(self) -> int:
        return hash((UtcInstant, self.ticks))

    def __repr__(self) -> str:
        return f"UtcInstant(ticks={self.ticks})"

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return type(self), (self.ticks,)

    @classmethod
    def now(cls) -> Self:
        """The present by this machine's clock, cut (not rounded) to 100 ns."""
        return cls(UNIX_EPOCH_TICKS + time.time_ns() // 100)

    @classmethod
    def from_datetime(cls, value: datetime) -> Self:
        """The instant of an aware datetime. Raises ValueError for a naive one: its zone is a guess."""
        if value.utcoffset() is None:
            raise ValueError("a datetime without a time zone is not an instant; attach its zone first")
        return cls((value - _EPOCH) // _MICROSECOND * TICKS_PER_MICROSECOND)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The instant of `2026-01-01T00:00:00.0000000Z`; at most seven fractional digits, UTC only.

        Raises ValueError for anything else, so that no digit is lost without a word.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError("expected UTC text like 2026-01-01T00:00:00.0000000Z")
        date, clock, fraction = match.groups()
        whole = datetime.fromisoformat(f"{date}T{clock}+00:00")
        return cls(cls.from_datetime(whole).ticks + int((fraction or "").ljust(7, "0")))

    def to_datetime(self) -> datetime:
        """An aware UTC datetime; the last digit is cut, since datetime stops at microseconds."""
        return _EPOCH + timedelta(microseconds=self.ticks // TICKS_PER_MICROSECOND)

    def __str__(self) -> str:
        seconds, fraction = divmod(self.ticks, TICKS_PER_SECOND)
        whole = _EPOCH + timedelta(seconds=seconds)
        return f"{whole:%Y-%m-%dT%H:%M:%S}.{fraction:07d}Z".rjust(28, "0")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Any], handler: "GetCoreSchemaHandler") -> "CoreSchema":
        """Let pydantic models hold the text form in JSON and the exact instant in Python."""
        from pydantic_core import core_schema  # noqa: PLC0415 - pydantic is optional

        from_text = core_schema.no_info_after_validator_function(cls.parse, core_schema.str_schema())
        return core_schema.json_or_python_schema(
            json_schema=from_text,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), from_text]),
            serialization=core_schema.plain_serializer_function_ser_schema(str, when_used="json"),
        )
