"""An error that was raised from itself, as `raise error from error` does, holds nobody up."""

import pytest
from sqlalchemy.ext.asyncio import async_sessionmaker

from uow import SelfManagedUnitOfWork
from uow.errors import TryAgainError
from uow.explicit_causes import explicit_causes
from uow.failure_text import folder_of, frames_of


def raised_from_itself(error: BaseException) -> BaseException:
    error.__cause__ = error
    return error


def test_causes_are_told_from_the_error_back_to_the_first_and_a_circle_ends() -> None:
    first, second, third = ValueError("1"), ValueError("2"), ValueError("3")
    third.__cause__, second.__cause__ = second, first
    assert list(explicit_causes(third)) == [third, second, first]
    first.__cause__ = second
    assert list(explicit_causes(third)) == [third, second, first]
    assert list(explicit_causes(raised_from_itself(third))) == [third]


async def test_a_unit_that_may_repeat_an_operation_raises_such_an_error() -> None:
    async def fail(_unit: SelfManagedUnitOfWork) -> None:
        raise raised_from_itself(ValueError("a"))

    with pytest.raises(ValueError, match="a"):
        await SelfManagedUnitOfWork(async_sessionmaker()).execute(fail, attempts=5)


def test_the_frames_of_an_error_of_ours_that_such_an_error_caused_are_its() -> None:
    with pytest.raises(ValueError, match="a") as caught:
        raise ValueError("a")
    late = TryAgainError("too late")
    late.__cause__ = raised_from_itself(caught.value)
    assert "test_the_frames_of_an_error" in frames_of(late, handlers_are_called_in=folder_of("nowhere/x.py"))
