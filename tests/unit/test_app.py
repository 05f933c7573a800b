"""An App checks all that it is given at once, without I/O, and names each fault with what to do about it."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from inbox.handlers import Consumer
from inbox.options import ConsumerOptions
from outbox.options import OutboxOptions
from relay.app import App, AppConfigurationError
from relay.composition.app_options import AppOptions
from relay.schema import add_messaging_tables
from uow.contracts import Contracts
from uow.event import Event

HOME = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Placed(Event):
    number: int


@dataclass(frozen=True, kw_only=True)
class PlacedMore(Event):
    number: int
    more: int


def consumer(name: str = "billing", *handled: type, options: ConsumerOptions | None = None) -> Consumer:
    made = Consumer(name, options=options)
    for event_type in handled or (Placed,):

        @made.handles(event_type)
        async def handle(event: Any, context: Any) -> None:
            pass

    return made


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, Any]:
    metadata, contracts = MetaData(), Contracts()
    add_messaging_tables(metadata)
    contracts.register(Placed, name="orders.placed", version=1)
    return {
        "engine": create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'app.db'}"),
        "metadata": metadata,
        "contracts": contracts,
        "consumers": [consumer()],
    }


def problems(parts: dict[str, Any], **changes: Any) -> tuple[str, ...]:
    with pytest.raises(AppConfigurationError) as caught:
        App(**(parts | changes))
    return caught.value.problems


def test_a_right_app_is_built_without_touching_anything(parts: dict[str, Any], tmp_path: Path) -> None:
    app = App(**parts)
    assert (app.broker_display, list(tmp_path.iterdir())) == ("local:", [])
    assert app.unit_of_work() is not app.unit_of_work()


def test_everything_that_is_wrong_is_told_at_once(parts: dict[str, Any]) -> None:
    found = problems(
        parts,
        metadata=MetaData(),
        environment="developmnt",
        options={"outbox": {"batch_sice": 5}, "inbox": {"concurrency": 100}},
        consumers=[consumer(), consumer(), consumer("other", PlacedMore)],
        broker="amqq://guest:hunter2@host",
    )
    text = "\n".join(found)
    assert len(found) == 7, text
    assert "call relay.add_messaging_tables(metadata)" in text
    assert "unknown environment 'developmnt'; did you mean 'development'?" in text
    assert "unknown option 'outbox.batch_sice'; did you mean 'batch_size'?" in text
    assert "option inbox.concurrency must be between 1 and prefetch (64), not 100" in text
    assert "2 consumers are named 'billing'" in text
    assert "consumer 'other' handles PlacedMore, which is not registered in these contracts" in text
    assert "unknown broker scheme 'amqq'; did you mean 'amqp'?" in text
    assert "hunter2" not in text


def test_each_fault_is_a_line_of_the_error(parts: dict[str, Any]) -> None:
    with pytest.raises(AppConfigurationError) as caught:
        App(**(parts | {"metadata": MetaData(), "environment": "x"}))
    assert str(caught.value).count("\n  - ") == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"engine": None}, "give either engine or sessions"),
        ({"engine": "sqlite://"}, "engine must be an AsyncEngine, not str"),
        ({"metadata": {}}, "metadata must be a MetaData, not dict"),
        ({"contracts": {}}, "contracts must be a Contracts, not dict"),
        ({"consumers": ["billing"]}, "consumers must be Consumer objects, not str"),
        ({"consumers": [Consumer("idle")]}, "consumer 'idle' handles nothing"),
        ({"broker": 5}, "broker must be 'local:' or a kombu URL, not int"),
        ({"broker": "local"}, "this one has no '://'"),
        ({"options": 5}, "options must be AppOptions or a mapping, not int"),
        ({"options": {"declare_topology": True}}, "declare_topology is for environment='development'"),
    ],
)
def test_a_part_of_the_wrong_kind_is_named(parts: dict[str, Any], changes: dict[str, Any], told: str) -> None:
    (problem,) = problems(parts, **changes)
    assert told in problem


def test_an_engine_that_nothing_can_be_rolled_back_on_is_refused(
    parts: dict[str, Any], tmp_path: Path
) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'app.db'}"
    for engine in (
        create_async_engine(url, isolation_level="AUTOCOMMIT"),
        create_async_engine(url).execution_options(isolation_level="AUTOCOMMIT"),
    ):
        (problem,) = problems(parts, engine=engine)
        assert "AUTOCOMMIT" in problem


def test_an_in_memory_database_is_refused(parts: dict[str, Any]) -> None:
    (problem,) = problems(parts, engine=create_async_engine("sqlite+aiosqlite://"))
    assert "use a file" in problem


def test_a_strange_database_is_refused(parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = parts["engine"]
    monkeypatch.setattr(engine.sync_engine.dialect, "name", "oracle")
    (problem,) = problems(parts)
    assert "database 'oracle' is not supported; use PostgreSQL, MariaDB, MySQL or SQLite" in problem


def test_a_sessionmaker_may_be_given_instead_of_an_engine(parts: dict[str, Any]) -> None:
    engine = parts.pop("engine")

    class Session(AsyncSession):
        pass

    app = App(**parts, sessions=async_sessionmaker(engine, class_=Session, autoflush=False))
    assert app.engine.url == engine.url
    for sessions, told in (
        (AsyncSession, "sessions must be an async_sessionmaker, not type"),
        (async_sessionmaker(), "sessions must be bound to an engine"),
    ):
        (problem,) = problems(parts, sessions=sessions)
        assert told in problem


def test_a_handler_of_a_class_that_upcasters_leave_behind_is_told_which_one_to_handle(
    parts: dict[str, Any],
) -> None:
    contracts = parts["contracts"]
    contracts.register(PlacedMore, name="orders.placed", version=2)
    contracts.upcast(
        name="orders.placed", from_version=1, to_version=2, upcaster=lambda old: {**old, "more": 1}
    )
    (problem,) = problems(parts)
    assert problem == (
        "consumer 'billing' handles Placed, but upcasters turn its payloads into PlacedMore; "
        "handle that class"
    )


def test_names_that_no_queue_can_have_are_refused_for_a_broker_and_not_for_local(
    parts: dict[str, Any],
) -> None:
    longest = "x" * (240 - len("selfmanaged."))
    App(**(parts | {"consumers": [consumer(longest[:200])]}))
    long = "\u00fc" * 120
    App(**(parts | {"consumers": [consumer(long)]}))
    (problem,) = problems(parts, consumers=[consumer(long)], broker="amqp://guest:guest@host")
    assert "must have at most 240 UTF-8 bytes, not 252" in problem


@pytest.mark.parametrize("url", ["memory://", "filesystem:///tmp/broker"])
def test_a_transport_that_loses_messages_is_refused_in_production_unless_accepted(
    parts: dict[str, Any], url: str
) -> None:
    (problem,) = problems(parts, broker=url)
    assert "can lose messages" in problem
    assert "allow_lossy_broker=True" in problem
    App(**(parts | {"broker": url, "environment": "development"}))
    App(**(parts | {"broker": url, "options": AppOptions(allow_lossy_broker=True)}))


def test_options_that_cannot_work_together_are_refused_with_a_broker(parts: dict[str, Any]) -> None:
    short = {"outbox": OutboxOptions(lease_seconds=10)}
    App(**(parts | {"options": short}))
    (problem,) = problems(parts, options=short, broker="amqp://host")
    assert "the publishing lease_seconds (10) must be greater than" in problem
    slow = [consumer(options=ConsumerOptions(processing_timeout_seconds=1795))]
    (problem,) = problems(parts, consumers=slow, broker="amqp://host")
    assert "acknowledgement_timeout_seconds (1800)" in problem
    (problem,) = problems(parts, consumers=[consumer(options=ConsumerOptions(concurrency=65))])
    assert problem == "consumer 'billing': concurrency must be between 1 and prefetch (64), not 65"


def test_addresses_are_shown_without_passwords(parts: dict[str, Any]) -> None:
    engine = create_async_engine("postgresql+asyncpg://anna:hunter2@db/shop?password=hunter2")
    app = App(**(parts | {"engine": engine, "broker": "amqp://anna:hunter2@broker//"}))
    assert "hunter2" not in app.database_display + app.broker_display
    assert app.database_display.startswith("postgresql+asyncpg://anna:***@db/shop")


def test_errors_of_our_statements_hide_their_parameters_and_the_engine_given_is_left_as_it_was(
    parts: dict[str, Any],
) -> None:
    app = App(**parts)
    assert app.engine.sync_engine.hide_parameters
    assert not parts["engine"].sync_engine.hide_parameters


def test_relay_and_an_app_with_local_load_neither_broker_library_nor_command_line() -> None:
    code = (
        "import sys\n"
        "from sqlalchemy import MetaData\n"
        "from sqlalchemy.ext.asyncio import create_async_engine\n"
        "import relay; from relay.app import App; from relay.schema import add_messaging_tables\n"
        "from uow.contracts import Contracts\n"
        "m = MetaData(); add_messaging_tables(m)\n"
        "App(engine=create_async_engine('sqlite+aiosqlite:///x.db'), metadata=m, contracts=Contracts())\n"
        "print(sorted({'kombu', 'amqp', 'typer', 'rich'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
