"""Nothing that people see holds a password, a statement or a value of a row."""

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, StatementError

from uow.errors import SelfManagedError
from uow.secret import describe_error, mask_secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("amqp://guest:guest@host:5672//", "amqp://guest:***@host:5672//"),
        ("redis://:hunter2@host/0", "redis://:***@host/0"),
        ("postgresql+asyncpg://u:p@ss/w:rd@host/db", "postgresql+asyncpg://u:***@host/db"),
        (
            "cannot reach amqps://u:p%40@a:1/v, tried 3 times",
            "cannot reach amqps://u:***@a:1/v, tried 3 times",
        ),
        ("sqs://KEY:SECRET@ and mysql://r:x@h/d", "sqs://KEY:***@ and mysql://r:***@h/d"),
        ("mysql://host/db?user=a&password=b&ssl=on", "mysql://host/db?user=a&password=***&ssl=on"),
        ("sqlite+aiosqlite:///app.db", "sqlite+aiosqlite:///app.db"),
        ("https://example.org/a:b is fine", "https://example.org/a:b is fine"),
    ],
)
def test_passwords_in_addresses_are_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


def test_a_database_error_keeps_the_drivers_first_line_and_no_statement_or_parameter() -> None:
    error = OperationalError(
        "INSERT INTO outbox_message VALUES (?)",
        {"payload": "SECRET PAYLOAD"},
        OSError("could not connect to postgresql://u:pw@h/d\nDETAIL: SECRET PAYLOAD"),
    )
    assert describe_error(error) == "OSError: could not connect to postgresql://u:***@h/d"


def test_a_database_error_that_quotes_values_is_told_by_class_alone() -> None:
    driver_error = asyncpg.UniqueViolationError("Key (name)=(SECRET PAYLOAD) already exists")
    assert "SECRET" not in describe_error(IntegrityError("INSERT", {}, driver_error))
    assert "UniqueViolationError" in describe_error(IntegrityError("INSERT", {}, driver_error))

    class DataError(Exception):
        pass

    assert "SECRET" not in describe_error(DBAPIError("INSERT", {}, DataError("bad value 'SECRET'")))


def test_a_statement_that_could_not_be_bound_shows_only_why() -> None:
    error = StatementError("message", "SELECT 1", {"payload": "SECRET"}, ValueError("naive datetime"))
    assert describe_error(error) == "ValueError: naive datetime"


def test_our_own_errors_keep_their_whole_text_without_passwords() -> None:
    error = SelfManagedError("two\nlines about amqp://a:b@c")
    assert describe_error(error) == "two\nlines about amqp://a:***@c"


def test_any_other_error_is_its_class_and_a_short_text() -> None:
    assert describe_error(KeyError()) == "KeyError"
    assert describe_error(RuntimeError("x" * 2000)) == "RuntimeError: " + "x" * 500 + "..."
