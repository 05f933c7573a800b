"""Column types that hold their values exactly on every supported database."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, LargeBinary, String, Text, Uuid
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator, TypeEngine

from uow.ticks import UtcInstant

_MYSQL_NAMES: Final = frozenset({"mysql", "mariadb"})
_BINARY: Final = (bytes, bytearray, memoryview)


class _Utf8(TypeDecorator[str]):
    """Text that MySQL keeps as its UTF-8 bytes."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        """Encode for MySQL."""
        return value.encode() if value is not None and dialect.name in _MYSQL_NAMES else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        """Decode from MySQL."""
        return bytes(value).decode() if isinstance(value, _BINARY) else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        """None where there is nothing to decode, which saves a call for each value."""
        return super().result_processor(dialect, coltype) if dialect.name in _MYSQL_NAMES else None


class ExactText(_Utf8):
    """Short text that compares by code point everywhere (VARBINARY on MySQL).

    MySQL's text compares without case and pads with blanks by default; SQLite compares exactly, and
    PostgreSQL does so and sorts so with collation "C". `length` is in UTF-16 units, the limit that
    callers have checked before.
    """

    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """VARBINARY on MySQL, VARCHAR elsewhere."""
        if dialect.name in _MYSQL_NAMES:
            return dialect.type_descriptor(mysql.VARBINARY(self.length * 3))
        collation = "C" if dialect.name == "postgresql" else None
        return dialect.type_descriptor(String(self.length, collation=collation))


class ExactLongText(_Utf8):
    """Text of any length, byte for byte (LONGBLOB on MySQL)."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """LONGBLOB on MySQL, TEXT elsewhere."""
        if dialect.name in _MYSQL_NAMES:
            return dialect.type_descriptor(mysql.LONGBLOB())
        return dialect.type_descriptor(Text())


class UtcDateTime(TypeDecorator[datetime]):
    """An operational time in UTC to the microsecond; aware in Python, whatever the session's time zone."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """TIMESTAMP WITH TIME ZONE on PostgreSQL, DATETIME(6) on MySQL, text on SQLite."""
        if dialect.name in _MYSQL_NAMES:
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(DateTime(timezone=dialect.name == "postgresql"))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert to UTC; refuse a naive value."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an operational time needs a time zone")
        moment = value.astimezone(UTC)
        return moment if dialect.name == "postgresql" else moment.replace(tzinfo=None)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Attach or convert to UTC."""
        # MySQL gives a selected literal back as the text it was sent as.
        moment: datetime | None = datetime.fromisoformat(value) if isinstance(value, str) else value
        if moment is None or moment.tzinfo is UTC:
            return moment
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class InstantTicks(TypeDecorator[UtcInstant]):
    """A UtcInstant as BIGINT ticks of 100 ns, since no timestamp type of a database keeps the last digit."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: UtcInstant | None, dialect: Dialect) -> int | None:
        """Its ticks."""
        return None if value is None else value.ticks

    def process_result_value(self, value: int | None, dialect: Dialect) -> UtcInstant | None:
        """The instant of these ticks."""
        return None if value is None else UtcInstant(value)


class ExactUuid(TypeDecorator[UUID]):
    """UUID on PostgreSQL, BINARY(16) on MySQL, CHAR(32) on SQLite; uuid.UUID in Python."""

    impl = Uuid
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """BINARY(16) on MySQL, SQLAlchemy's Uuid elsewhere."""
        if dialect.name in _MYSQL_NAMES:
            return dialect.type_descriptor(mysql.BINARY(16))
        return dialect.type_descriptor(Uuid())

    def process_bind_param(self, value: UUID | None, dialect: Dialect) -> Any:
        """Its 16 bytes for MySQL."""
        return value.bytes if value is not None and dialect.name in _MYSQL_NAMES else value

    def process_result_value(self, value: Any, dialect: Dialect) -> UUID | None:
        """Back from 16 bytes on MySQL."""
        return UUID(bytes=bytes(value)) if isinstance(value, _BINARY) else value


def sequence_type() -> TypeEngine[int]:
    """A BIGINT key that the database counts up by itself (INTEGER on SQLite, where only that counts)."""
    return BigInteger().with_variant(Integer(), "sqlite")


def digest_type() -> TypeEngine[bytes]:
    """A SHA-256 digest as 32 bytes."""
    return LargeBinary(32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
