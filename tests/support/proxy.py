"""A TCP proxy that a test puts between a client and a real server, to break the way between them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import Enum, auto
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Flow(Enum):
    """What happens to bytes of one direction."""

    PASS = auto()
    HOLD = auto()
    """Kept back, in order, until `release`."""
    DROP = auto()
    """Read and thrown away, as on a dead line: nobody is told."""


class Reaction(Enum):
    """What to do when the client sends the bytes that a test waits for."""

    CUT_BEFORE_SERVER = auto()
    """The server never gets them: both connections are reset at once."""
    CUT_AFTER_REPLY = auto()
    """The server gets them and answers; the client sees no answer but a reset."""
    HOLD_REPLY = auto()
    """The server gets them; everything it says from then on is kept back until `release`."""
    DROP_BOTH = auto()
    """The server never gets them, and from then on the line is dead both ways without a word."""
    SIGNAL_ONLY = auto()
    """They pass; only `seen` is set."""


class TcpProxy:
    """Forwards connections to `host:port`; every switch works at once on open and on new connections.

    requests, replies: the flow client -> server and server -> client.
    delay_seconds: how late each piece passes, both ways.
    refusing: new connections are reset at once.
    seen: set when the bytes given to `react` have come from a client.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._reaction: tuple[bytes, Reaction] | None = None
        self._changed = asyncio.Condition()
        self.requests = Flow.PASS
        self.replies = Flow.PASS
        self.delay_seconds = 0.0
        self.refusing = False
        self.accepted = 0
        self.seen = asyncio.Event()

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, url: str) -> AsyncIterator[Self]:
        """A proxy before the server of `url`; `proxy.through(url)` is the URL to give to the client."""
        parts = urlsplit(url)
        proxy = cls(parts.hostname or "127.0.0.1", parts.port or 0)
        proxy._server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        try:
            yield proxy
        finally:
            proxy._server.close()
            proxy.cut()
            await asyncio.gather(*[link.closed.wait() for link in proxy._links])

    @property
    def port(self) -> int:
        """The port on 127.0.0.1 that clients connect to."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def open_connections(self) -> int:
        """How many clients are connected now."""
        return len(self._links)

    def through(self, url: str) -> str:
        """`url` with this proxy's address in place of the server's."""
        parts = urlsplit(url)
        credentials, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{credentials}{at}127.0.0.1:{self.port}"))

    def react(self, pattern: bytes, reaction: Reaction) -> None:
        """The next time a client sends `pattern` (within one piece), do `reaction`, once."""
        self.seen.clear()
        self._reaction = (pattern, reaction)

    def cut(self) -> None:
        """Reset every connection, both sides, now."""
        for link in list(self._links):
            link.cut()

    def blackhole(self) -> None:
        """From now on nothing passes and nobody is told."""
        self.requests = self.replies = Flow.DROP

    async def release(self) -> None:
        """Let everything pass again, what was held back first."""
        self.requests = self.replies = Flow.PASS
        async with self._changed:
            self._changed.notify_all()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refusing:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, server_writer)
        self._links.add(link)
        try:
            requests = asyncio.create_task(self._pump(link, reader, server_writer, from_client=True))
            replies = asyncio.create_task(self._pump(link, server_reader, writer, from_client=False))
            await asyncio.wait([requests, replies], return_when=asyncio.FIRST_COMPLETED)
            for task in (requests, replies):
                task.cancel()
            await asyncio.wait([requests, replies])
        finally:
            link.cut()
            link.closed.set()
            self._links.discard(link)

    async def _pump(
        self, link: "_Link", reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        while True:
            try:
                piece = await reader.read(65_536)
            except OSError:
                return
            if not piece:
                return
            if from_client and self._reacts(link, piece):
                return
            if not from_client and link.cut_at_reply:
                link.cut()
                return
            if self.delay_seconds:
                await asyncio.sleep(self.delay_seconds)
            await self._forward(piece, writer, from_client=from_client)

    def _reacts(self, link: "_Link", piece: bytes) -> bool:
        """Whether the connection is over because of what `piece` set off."""
        if self._reaction is None or self._reaction[0] not in piece:
            return False
        reaction = self._reaction[1]
        self._reaction = None
        match reaction:
            case Reaction.CUT_BEFORE_SERVER:
                link.cut()
            case Reaction.CUT_AFTER_REPLY:
                link.cut_at_reply = True
            case Reaction.HOLD_REPLY:
                self.replies = Flow.HOLD
            case Reaction.DROP_BOTH:
                self.blackhole()
            case Reaction.SIGNAL_ONLY:
                pass
        self.seen.set()
        return reaction is Reaction.CUT_BEFORE_SERVER

    async def _forward(self, piece: bytes, writer: asyncio.StreamWriter, *, from_client: bool) -> None:
        def flow() -> Flow:
            return self.requests if from_client else self.replies

        if flow() is Flow.HOLD:
            async with self._changed:
                await self._changed.wait_for(lambda: flow() is not Flow.HOLD)
        if flow() is Flow.PASS:
            with contextlib.suppress(OSError):
                writer.write(piece)
                await writer.drain()


class _Link:
    """One client's connection and the one to the server behind it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._writers = (client, server)
        self.cut_at_reply = False
        self.closed = asyncio.Event()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
