"""Whether this process may be sent work: ready, degraded or unready."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from uow.secret import describe_error

CACHE_SECONDS: Final = 1.0
PROBE_TIMEOUT_SECONDS: Final = 5.0


class Readiness(StrEnum):
    """How fit one part, or the whole process, is."""

    READY = "ready"
    DEGRADED = "degraded"
    """Something is away that work can wait for, such as the broker: what is written stays durable."""
    UNREADY = "unready"
    """Nothing can be stored: the database or our tables are away, or the process is stopping."""


_WORST_FIRST: Final = (Readiness.UNREADY, Readiness.DEGRADED, Readiness.READY)


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """What one probe found; `detail` says why it is not ready, without secrets."""

    name: str
    readiness: Readiness
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """All that the probes found."""

    checks: tuple[HealthCheck, ...]

    @property
    def readiness(self) -> Readiness:
        """The worst of all; READY when there is nothing to check."""
        found = {check.readiness for check in self.checks}
        return next((readiness for readiness in _WORST_FIRST if readiness in found), Readiness.READY)

    @property
    def is_ready(self) -> bool:
        """Whether work may be sent here: ready or degraded."""
        return self.readiness is not Readiness.UNREADY


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One thing to look at. `look` raises when it is away; `otherwise` is what that means.

    `look` is cancelled after a few seconds, which counts as away.
    """

    name: str
    look: Callable[[], Awaitable[None]]
    otherwise: Readiness


class Health:
    """Looks at everything at once; asked again within a second it gives the same report."""

    def __init__(self, probes: Sequence[Probe] = ()) -> None:
        self._probes = tuple(probes)
        self._running: list[Sequence[Probe]] = []
        self._stopping = False
        self._looking = asyncio.Lock()
        self._report = HealthReport(())
        self._looked_at = float("-inf")

    def start(self, probes: Sequence[Probe]) -> None:
        """Loops begin to run: look at these too, until `end`."""
        self._running.append(probes)
        self._stopping = False
        self._looked_at = float("-inf")

    def end(self, probes: Sequence[Probe]) -> None:
        """Loops have ended: look at what was given to `start` no longer."""
        self._running.remove(probes)

    def stop(self) -> None:
        """Be unready from now on, whatever the probes say: the process is stopping."""
        self._stopping = True

    async def report(self) -> HealthReport:
        """What the probes find now. Never raises for what they find; takes a few seconds at most."""
        if self._stopping:
            return HealthReport((HealthCheck("process", Readiness.UNREADY, "stopping"),))
        async with self._looking:
            if time.monotonic() - self._looked_at >= CACHE_SECONDS:
                probes = [*self._probes, *(probe for probes in self._running for probe in probes)]
                self._report = HealthReport(tuple(await asyncio.gather(*map(_look, probes))))
                self._looked_at = time.monotonic()
            return self._report


async def _look(probe: Probe) -> HealthCheck:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
            await probe.look()
    except TimeoutError:
        return HealthCheck(probe.name, probe.otherwise, f"no answer within {PROBE_TIMEOUT_SECONDS:g} s")
    except Exception as error:  # noqa: BLE001 - whatever a probe raises is its answer, and it is reported
        return HealthCheck(probe.name, probe.otherwise, describe_error(error))
    return HealthCheck(probe.name, Readiness.READY)
