"""Telling of jobs whose handlers this executor does not have."""

import logging
import time
from typing import Final

from jobs.answer import StartReport
from uow.telemetry import JobOutcome, record_job

_TELL_AGAIN_SECONDS: Final = 600.0

_log: Final = logging.getLogger(__name__)


class UnknownHandlers:
    """Counts jobs that were put off, and logs each handler now and then."""

    def __init__(self) -> None:
        self._told_at: dict[tuple[str, int], float] = {}

    def tell(self, report: StartReport) -> None:
        """Of what this claim has put off."""
        for (name, version), count in report.unknown.items():
            record_job(handler=name, queue="", outcome=JobOutcome.UNKNOWN_HANDLER, seconds=None, count=count)
            now = time.monotonic()
            if now - self._told_at.get((name, version), -_TELL_AGAIN_SECONDS) >= _TELL_AGAIN_SECONDS:
                self._told_at[name, version] = now
                _log.warning(
                    "%d jobs wait for handler %s, version %d, which this executor does not have; "
                    "they stay queued for one that has it",
                    count,
                    name,
                    version,
                )
