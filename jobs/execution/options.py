"""Options of an executor."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from jobs.errors import JobOptionError
from jobs.options import BATCH_LIMIT
from jobs.submission import check_name
from uow.option_rule import require_seconds, require_whole_number

_MEBIBYTE: Final = 1024 * 1024
_CONCURRENCY_LIMIT: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """How executors take and run jobs. Raises JobOptionError naming option, value and rule.

    queues: those it serves. concurrency: how many handlers run at once in one executor (1 to 10000); each
    transactional one has a connection of the engine while it runs, so let its pool hold a few more than that.
    queue_concurrency: how many of them at most from that queue. queue_limits: how many jobs of that queue
    may run at once in all executors together; each claim of such a queue is a step of its own.
    argument_bytes: about how many bytes of arguments are in hand at once (1 MiB to 1 GiB).
    poll_interval_seconds: the longest time an idle executor goes without looking for work, woken or not.
    status_poll_seconds: how soon a running handler hears of a cancellation.
    unknown_handler_seconds: for how long a job whose handler it does not have is put off.
    stop_grace_seconds: how long handlers may go on after a stop; then they are cancelled.
    retention_interval_seconds, retention_batch_size (1 to 1000): of deleting final jobs after the time in
    JobOptions. diagnostics_interval_seconds: between samples of how many jobs are stored.
    """

    queues: tuple[str, ...] = ("default",)
    concurrency: int = 20
    queue_concurrency: Mapping[str, int] = field(default_factory=dict)
    queue_limits: Mapping[str, int] = field(default_factory=dict)
    argument_bytes: int = 64 * _MEBIBYTE
    poll_interval_seconds: float = 5.0
    status_poll_seconds: float = 1.0
    unknown_handler_seconds: float = 30.0
    stop_grace_seconds: float = 30.0
    retention_interval_seconds: float = 60.0
    retention_batch_size: int = 1000
    diagnostics_interval_seconds: float = 30.0

    def __post_init__(self) -> None:
        try:
            self._check()
        except JobOptionError:
            raise
        except ValueError as error:
            raise JobOptionError(str(error)) from None

    def _check(self) -> None:
        for option in fields(self):
            if option.name.endswith("_seconds"):
                require_seconds(option.name, getattr(self, option.name))
        require_whole_number("concurrency", self.concurrency, least=1, most=_CONCURRENCY_LIMIT)
        require_whole_number("argument_bytes", self.argument_bytes, least=_MEBIBYTE, most=1024 * _MEBIBYTE)
        require_whole_number("retention_batch_size", self.retention_batch_size, least=1, most=BATCH_LIMIT)
        object.__setattr__(self, "queues", _queues(self.queues))
        for name in ("queue_concurrency", "queue_limits"):
            for queue, most in getattr(self, name).items():
                check_name(f"a queue of {name}", queue)
                require_whole_number(f"{name}[{queue}]", most, least=1, most=_CONCURRENCY_LIMIT)
                if queue not in self.queues:
                    raise JobOptionError(f"{name} names the queue {queue!r}, which is not among the queues")


def _queues(names: Collection[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not names:
        raise JobOptionError(f"queues must name at least one queue, as in ('default',), not {names!r}")
    for name in names:
        check_name("a name in queues", name)
    return tuple(dict.fromkeys(names))
