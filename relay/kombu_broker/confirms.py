"""Which messages wait for the broker's word, and what its word means."""

from collections import deque

from relay.broker import Verdict
from relay.kombu_broker.batch import Batch


class Confirms:
    """The unconfirmed messages of one channel, by delivery tag.

    RabbitMQ confirms in any order, one at a time or all up to a tag. An unroutable message is returned
    before it is confirmed, so the return only notes it and the confirm then means "refused".
    """

    def __init__(self) -> None:
        self._next_tag = 1
        self._waiting: dict[int, tuple[Batch, int]] = {}
        self._tags_by_message: dict[str, deque[int]] = {}
        self._returned: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def sent(self, batch: Batch, position: int, message_id: str) -> None:
        """A message has been written; tags count what was written on the channel, from 1."""
        self._waiting[self._next_tag] = (batch, position)
        self._tags_by_message.setdefault(message_id, deque()).append(self._next_tag)
        self._next_tag += 1

    def positions(self, batch: Batch) -> list[int]:
        """Which messages of `batch` still wait, in the order in which they were written."""
        return [position for owner, position in self._waiting.values() if owner is batch]

    def restart(self) -> None:
        """The channel is a new one: nothing waits, tags begin at 1 again."""
        self._next_tag = 1
        self._waiting.clear()
        self._tags_by_message.clear()
        self._returned.clear()

    def on_return(self, message_id: str | None) -> None:
        """The broker sent a message back: no queue is bound to its routing key."""
        for tag in self._tags_by_message.get(message_id or "", ()):
            if tag in self._waiting and tag not in self._returned:
                self._returned.add(tag)
                return

    def on_ack(self, tag: int, multiple: bool) -> None:
        """The broker has taken care of a message, or of all up to it."""
        for each in self._settled(tag, multiple=multiple):
            batch, position = self._waiting.pop(each)
            if each in self._returned:
                self._returned.discard(each)
                batch.judge(position, Verdict.REFUSED, "unroutable", "no queue is bound to its routing key")
            else:
                batch.confirm(position)
        self._forget_ids()

    def on_nack(self, tag: int, multiple: bool) -> None:
        """The broker could not take a message now, or all up to it."""
        for each in self._settled(tag, multiple=multiple):
            batch, position = self._waiting.pop(each)
            self._returned.discard(each)
            batch.judge(position, Verdict.RETRY, "nack", "the broker turned it away (basic.nack)")
        self._forget_ids()

    def _settled(self, tag: int, *, multiple: bool) -> list[int]:
        if not multiple:
            return [tag] if tag in self._waiting else []
        settled = []
        for waiting in self._waiting:  # in the order of their tags
            if waiting > tag:
                break
            settled.append(waiting)
        return settled

    def _forget_ids(self) -> None:
        if not self._waiting:
            self._tags_by_message.clear()
            self._returned.clear()
