"""Readiness is the worst of what the probes find, and orchestrators can ask for it over HTTP."""

import asyncio
import json

import pytest

from relay import health as health_module
from relay.health import Health, Probe, Readiness
from relay.health_server import HealthPortError, HealthServer


async def fine() -> None:
    pass


async def away() -> None:
    raise OSError("cannot connect to amqp://guest:secret@host")


def broker(look=away) -> Probe:  # type: ignore[no-untyped-def]
    return Probe(name="broker", look=look, otherwise=Readiness.DEGRADED)


def database(look=away) -> Probe:  # type: ignore[no-untyped-def]
    return Probe(name="database", look=look, otherwise=Readiness.UNREADY)


async def test_all_probes_well_is_ready() -> None:
    report = await Health([database(fine), broker(fine)]).report()
    assert (report.readiness, report.is_ready) == (Readiness.READY, True)


async def test_a_broker_that_is_away_is_degraded_and_still_ready_and_shows_no_password() -> None:
    report = await Health([database(fine), broker()]).report()
    assert (report.readiness, report.is_ready) == (Readiness.DEGRADED, True)
    assert report.checks[1].detail == "OSError: cannot connect to amqp://guest:***@host"


async def test_a_database_that_is_away_is_unready() -> None:
    report = await Health([broker(), database()]).report()
    assert (report.readiness, report.is_ready) == (Readiness.UNREADY, False)


async def test_stopping_is_unready_at_once_whatever_the_probes_say() -> None:
    health = Health([database(fine)])
    assert (await health.report()).is_ready
    health.stop()
    assert not (await health.report()).is_ready


async def test_a_probe_that_hangs_counts_as_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "PROBE_TIMEOUT_SECONDS", 0.01)
    report = await Health([database(lambda: asyncio.Event().wait())]).report()
    assert (report.checks[0].readiness, report.checks[0].detail) == (
        Readiness.UNREADY,
        "no answer within 0.01 s",
    )


async def test_many_askers_at_once_make_one_look() -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1

    health = Health([database(look)])
    await asyncio.gather(*(health.report() for _ in range(20)))
    assert looks == 1


async def request(port: int, line: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(line)
    writer.write_eof()
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


async def test_livez_and_readyz_answer_over_http() -> None:
    health = Health([database(fine), broker()])
    async with HealthServer(health, port=0, host="127.0.0.1") as server:
        assert await request(server.port, b"GET /livez HTTP/1.1\r\n\r\n") == (200, '{"status":"alive"}')
        status, body = await request(server.port, b"GET /readyz?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (status, json.loads(body)["status"]) == (200, "degraded")
        assert await request(server.port, b"HEAD /readyz HTTP/1.1\r\n\r\n") == (200, "")
        health.stop()
        status, body = await request(server.port, b"GET /readyz HTTP/1.1\r\n\r\n")
        assert (status, json.loads(body)["checks"][0]["detail"]) == (503, "stopping")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"POST /readyz HTTP/1.1\r\n\r\n", 405),
        (b"rubbish\r\n\r\n", 400),
        (b"\xff\xfe \x00 b\r\n\r\n", 400),
        (b"", 400),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
async def test_anything_else_over_http_is_refused_and_the_server_lives_on(line: bytes, status: int) -> None:
    async with HealthServer(Health(), port=0, host="127.0.0.1") as server:
        assert (await request(server.port, line))[0] == status
        assert (await request(server.port, b"GET /livez HTTP/1.1\r\n\r\n"))[0] == 200


async def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    async with HealthServer(Health(), port=0, host="127.0.0.1") as server:
        with pytest.raises(HealthPortError, match=f"health port {server.port}"):
            async with HealthServer(Health(), port=server.port, host="127.0.0.1"):
                pass
