"""Liveness and readiness over HTTP, for orchestrators; two paths and no web framework."""

import asyncio
import contextlib
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

import orjson

from relay.health import Health, HealthReport
from uow.errors import FixTheCodeError

_LONGEST_HEAD_BYTES: Final = 8192
_TIMEOUT_SECONDS: Final = 10.0
_Answer = tuple[HTTPStatus, dict[str, Any]]


class HealthPortError(FixTheCodeError):
    """The health port cannot be opened: someone else listens there, or it is not permitted."""


def report_as_json(report: HealthReport) -> dict[str, Any]:
    """The report as `/readyz` and `selfmanaged check --json` show it."""
    return {
        "status": report.readiness.value,
        "checks": [
            {"name": check.name, "status": check.readiness.value, "detail": check.detail}
            for check in report.checks
        ],
    }


class HealthServer:
    """Answers GET `/livez` (200 while the event loop runs) and GET `/readyz` (200, or 503 when unready).

    `/livez` touches neither database nor broker. `host` None means every interface; port 0 takes a free
    one, which `port` then tells. Use it as an async context manager.
    """

    def __init__(self, health: Health, *, port: int, host: str | None = None) -> None:
        self._health = health
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        if self._server is None:
            return self._port
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=_LONGEST_HEAD_BYTES
            )
        except (OSError, OverflowError) as error:
            raise HealthPortError(
                f"cannot listen on health port {self._port}: {error}; give another one with --health-port"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that hangs up, sends rubbish or nothing must not leave more than a closed connection.
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                writer.write(await self._respond(reader))
                await writer.drain()
        writer.close()

    async def _respond(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _version = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return _render(HTTPStatus.BAD_REQUEST, {"error": "not an HTTP request"}, with_body=True)
        status, document = await self._answer(method, target.split("?", 1)[0])
        return _render(status, document, with_body=method != "HEAD")

    async def _answer(self, method: str, path: str) -> _Answer:
        if method not in {"GET", "HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET and HEAD"}
        match path:
            case "/livez":
                return HTTPStatus.OK, {"status": "alive"}
            case "/readyz":
                report = await self._health.report()
                status = HTTPStatus.OK if report.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
                return status, report_as_json(report)
            case _:
                return HTTPStatus.NOT_FOUND, {"error": "only /livez and /readyz"}


def _render(status: HTTPStatus, document: dict[str, Any], *, with_body: bool) -> bytes:
    body = orjson.dumps(document)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
