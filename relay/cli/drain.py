"""Runs a relay until nothing is left to publish, showing how far it is."""

import asyncio
import contextlib
import time
from typing import Final

from relay.app import App
from relay.cli.exit_code import ExitCode
from relay.cli.screen import Screen
from uow.loop.supervision import is_outage

_LOOK_SECONDS: Final = 0.25


async def drain(
    app: App, stop: asyncio.Event, screen: Screen, *, relays: int, timeout_seconds: float | None
) -> ExitCode:
    """Relay until no event is pending or in hand, until the timeout, or until `stop` is set.

    Events that wait for a retry count as left, so without a timeout this may take as long as their back-off.
    """
    watching = asyncio.create_task(_stop_when_empty(app, stop, screen, timeout_seconds))
    try:
        await app.run_relay(stop, relays=relays)
    finally:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    counts = await app.outbox_counts()
    left = counts.pending + counts.publishing
    screen.document({"left": left, "dead_lettered": counts.dead_lettered})
    if counts.dead_lettered:
        screen.note(f"{counts.dead_lettered} events are dead-lettered; see `selfmanaged failed list`")
    if left == 0:
        screen.line("Nothing is left to publish.", style="green")
        return ExitCode.DONE
    screen.line(f"{left} events are left to publish.", style="yellow")
    return ExitCode.PARTLY_DONE


async def _stop_when_empty(
    app: App, stop: asyncio.Event, screen: Screen, timeout_seconds: float | None
) -> None:
    deadline = float("inf") if timeout_seconds is None else time.monotonic() + timeout_seconds
    most = 0
    with screen.progress("Publishing", None) as bar:
        while not stop.is_set():
            left = await _left(app)
            if left is not None:
                most = max(most, left)
                bar.show(most - left, most)
            if left == 0 or time.monotonic() >= deadline:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await stop.wait()
    stop.set()


async def _left(app: App) -> int | None:
    """How many events are unfinished; None while the database cannot be asked."""
    try:
        counts = await app.outbox_counts()
    except Exception as error:
        if is_outage(error):
            return None
        raise
    return counts.pending + counts.publishing
