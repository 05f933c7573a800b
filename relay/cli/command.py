"""How every command runs: the App loaded, one asyncio run, each error told and turned into an exit code."""

import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import typer

from jobs.errors import JobIdentityConflictError, JobOptionError
from jobs.schedule.errors import UnknownScheduleError
from jobs.schedule.storing.table import SchedulesNotMappedError
from jobs.table import JobsNotMappedError
from relay.admin.dead_queue import NoDeadQueueError
from relay.admin.failed_message import FailedCursorError
from relay.admin.failure_id import FailureIdError
from relay.app import App, AppConfigurationError, DatabaseUnavailableError, NothingToRunError
from relay.broker import BrokerAddressError, BrokerUnavailableError, TopologyError
from relay.cli.app_import import AppImportError, load_app
from relay.cli.confirmation import NotConfirmedError
from relay.cli.event_loop import run_to_its_end
from relay.cli.exit_code import ExitCode
from relay.cli.jobs_cursor import JobCursorError
from relay.cli.screen import Screen
from relay.composition.option_reading import OptionError
from relay.composition.own_package import ForeignModuleError
from relay.consuming.subscription import UnknownConsumerError
from relay.health_server import HealthPortError
from relay.schema import SchemaError
from uow.errors import SelfManagedError
from uow.secret import describe_error
from uow.text import TextError

Work = Callable[[App, Screen], Awaitable[ExitCode]]
_CODES: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (
    (AppImportError, ExitCode.APP_NOT_LOADED),
    (AppConfigurationError, ExitCode.APP_NOT_LOADED),
    (ForeignModuleError, ExitCode.APP_NOT_LOADED),
    (OptionError, ExitCode.APP_NOT_LOADED),
    (BrokerAddressError, ExitCode.APP_NOT_LOADED),
    (DatabaseUnavailableError, ExitCode.DATABASE_AWAY),
    (SchemaError, ExitCode.SCHEMA_DIFFERS),
    (BrokerUnavailableError, ExitCode.BROKER_AWAY),
    (TopologyError, ExitCode.TOPOLOGY_DIFFERS),
    (HealthPortError, ExitCode.PORT_TAKEN),
    (NothingToRunError, ExitCode.APP_NOT_LOADED),
    (JobsNotMappedError, ExitCode.APP_NOT_LOADED),
    (SchedulesNotMappedError, ExitCode.APP_NOT_LOADED),
    (UnknownScheduleError, ExitCode.NOT_FOUND),
    (UnknownConsumerError, ExitCode.NOT_FOUND),
    (NoDeadQueueError, ExitCode.NOT_FOUND),
    (FailureIdError, ExitCode.USAGE),
    (NotConfirmedError, ExitCode.USAGE),
    (FailedCursorError, ExitCode.USAGE),
    (JobCursorError, ExitCode.USAGE),
    (JobOptionError, ExitCode.USAGE),
    (JobIdentityConflictError, ExitCode.IDENTITY_CONFLICT),
    (TextError, ExitCode.USAGE),
)
_BROKEN_PIPE: Final = 141


def run_command(app: str, work: Work, *, json: bool) -> NoReturn:
    """Load the App, run `work` on it, close it, and end with the exit code."""
    screen = Screen(json=json)
    try:
        code = run_to_its_end(_with_app(app, work, screen))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:
        _leave_broken_pipe()
        raise typer.Exit(_BROKEN_PIPE) from None
    except Exception as error:  # noqa: BLE001 - told in full, and ends with a code of its own
        code = tell(error, screen)
    raise typer.Exit(int(code))


async def _with_app(text: str, work: Work, screen: Screen) -> ExitCode:
    app = load_app(text)
    try:
        return await work(app, screen)
    finally:
        await app.close()
        await app.engine.dispose()  # this process is the application's, and it ends here


def tell(error: Exception, screen: Screen) -> ExitCode:
    """Show an error without secrets, and say with which code the command ends."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.UNEXPECTED)
    if code is ExitCode.UNEXPECTED and not isinstance(error, SelfManagedError):
        from relay.cli.log import exception_text  # noqa: PLC0415 - only for defects

        screen.error(code, f"{describe_error(error)}\n{exception_text(error)}")
    else:
        text = str(error) if isinstance(error, ForeignModuleError) else describe_error(error)
        screen.error(code, text)
    return code


def _leave_broken_pipe() -> None:
    # The reader has gone; what is still buffered must not raise again when the interpreter ends.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
