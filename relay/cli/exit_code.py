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
    """There is no such failed message or consumer."""
    INVALID_STATE = 9
    """The message is not dead-lettered: replayed or discarded by someone, or completed."""
    UNREADABLE = 10
    """The stored payload cannot be read by the registered contracts; repair comes before replay."""
    PARTLY_DONE = 11
    """Some of many were not done: see the summary; `--drain` ended with messages left."""
    PORT_TAKEN = 12
    """The health port cannot be listened on."""
