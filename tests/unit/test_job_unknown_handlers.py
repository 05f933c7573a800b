"""Jobs of handlers that are not here are counted each time, and told every ten minutes."""

from types import SimpleNamespace

import pytest

from jobs import JobKey, PutOff, StartReport
from jobs.execution.unknown_handlers import UnknownHandlers
from tests.support.telemetry import recorded_telemetry


def report(*handlers: tuple[str, int]) -> StartReport:
    put_off = tuple(
        PutOff(key=JobKey(bytes(32), str(number)), handler=name, handler_version=version)
        for number, (name, version) in enumerate(handlers)
    )
    return StartReport(put_off=put_off)


def test_each_is_told_at_once_and_then_every_ten_minutes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = SimpleNamespace(now=5.0)
    monkeypatch.setattr("jobs.execution.unknown_handlers.time", SimpleNamespace(monotonic=lambda: time.now))
    unknown = UnknownHandlers()
    for moment in (5.0, 604.0, 605.0, 1000.0):
        time.now = moment
        unknown.tell(report(("a", 1), ("a", 1)))
    unknown.tell(report(("a", 2)))
    assert [record.args for record in caplog.records] == [(2, "a", 1), (2, "a", 1), (1, "a", 2)]


def test_all_are_counted() -> None:
    with recorded_telemetry() as recording:
        unknown = UnknownHandlers()
        for _ in range(3):
            unknown.tell(report(("a", 1), ("a", 1), ("b", 1)))
        unknown.tell(report())
        counted = {point.attributes["handler"]: point.value for point in recording.points()}
    assert counted == {"a": 6, "b": 3}
