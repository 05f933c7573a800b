"""Small words of the inbox: outcomes, states, failures, attempts, portions, errors."""

import asyncio
import pickle
import re
from uuid import uuid4

import pytest
from sqlalchemy import MetaData
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import async_sessionmaker

import inbox
from inbox.acquisition import AcquireStatus, Acquisition
from inbox.attempt import Attempt
from inbox.error_code import ErrorCode
from inbox.errors import ProcessingTimeoutError, ReceiptLeaseLostError
from inbox.failure import failure_of_handler
from inbox.options import InboxOptions
from inbox.outcome import ConsumeOutcome
from inbox.participant import ReceiptCompletion, ReceiptParticipant
from inbox.portion import PORTION_PAYLOAD_UNITS, PORTION_ROWS, portions
from inbox.receipt import AcquiredReceipt, ReceiptKey
from inbox.state import TRANSITIONS, UNFINISHED, ReceiptState
from inbox.store import InboxStore
from inbox.table import InboxNotMappedError, add_inbox_table, inbox_table
from tests.support.inbox import message
from uow import SelfManagedUnitOfWork
from uow.failure_text import folder_of, frames_of
from uow.outcome import Reject, RetryAfter
from uow.unit_errors import RollbackOnlyError

_INBOX = folder_of(inbox.__file__)


def test_each_answer_to_a_delivery_that_is_not_run_is_counted_once_and_rightly() -> None:
    outcomes = {status: Acquisition(status).outcome for status in AcquireStatus}
    assert outcomes == {
        AcquireStatus.ACQUIRED: None,
        AcquireStatus.ALREADY_PROCESSED: ConsumeOutcome.DUPLICATE,
        AcquireStatus.NOT_DUE: ConsumeOutcome.DUPLICATE,
        AcquireStatus.DEAD_LETTERED: ConsumeOutcome.DUPLICATE,
        AcquireStatus.BUSY: ConsumeOutcome.BUSY,
        AcquireStatus.CONFLICT: ConsumeOutcome.DEAD_LETTER,
    }


def test_every_state_has_its_moves_and_finished_ones_never_run_by_themselves() -> None:
    assert set(TRANSITIONS) == set(ReceiptState)
    for state, following in TRANSITIONS.items():
        if state not in UNFINISHED:
            assert ReceiptState.PROCESSING not in following
    assert TRANSITIONS[ReceiptState.PROCESSED] == frozenset()


@pytest.mark.parametrize(
    ("error", "code", "permanent", "delay"),
    [
        (Reject("no"), ErrorCode.REJECTED, True, None),
        (RetryAfter(3), ErrorCode.RETRY_AFTER, False, 3.0),
        (ProcessingTimeoutError("slow"), ErrorCode.TIMEOUT, False, None),
        (ValueError("x"), ErrorCode.HANDLER_ERROR, False, None),
        (TimeoutError(), ErrorCode.HANDLER_ERROR, False, None),
        (ExceptionGroup("g", [Reject("no")]), ErrorCode.REJECTED, True, None),
        (ExceptionGroup("g", [ExceptionGroup("h", [RetryAfter(3)])]), ErrorCode.RETRY_AFTER, False, 3.0),
        (ExceptionGroup("g", [Reject("no"), ValueError()]), ErrorCode.HANDLER_ERROR, False, None),
    ],
)
def test_an_exception_becomes_its_failure(
    error: Exception, code: ErrorCode, permanent: bool, delay: float | None
) -> None:
    failure = failure_of_handler(error, message())
    assert (failure.code, failure.permanent, failure.delay_seconds) == (code, permanent, delay)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_what_is_stored_about_an_exception_is_its_class_and_a_harmless_text() -> None:
    one = message('{"card":"4111"}')

    def detail(error: Exception) -> str:
        return failure_of_handler(error, one).detail

    assert detail(KeyError("x")) == "KeyError: 'x'"
    assert detail(ValueError()) == "ValueError"
    assert detail(UnprintableError()) == f"{__name__}.UnprintableError"
    assert detail(ValueError('got {"card":"4111"}!')) == "ValueError: got [payload]!"
    driver = Exception("Duplicate entry '4111'")
    driver.sqlstate = "23505"  # type: ignore[attr-defined]
    stored = detail(IntegrityError("INSERT", {"card": "4111"}, driver))
    assert stored == "sqlalchemy.exc.IntegrityError: Exception (23505)"
    assert detail(IntegrityError("INSERT", {}, Exception(1062, "Duplicate entry '4111'"))) == (
        "sqlalchemy.exc.IntegrityError: Exception (1062)"
    )


def test_exceptions_of_converters_which_quote_their_input_are_told_by_class_alone() -> None:
    import msgspec
    import pydantic

    class Card(pydantic.BaseModel):
        number: int

    with pytest.raises(pydantic.ValidationError) as caught:
        Card(number="4111-secret")  # type: ignore[arg-type]
    assert (
        failure_of_handler(caught.value, message()).detail == "pydantic_core._pydantic_core.ValidationError"
    )
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert("4111-secret", int)
    assert failure_of_handler(refused.value, message()).detail == "msgspec.ValidationError"


