"""Long work in bounded batches that goes on where the last commit left it."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

from jobs.schedule.batching.batch import Batch, BatchReport, SourceError
from jobs.schedule.batching.cursor import BatchCursor
from jobs.schedule.batching.cursor_store import CursorState
from jobs.schedule.batching.position import write_position
from uow.option_rule import require_seconds, require_whole_number
from uow.sql.step import finish_despite_cancellation
from uow.unit import SelfManagedUnitOfWork

Item = TypeVar("Item")
Read: TypeAlias = Callable[[Any, int], Awaitable[Batch[Item]]]
Apply: TypeAlias = Callable[[Sequence[Item]], Awaitable[object]]
ApplyInUnit: TypeAlias = Callable[[Sequence[Item], SelfManagedUnitOfWork], Awaitable[object]]
Commit: TypeAlias = Callable[[Batch[Item], CursorState], Coroutine[Any, Any, CursorState]]

_MOST_AT_ONCE: Final = 10_000


@overload
async def run_batches(
    read: Read[Item],
    apply: ApplyInUnit[Item],
    cursor: BatchCursor,
    *,
    unit_of_work: Callable[[], SelfManagedUnitOfWork],
    size: int = 200,
    stop: Callable[[], bool] = ...,
    patience_seconds: float = 30.0,
) -> BatchReport: ...


@overload
async def run_batches(
    read: Read[Item],
    apply: Apply[Item],
    cursor: BatchCursor,
    *,
    unit_of_work: None = None,
    size: int = 200,
    stop: Callable[[], bool] = ...,
    patience_seconds: float = 30.0,
) -> BatchReport: ...


async def run_batches(
    read: Read[Item],
    apply: Callable[..., Awaitable[object]],
    cursor: BatchCursor,
    *,
    unit_of_work: Callable[[], SelfManagedUnitOfWork] | None = None,
    size: int = 200,
    stop: Callable[[], bool] = lambda: False,
    patience_seconds: float = 30.0,
) -> BatchReport:
    """Read, apply and commit batch after batch until the source is at its end; what was done.

    read: `await read(position, size)` gives the Batch behind that position, None being the beginning; at
    most `size` items, 1 to 10,000. With `unit_of_work`, which makes a new unit for each batch,
    `await apply(items, unit)` has its effects in that unit, whose one commit keeps them and the cursor: they
    happen once, and a second runner waits and then gets CursorMovedError before it has applied anything.
    Without, the cursor is committed when `await apply(items)` has returned: a process killed in between, or
    a second runner, applies the batch again, which must be harmless.

    stop: asked before each batch; once it says True no more begin. A cancelled caller gets its
    CancelledError when the running batch has ended, which is cancelled itself after `patience_seconds`.
    What `read` and `apply` raise ends the run; batches before that stay committed.
    Raises SourceError and PositionError for a source that breaks its rules, CursorMovedError, ValueError for
    an option.
    """
    require_whole_number("size", size, least=1, most=_MOST_AT_ONCE)
    require_seconds("patience_seconds", patience_seconds)
    commit = _afterwards(apply, cursor) if unit_of_work is None else _together(apply, cursor, unit_of_work)
    state = await cursor.load()
    batches = items = 0
    finished = False
    while not stop():
        batch = await read(state.position, size)
        _require_sound(batch, state, size)
        if batch.position is None:
            finished = True
            break
        state = await finish_despite_cancellation(commit(batch, state), patience_seconds=patience_seconds)
        batches += 1
        items += len(batch.items)
    return BatchReport(batches=batches, items=items, position=state.position, finished=finished)


def _together(
    apply: ApplyInUnit[Item], cursor: BatchCursor, unit_of_work: Callable[[], SelfManagedUnitOfWork]
) -> Commit[Item]:
    async def commit(batch: Batch[Item], seen: CursorState) -> CursorState:
        async with unit_of_work() as unit:
            # First, since it locks the cursor: nobody else applies this batch meanwhile.
            moved = await cursor.advance(seen, batch.position, unit=unit)
            if batch.items:
                await apply(batch.items, unit)
        return moved

    return commit


def _afterwards(apply: Apply[Item], cursor: BatchCursor) -> Commit[Item]:
    async def commit(batch: Batch[Item], seen: CursorState) -> CursorState:
        if batch.items:
            await apply(batch.items)
        return await cursor.advance(seen, batch.position)

    return commit


def _require_sound(batch: object, state: CursorState, size: int) -> None:
    """Raise what is wrong with the batch, before it has any effect."""
    if not isinstance(batch, Batch):
        raise SourceError(f"the source gave {type(batch).__name__}; it must give a Batch")
    if len(batch.items) > size:
        raise SourceError(f"the source gave {len(batch.items)} items although {size} were asked for")
    if batch.position is None:
        if batch.items:
            raise SourceError("the source gave items without a position, which only its end has")
    elif write_position(batch.position) == state.text:
        raise SourceError("the source gave the position that it was asked from, so it would never end")
