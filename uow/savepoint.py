"""Staged things follow the savepoint in which they were staged."""

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from uow.staged_items import StagedItems


class SavepointMarks:
    """Drops what was staged inside a savepoint unless the savepoint is positively released."""

    def __init__(self, staged: StagedItems) -> None:
        self._staged = staged
        self._marks: dict[SessionTransaction, int] = {}
        self._named_marks: dict[str, int] = {}
        self._watching = False

    def watch(self, session: Session) -> None:
        """Follow the savepoints of `session`; called before its first one, so that most units pay nothing."""
        if self._watching:
            return
        self._watching = True
        event.listen(session, "after_transaction_create", self._created)
        event.listen(session, "after_commit", self._released)
        event.listen(session, "after_transaction_end", self._ended)

    def _created(self, _session: Session, transaction: SessionTransaction) -> None:
        if transaction.nested:
            self._marks[transaction] = self._staged.mark()

    def _released(self, session: Session) -> None:
        # The event names no transaction; while a savepoint is being released it is the current one.
        released = session.get_nested_transaction()
        if released is not None:
            self._marks.pop(released, None)

    def _ended(self, _session: Session, transaction: SessionTransaction) -> None:
        # Not released means rolled back; a failed flush ends it without any rollback event of its own.
        mark = self._marks.pop(transaction, None)
        if mark is not None:
            self._staged.drop_after(mark)

    def opened(self, name: str) -> None:
        """The statement that opens the savepoint `name` is about to run."""
        self._named_marks[name] = self._staged.mark()

    def rolled_back_to(self, name: str) -> None:
        """The statement that rolls back to the savepoint `name` is about to run."""
        mark = self._named_marks.get(name)
        if mark is not None:
            self._staged.drop_after(mark)
