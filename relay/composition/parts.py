"""Checks all that an App is given, at once, and gives the checked parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from inbox.handlers import Consumer
from relay.broker import Broker, BrokerAddressError, ConsumerBinding, TopologyError
from relay.composition.app_options import AppOptions
from relay.composition.check import (
    AppConfigurationError,
    consumer_problems,
    engine_of,
    engine_problems,
    environment_problems,
    metadata_problems,
    option_problems,
)
from relay.composition.job_parts import JobParts, checked_job_parts
from relay.composition.option_reading import OptionError, read_options
from relay.consuming.subscription import bindings_of
from relay.local_broker import LOCAL_URL
from uow.contracts import Contracts
from uow.sql.dialect import database_of
from uow.sql.isolation import chosen_isolation

_PROVIDERS: Final = {"amqp": "rabbitmq", "pyamqp": "rabbitmq", "redis": "redis", "sentinel": "redis"}
_LOSSY: Final = (
    "can lose messages, at least those that a killed process had taken; use environment='development', "
    "or accept it with AppOptions(allow_lossy_broker=True)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppParts:
    """What an App is made of. `broker` is None for `local:`; `provider` names its kind in telemetry.

    Handlers have sessions of their own: see `handler_sessions_on`.
    """

    engine: AsyncEngine
    sessions: async_sessionmaker[AsyncSession]
    handler_sessions: async_sessionmaker[AsyncSession]
    metadata: MetaData
    contracts: Contracts
    broker: Broker | None
    provider: str
    consumers: tuple[Consumer, ...]
    bindings: tuple[ConsumerBinding, ...]
    work: JobParts
    options: AppOptions


def checked_parts(
    *,
    engine: Any,
    sessions: Any,
    metadata: Any,
    contracts: Any,
    broker: Any,
    consumers: Sequence[Any],
    jobs: Sequence[Any],
    schedules: Sequence[Any],
    schedule_overrides: Sequence[Any],
    options: AppOptions | Mapping[str, Any] | None,
    environment: Any,
) -> AppParts:
    """The parts, when all are right. Raises AppConfigurationError with every fault that is found."""
    bind, problems = _bind(engine, sessions)
    work, faults = checked_job_parts(metadata, jobs, schedules, schedule_overrides)
    problems += metadata_problems(metadata) + faults
    checked_options, faults = _options(options)
    problems += faults + environment_problems(environment, checked_options)
    bindings, faults = _bindings(consumers, contracts)
    problems += faults or option_problems(checked_options, consumers, local=broker == LOCAL_URL)
    opened, faults = _broker(broker, checked_options, bindings, production=environment != "development")
    problems += faults
    if problems or work is None:
        raise AppConfigurationError(problems)
    quiet, own_sessions = _quiet(bind, sessions)
    return AppParts(
        engine=quiet,
        sessions=own_sessions,
        handler_sessions=handler_sessions_on(own_sessions, quiet),
        metadata=metadata,
        contracts=contracts,
        broker=opened,
        provider=_provider(broker),
        consumers=tuple(consumers),
        bindings=bindings,
        work=work,
        options=checked_options,
    )


def _quiet(engine: AsyncEngine, sessions: Any) -> tuple[AsyncEngine, async_sessionmaker[AsyncSession]]:
    """Engine and sessions with hidden parameters: errors of our statements must not carry payloads."""
    quiet = engine.execution_options()
    quiet.sync_engine.hide_parameters = True
    return quiet, _sessions(sessions, quiet)


def _provider(url: str) -> str:
    scheme = url.partition(":")[0]
    return next((name for prefix, name in _PROVIDERS.items() if scheme.startswith(prefix)), scheme)


def _bind(engine: Any, sessions: Any) -> tuple[Any, list[str]]:
    if (engine is None) == (sessions is None):
        return None, ["give either engine or sessions (an async_sessionmaker bound to one engine)"]
    if sessions is None:
        return engine, engine_problems(engine)
    bind, problems = engine_of(sessions)
    return bind, problems or engine_problems(bind)


def _sessions(given: Any, engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    if given is None:
        return async_sessionmaker(engine, expire_on_commit=False)
    return async_sessionmaker(class_=given.class_, **(given.kw | {"bind": engine}))


def handler_sessions_on(
    sessions: async_sessionmaker[AsyncSession], engine: AsyncEngine
) -> async_sessionmaker[AsyncSession]:
    """The sessions in which handlers run: at READ COMMITTED where a snapshot would be the default.

    A receipt's lease is renewed while its handler runs, so a handler's snapshot is older than the receipt
    that it completes; MariaDB with `innodb_snapshot_isolation` (the default since 11.6) refuses that with
    error 1020. An isolation level that the application chose for its engine stays.
    """
    if chosen_isolation(engine) or not database_of(engine).reads_a_snapshot:
        return sessions
    return _sessions(sessions, engine.execution_options(isolation_level="READ COMMITTED"))


def _bindings(consumers: Sequence[Any], contracts: Any) -> tuple[tuple[ConsumerBinding, ...], list[str]]:
    if not isinstance(contracts, Contracts):
        return (), [f"contracts must be a Contracts, not {type(contracts).__name__}"]
    problems = consumer_problems(consumers, contracts)
    return ((), problems) if problems else (tuple(bindings_of(consumers, contracts)), [])


def _options(options: AppOptions | Mapping[str, Any] | None) -> tuple[AppOptions, list[str]]:
    match options:
        case None:
            return AppOptions(), []
        case AppOptions():
            return options, []
        case Mapping():
            try:
                return read_options(AppOptions, options), []
            except OptionError as error:
                return AppOptions(), list(error.problems)
        case _:
            return AppOptions(), [f"options must be AppOptions or a mapping, not {type(options).__name__}"]


def _broker(
    url: Any, options: AppOptions, bindings: Sequence[ConsumerBinding], *, production: bool
) -> tuple[Broker | None, list[str]]:
    if url == LOCAL_URL:
        return None, []
    if not isinstance(url, str):
        return None, [f"broker must be 'local:' or a kombu URL, not {type(url).__name__}"]
    # Only now: a process with `local:` loads no broker library.
    from relay.kombu_broker import open_broker  # noqa: PLC0415
    from relay.kombu_broker.names import TopologyNames  # noqa: PLC0415

    try:
        TopologyNames(options.broker).check(bindings)
        opened = open_broker(url, options.broker)
    except (BrokerAddressError, TopologyError) as error:
        return None, [str(error)]
    lossy = not (opened.features.survives_kill and opened.features.survives_restart)
    if lossy and production and not options.allow_lossy_broker:
        return None, [f"the transport of {opened.display_url} {_LOSSY}"]
    return opened, []
