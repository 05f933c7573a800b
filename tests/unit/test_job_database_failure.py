"""A transactional attempt is given back for an outage of its database, not for one of anything else."""

import asyncio

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from jobs.execution.database_failure import is_database_lost


class _DriverError(Exception):
    sqlstate = "57P01"


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def refused_connection() -> BaseException:
    def refuse() -> None:
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(ConnectionRefusedError) as caught:
        create_engine("sqlite://", creator=refuse).connect()
    return caught.value


LOST = DBAPIError("COMMIT", None, _DriverError())


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (raised(LOST), True),
        (raised(LookupError("translated"), LOST), True),
        (raised(PoolTimeoutError()), True),
        (refused_connection(), True),
        (raised(RuntimeError("translated"), refused_connection()), True),
        (raised(ConnectionResetError("an HTTP call")), False),
        (raised(RuntimeError("translated"), ConnectionResetError("an HTTP call")), False),
        (raised(TimeoutError()), False),
        (raised(IntegrityError("INSERT", None, Exception())), False),
        (raised(asyncio.CancelledError()), False),
        (ConnectionResetError("never raised"), False),
    ],
    ids=str,
)
def test_only_a_database_that_is_away_is_why_an_attempt_is_given_back(
    error: BaseException, lost: bool
) -> None:
    assert is_database_lost(error) is lost
