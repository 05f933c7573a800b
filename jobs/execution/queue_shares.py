"""How many jobs of which queues may be claimed next."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.execution.options import ExecutorOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShare:
    """One claim: so many jobs at most from these queues.

    limit_everywhere: how many jobs of this one queue may run in all executors together; None for any.
    """

    queues: tuple[str, ...]
    limit: int
    limit_everywhere: int | None = None


class QueueShares:
    """Divides free slots among queues: those with a limit of their own are claimed from apart, each in turn
    first; all others together, by priority."""

    def __init__(self, options: ExecutorOptions) -> None:
        self._here = options.queue_concurrency
        self._everywhere = options.queue_limits
        limited = self._here.keys() | self._everywhere.keys()
        self._apart = [queue for queue in options.queues if queue in limited]
        self._together = tuple(queue for queue in options.queues if queue not in limited)
        self._running: Counter[str] = Counter()
        self._turn = 0

    def next_shares(self) -> Sequence[tuple[str, ...]]:
        """The queues of the next claims, in their order."""
        shares = [(queue,) for queue in self._apart] + ([self._together] if self._together else [])
        self._turn = (self._turn + 1) % len(shares)
        return shares[self._turn :] + shares[: self._turn]

    def share(self, queues: tuple[str, ...], free: int) -> QueueShare:
        """What may be claimed of them now, with so many free slots; the limit may be 0."""
        queue = queues[0]
        if queues == self._together:
            return QueueShare(queues=queues, limit=free)
        here = self._here.get(queue)
        if here is not None:
            free = max(0, min(free, here - self._running[queue]))
        return QueueShare(queues=queues, limit=free, limit_everywhere=self._everywhere.get(queue))

    def began(self, queues: Iterable[str]) -> None:
        """A job of each of these has begun."""
        self._running.update(queues)

    def ended(self, queue: str) -> None:
        """The handler of a job of it has ended."""
        self._running[queue] -= 1

    def is_limited_everywhere(self, queue: str) -> bool:
        """Whether the end of one of its jobs makes room in all executors."""
        return queue in self._everywhere
