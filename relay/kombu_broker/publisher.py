"""The publisher: asyncio hands batches to a thread that owns the connection."""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol

from relay.broker import BrokerUnavailableError, PublishResult, Verdict
from relay.kombu_broker.batch import Batch
from relay.kombu_broker.fault import ConnectionLost
from relay.kombu_broker.options import BrokerOptions
from relay.kombu_broker.waiting import finish, finished
from relay.kombu_broker.wake_pipe import WakePipe
from uow.message import Message

logger = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 1.0
_CLOSED: Final = PublishResult(Verdict.UNSENT, "closed", "the publisher is closed")


class Publishing(Protocol):
    """An open connection to publish on, owned by one thread."""

    def fileno(self) -> int | None:
        """The socket to wait on between batches, if there is one."""
        ...

    def idle(self) -> None:
        """Called about once a second and when the socket can be read; raises ConnectionLost."""
        ...

    def publish(self, batch: Batch, deadline: float, *, one_at_a_time: bool = False) -> None:
        """Give verdicts until the deadline; raises ConnectionLost."""
        ...

    def culprit(self, batch: Batch) -> int | None:
        """The message that the broker was given last, when it is the only one without an answer."""
        ...

    def close(self) -> None:
        """Close in good order, bounded."""
        ...

    def cut(self) -> None:
        """Drop the connection."""
        ...


@dataclass(frozen=True, slots=True)
class _Job:
    messages: Sequence[Message]
    future: asyncio.Future[list[PublishResult]]
    loop: asyncio.AbstractEventLoop


class ThreadedPublisher:
    """A Publisher with a thread and a connection of its own. See `relay.broker.Publisher`."""

    def __init__(
        self, open_publishing: Callable[[], Publishing], options: BrokerOptions, *, name: str
    ) -> None:
        self._open_publishing = open_publishing
        self._options = options
        self._lock = asyncio.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._wake = WakePipe()
        self._publishing: Publishing | None = None
        self.closed = False
        self._finished: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def publish(self, messages: Sequence[Message]) -> Sequence[PublishResult]:
        """One verdict per message. A cancelled caller leaves its batch to be finished by the thread."""
        if not messages:
            return []
        async with self._lock:
            if self.closed:
                return [_CLOSED] * len(messages)
            loop = asyncio.get_running_loop()
            future: asyncio.Future[list[PublishResult]] = loop.create_future()
            self._jobs.put(_Job(messages, future, loop))
            self._wake.wake()
            return await future

    async def close(self) -> None:
        """Finish the batch in hand, then close the connection; bounded by the options' timeouts."""
        if not self.closed:
            self.closed = True
            self._jobs.put(None)
            self._wake.wake()
        options = self._options
        limit = (
            options.confirm_timeout_seconds
            + 2 * options.connect_timeout_seconds
            + options.close_timeout_seconds
        )
        if not await finished(self._finished, limit):
            logger.warning("%s did not end within %g s and is left behind", self._thread.name, limit)

    def _run(self) -> None:
        try:
            while (job := self._next_job()) is not None:
                self._serve(job)
            if self._publishing is not None:
                self._publishing.close()
        finally:
            self._wake.close()
            finish(self._finished)

    def _next_job(self) -> _Job | None:
        while True:
            with contextlib.suppress(queue.Empty):
                return self._jobs.get_nowait()
            publishing = self._publishing
            if publishing is None:
                self._wake.wait(_IDLE_SECONDS)
                continue
            try:
                self._wake.wait(_IDLE_SECONDS, also=publishing.fileno())
                publishing.idle()
            except ConnectionLost as error:
                logger.info("%s lost its connection while idle: %s", self._thread.name, error)
                self._drop()
            except Exception:
                logger.exception("%s gives up its connection", self._thread.name)
                self._drop()

    def _serve(self, job: _Job) -> None:
        try:
            batch = Batch(job.messages)
            self._publish(batch)
            results = batch.results()
        except Exception as error:
            logger.exception("%s failed", self._thread.name)
            self._drop()
            _answer(job, None, error)
        else:
            _answer(job, results, None)

    def _publish(self, batch: Batch) -> None:
        deadline = time.monotonic() + self._options.confirm_timeout_seconds
        one_at_a_time = False
        for attempt in (1, 2):
            try:
                publishing = self._opened()
                publishing.publish(batch, deadline, one_at_a_time=one_at_a_time)
            except BrokerUnavailableError as error:
                batch.give_up("broker_unavailable", str(error))
                return
            except ConnectionLost as error:
                logger.warning("%s lost its connection: %s", self._thread.name, error)
                if one_at_a_time and error.blames_message:
                    self._blame(batch, error)
                self._drop()
                again = batch.nothing_written or error.blames_message
                if attempt == 1 and again and time.monotonic() < deadline:
                    one_at_a_time = error.blames_message
                    continue
                batch.give_up(error.error_code, str(error))
                return
            batch.give_up("confirm_timeout", "the broker did not confirm in time")
            return

    def _blame(self, batch: Batch, error: ConnectionLost) -> None:
        position = self._publishing.culprit(batch) if self._publishing else None
        if position is not None:
            batch.judge(position, Verdict.REFUSED, "refused", str(error))

    def _opened(self) -> Publishing:
        if self._publishing is None:
            try:
                self._publishing = self._open_publishing()
            except ConnectionLost as error:
                raise BrokerUnavailableError(str(error)) from None
        return self._publishing

    def _drop(self) -> None:
        if self._publishing is not None:
            self._publishing.cut()
            self._publishing = None


def _answer(job: _Job, results: list[PublishResult] | None, error: Exception | None) -> None:
    def set_answer() -> None:
        if job.future.done():  # the caller was cancelled
            return
        if error is not None:
            job.future.set_exception(error)
        else:
            job.future.set_result(results or [])

    with contextlib.suppress(RuntimeError):  # its event loop is closed: nobody waits any more
        job.loop.call_soon_threadsafe(set_answer)