def test_the_frames_of_a_deep_failure_show_both_ends_and_no_text() -> None:
    def deep(levels: int) -> None:
        if levels == 0:
            raise ValueError("secret")
        deep(levels - 1)

    with pytest.raises(ValueError, match="secret") as caught:
        deep(50)
    lines = frames_of(caught.value, handlers_are_called_in=_INBOX)
    assert "test_the_frames_of_a_deep_failure" in lines
    assert 'raise ValueError("secret")' in lines, "source, which is code"
    assert "ValueError: secret" not in lines
    assert lines.count("File") < 15


async def test_the_frames_of_a_handler_in_a_unit_of_work_are_its_own() -> None:
    async def handler() -> None:
        raise ValueError("secret")

    async def call(_unit: SelfManagedUnitOfWork) -> None:
        await handler()

    with pytest.raises(ValueError, match="secret") as caught:
        await SelfManagedUnitOfWork(async_sessionmaker()).execute(call)
    (line,) = re.findall("File .*", frames_of(caught.value, handlers_are_called_in=folder_of(__file__)))
    assert line.endswith("in handler")


async def test_a_limited_block_ends_at_its_limit_or_with_its_lease() -> None:
    attempt = Attempt(AcquiredReceipt(message=message(), consumer="a", token=uuid4(), attempt=1))
    async with attempt.limited(5):
        pass
    with pytest.raises(ProcessingTimeoutError, match=r"longer than 0\.01 s"):
        async with attempt.limited(0.01):
            await asyncio.Event().wait()
    with pytest.raises(ValueError, match="own"):
        async with attempt.limited(5):
            raise ValueError("own")
    assert not attempt.lease_lost
    asyncio.get_running_loop().call_soon(attempt.lose_lease)
    with pytest.raises(ReceiptLeaseLostError):
        async with attempt.limited(5):
            await asyncio.Event().wait()
    assert attempt.lease_lost
    with pytest.raises(ReceiptLeaseLostError):
        async with attempt.limited(5):
            raise AssertionError("never entered")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


def test_portions_are_cut_by_rows_and_by_payload() -> None:
    def sizes(*payloads: str) -> list[int]:
        return [len(portion) for portion in portions({"payload": each} for each in payloads)]

    assert sizes() == []
    assert sizes(*["x"] * PORTION_ROWS) == [PORTION_ROWS]
    assert sizes(*["x"] * (PORTION_ROWS + 1)) == [PORTION_ROWS, 1]
    half = "x" * (PORTION_PAYLOAD_UNITS // 2)
    assert sizes(half, half, "x") == [2, 1]
    assert sizes(half * 3, "x", half * 3) == [1, 1, 1]


def test_a_participant_takes_completions_alone() -> None:
    participant = ReceiptParticipant(InboxStore(add_inbox_table(MetaData()), options=InboxOptions()))
    receipt = AcquiredReceipt(message=message(), consumer="a", token=uuid4(), attempt=1)
    completion = ReceiptCompletion(receipt.lease)
    assert participant.accepts(completion)
    assert not participant.accepts(receipt)
    staged = participant.stage(completion)
    assert (staged.key, staged.content) == (receipt.key, receipt.token)
    assert isinstance(participant.conflict(staged, staged), ReceiptLeaseLostError)
    with pytest.raises(TypeError, match="takes no options, not ordering_key"):
        participant.stage(completion, ordering_key="k")


def test_a_metadata_without_the_table_is_told_what_to_call() -> None:
    metadata = MetaData()
    with pytest.raises(InboxNotMappedError, match=r"call inbox\.add_inbox_table\(metadata\)"):
        inbox_table(metadata)
    table = add_inbox_table(metadata, schema="messaging")
    assert add_inbox_table(metadata) is inbox_table(metadata) is table
    assert table.schema == "messaging"


def test_the_error_of_a_lost_lease_survives_pickling() -> None:
    error = ReceiptLeaseLostError(ReceiptKey(uuid4(), "billing"))
    assert pickle.loads(pickle.dumps(error)).key == error.key
    assert "billing" in str(error)


async def test_a_timeout_is_located_where_the_handler_stood() -> None:
    attempt = Attempt(AcquiredReceipt(message=message(), consumer="a", token=uuid4(), attempt=1))

    async def charge_the_card() -> None:
        await asyncio.sleep(60)

    with pytest.raises(ProcessingTimeoutError) as caught:
        async with attempt.limited(0.01):
            await charge_the_card()
    assert "in charge_the_card" in frames_of(caught.value, handlers_are_called_in=_INBOX)


def test_a_unit_that_was_undone_is_located_at_its_first_cause() -> None:
    def reserve_stock() -> None:
        raise ValueError("none left")

    def finish() -> None:
        try:
            reserve_stock()
        except ValueError as error:
            raise RollbackOnlyError(error) from error

    with pytest.raises(RollbackOnlyError) as caught:
        finish()
    assert "in reserve_stock" in frames_of(caught.value, handlers_are_called_in=_INBOX)


def test_a_failure_of_the_handler_is_located_where_it_was_raised_whatever_caused_it() -> None:
    def look_up() -> None:
        raise KeyError("AQ")

    def bill() -> None:
        try:
            look_up()
        except KeyError as error:
            raise ValueError("no rate") from error

    with pytest.raises(ValueError, match="no rate") as caught:
        bill()
    assert "in look_up" not in frames_of(caught.value, handlers_are_called_in=_INBOX)
