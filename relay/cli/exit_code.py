"""With what number the command line ends, and what that number means."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `selfmanaged`; stable, so that scripts may rely on them.

    A second SIGINT or SIGTERM ends at once with 128 plus the number of the signal (130, 143).
    """

    DONE = 0
    """What was asked for is done (also: stopped gracefully by a signal; `check`: ready or degraded)."""
    UNEXPECTED = 1
    """An error that no other code names; a defect of ours or of the application."""
    USAGE = 2
    """The command line is wrong: unknown command or option, a value that is none, no failure id."""
    APP_NOT_LOADED = 3
    """The import string is wrong, its module failed, or the App's configuration is refused."""
    DATABASE_AWAY = 4
    """The database cannot be reached or turned us away."""
    SCHEMA_DIFFERS = 5
    """Our tables are missing or differ; run the migrations."""
    BROKER_AWAY = 6
    """The broker cannot be reached or turned us away (`check --strict`: degraded)."""
    TOPOLOGY_DIFFERS = 7
    """An exchange, queue or binding is missing or differs; `topology declare` creates it."""
    NOT_FOUND = 8
    """There is no such failed message, consumer, schedule or job (in that scope)."""
    INVALID_STATE = 9
    """The message is not dead-lettered any more, or the job's state does not allow what was asked for."""
    UNREADABLE = 10
    """The stored payload cannot be read by the registered contracts; repair comes before replay."""
    PARTLY_DONE = 11
    """Some of many were not done: see the summary; `--drain` ended with messages left."""
    PORT_TAKEN = 12
    """The health port cannot be listened on."""
    IDENTITY_CONFLICT = 13
    """The job's id was submitted before with another request; what asks for something else needs its own."""
    NO_ATTEMPTS_LEFT = 14
    """All attempts of the job are used up; submit it under another id."""
    NOT_SUCCEEDED = 15
    """`jobs watch`: the job failed, was cancelled or was interrupted."""
    TIMED_OUT = 16
    """`jobs watch --timeout`: the job has not ended yet; it goes on."""
    NOT_FIT = 17
    """`schedules report`, `check --release`: something does not fit; each reason is a line."""
