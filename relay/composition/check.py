"""What is wrong with the parts an App is given; everything is looked at, so that all is told at once."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from inbox.errors import InboxOptionError
from inbox.handlers import Consumer
from inbox.table import InboxNotMappedError, inbox_table
from jobs.execution.errors import DuplicateJobHandlerError
from jobs.execution.registry import JobRegistry, handlers_of
from jobs.table import find_job_tables
from outbox.table import OutboxNotMappedError, outbox_table
from relay.admin.operation import OperationNotMappedError, operation_table
from relay.composition.app_options import AppOptions
from relay.options import OptionRuleError, check_consuming_options, check_publishing_options
from uow.contracts import Contracts, UnregisteredEventError
from uow.errors import FixTheCodeError
from uow.sql.dialect import UnsupportedDatabaseError, database_of
from uow.sql.isolation import is_set_to_autocommit
from uow.sql.lease import LeaseNotMappedError, lease_table
from uow.sql.sqlite import InMemorySqliteError, prepare_sqlite
from uow.suggestion import did_you_mean

ENVIRONMENTS: Final = ("development", "production")
_AUTOCOMMIT: Final = (
    "the engine is in AUTOCOMMIT, so that nothing could be rolled back; "
    "make it without isolation_level='AUTOCOMMIT'"
)
_TABLES_NOT_ADDED: Final = (
    "the metadata does not hold our tables; call relay.add_messaging_tables(metadata) "
    "where the application's tables are declared"
)
_JOBS_LEFT_OUT: Final = (
    "jobs has handlers, but the metadata has no tables of jobs; call relay.add_messaging_tables(metadata) "
    "without jobs=False"
)
_DECLARES_IN_PRODUCTION: Final = (
    "declare_topology is for environment='development'; "
    "in production run `selfmanaged topology declare` when the topology changes"
)
_NOT_MAPPED: Final = (OutboxNotMappedError, InboxNotMappedError, LeaseNotMappedError, OperationNotMappedError)


class AppConfigurationError(FixTheCodeError):
    """An App cannot be built from what it was given; `problems` has one sentence for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        listed = problems[0] if len(problems) == 1 else "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"this App cannot work: {listed}")
        self.problems = tuple(problems)


def engine_problems(engine: Any) -> list[str]:
    """Of the engine: its kind, its database, and how it commits. Makes SQLite fit for concurrent units."""
    if not isinstance(engine, AsyncEngine):
        hint = "make it with sqlalchemy.ext.asyncio.create_async_engine"
        return [f"engine must be an AsyncEngine, not {type(engine).__name__}; {hint}"]
    try:
        database_of(engine)
        prepare_sqlite(engine)
    except (UnsupportedDatabaseError, InMemorySqliteError) as error:
        return [str(error)]
    if is_set_to_autocommit(engine.sync_engine):
        return [_AUTOCOMMIT]
    return []


def engine_of(sessions: Any) -> tuple[Any, list[str]]:
    """The engine that a sessionmaker is bound to, or what is wrong with it."""
    if not isinstance(sessions, async_sessionmaker):
        return None, [f"sessions must be an async_sessionmaker, not {type(sessions).__name__}"]
    bind = sessions.kw.get("bind")
    if bind is None:
        return None, ["sessions must be bound to an engine: async_sessionmaker(engine)"]
    return bind, []


def metadata_problems(metadata: Any) -> list[str]:
    """Whether our tables were added."""
    if not isinstance(metadata, MetaData):
        return [f"metadata must be a MetaData, not {type(metadata).__name__}"]
    for table in (outbox_table, inbox_table, lease_table, operation_table):
        try:
            table(metadata)
        except _NOT_MAPPED:
            return [_TABLES_NOT_ADDED]
    return []


def job_problems(metadata: MetaData, registries: Sequence[Any]) -> list[str]:
    """Kinds of registries, handlers that are declared twice, and handlers without tables."""
    if isinstance(registries, JobRegistry):
        return ["jobs must be a list of JobRegistry objects, as in jobs=[registry], not one of them"]
    strangers = [each for each in registries if not isinstance(each, JobRegistry)]
    if strangers:
        return [f"jobs must be JobRegistry objects, not {type(each).__name__}" for each in strangers]
    if registries and find_job_tables(metadata) is None:
        return [_JOBS_LEFT_OUT]
    try:
        handlers_of(registries)
    except DuplicateJobHandlerError as error:
        return [str(error)]
    return []


def environment_problems(environment: Any, options: AppOptions) -> list[str]:
    """Whether it is one we know, and what may not be done in it."""
    if environment not in ENVIRONMENTS:
        return [f"unknown environment {environment!r}{did_you_mean(str(environment), ENVIRONMENTS)}"]
    if environment == "production" and options.declare_topology:
        return [_DECLARES_IN_PRODUCTION]
    return []


def consumer_problems(consumers: Sequence[Any], contracts: Contracts) -> list[str]:
    """Kinds, duplicate names, and handlers of events that are not registered or that no payload becomes."""
    strangers = [each for each in consumers if not isinstance(each, Consumer)]
    problems = [f"consumers must be Consumer objects, not {type(each).__name__}" for each in strangers]
    known = [each for each in consumers if isinstance(each, Consumer)]
    for name, count in Counter(consumer.name for consumer in known).items():
        if count > 1:
            problems.append(
                f"{count} consumers are named {name!r}; a name stands for one queue and its receipts"
            )
    for consumer in known:
        if not consumer.event_types:
            problems.append(
                f"consumer {consumer.name!r} handles nothing; decorate with @consumer.handles(...)"
            )
        for event_type in sorted(consumer.event_types, key=lambda kind: kind.__qualname__):
            problems += _handler_problems(consumer, event_type, contracts)
    return problems


def _handler_problems(consumer: Consumer, event_type: type[Any], contracts: Contracts) -> list[str]:
    told = f"consumer {consumer.name!r} handles {event_type.__qualname__}"
    try:
        versions = contracts.source_versions(event_type)
    except UnregisteredEventError:
        known = [contract.event_type.__qualname__ for contract in contracts]
        hint = did_you_mean(event_type.__qualname__, known)
        return [f"{told}, which is not registered in these contracts{hint}"]
    if versions:
        return []
    contract = contracts.contract_of(event_type)
    newest = contracts.target_of(contract.name, contract.version).event_type.__qualname__
    return [f"{told}, but upcasters turn its payloads into {newest}; handle that class"]


def option_problems(options: AppOptions, consumers: Sequence[Consumer], *, local: bool) -> list[str]:
    """Rules between options of different groups, and what single consumers override.

    With `local` nothing waits for a broker, so its timeouts have no rules.
    """
    problems: list[str] = []
    timeouts: list[tuple[str, float]] = []
    for consumer in consumers:
        try:
            own = options.inbox.overridden_by(consumer.options)
        except InboxOptionError as error:
            problems.append(f"consumer {consumer.name!r}: {error}")
        else:
            timeouts.append((consumer.name, own.processing_timeout_seconds))
    if local:
        return problems
    try:
        check_publishing_options(
            lease_seconds=options.outbox.lease_seconds,
            confirm_timeout_seconds=options.broker.confirm_timeout_seconds,
            connect_timeout_seconds=options.broker.connect_timeout_seconds,
        )
    except OptionRuleError as error:
        problems.append(str(error))
    try:
        check_consuming_options(
            acknowledgement_timeout_seconds=options.broker.acknowledgement_timeout_seconds,
            busy_wait_limit_seconds=options.inbox.busy_wait_limit_seconds,
            processing_timeouts=timeouts,
        )
    except OptionRuleError as error:
        problems.append(str(error))
    return problems
