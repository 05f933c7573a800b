"""Our tables come to a database by the application's own migrations, and a database that differs is told."""

from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Column, Connection, Integer, MetaData, Table, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay.schema import (
    SchemaError,
    add_messaging_tables,
    check_schema,
    ddl,
    messaging_tables,
    schema_differences,
)
from tests.support.databases import create_tables
from uow.sql.lease import LeaseNotMappedError

ENVIRONMENT = """
from alembic import context
from relay.migration import render_item

options = context.config.attributes
context.configure(
    connection=options["connection"],
    target_metadata=options["metadata"],
    render_item=render_item,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
"""
TEMPLATE = """
import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}

def upgrade() -> None:
    ${upgrades if upgrades else "pass"}

def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
"""


@pytest.fixture
def metadata() -> MetaData:
    metadata = MetaData()
    Table("business_order", metadata, Column("id", Integer, primary_key=True))
    add_messaging_tables(metadata)
    return metadata


def alembic_config(directory: Path, connection: Connection, metadata: MetaData) -> Config:
    (directory / "versions").mkdir(exist_ok=True)
    (directory / "env.py").write_text(ENVIRONMENT)
    (directory / "script.py.mako").write_text(TEMPLATE)
    config = Config(stdout=(directory / "output.txt").open("a"))
    config.set_main_option("script_location", str(directory))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, metadata=metadata)
    return config


async def test_autogenerate_creates_our_tables_and_then_finds_nothing_to_do(
    engine: AsyncEngine, metadata: MetaData, tmp_path: Path
) -> None:
    def migrate(connection: Connection) -> None:
        config = alembic_config(tmp_path, connection, metadata)
        command.revision(config, "messaging", autogenerate=True)
        command.upgrade(config, "head")
        connection.commit()
        command.check(config)
        assert schema_differences(connection, metadata) == []
        command.downgrade(config, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]

    async with engine.connect() as connection:
        await connection.run_sync(migrate)


async def test_the_printed_statements_create_what_the_check_accepts(
    engine: AsyncEngine, metadata: MetaData
) -> None:
    async with engine.begin() as connection:
        for statement in ddl(metadata, engine.dialect):
            await connection.exec_driver_sql(statement)
    async with engine.connect() as connection:
        await connection.run_sync(check_schema, metadata)


async def test_an_empty_database_lacks_every_table_and_the_error_says_what_to_do(
    engine: AsyncEngine, metadata: MetaData
) -> None:
    async with engine.connect() as connection:
        with pytest.raises(SchemaError) as caught:
            await connection.run_sync(check_schema, metadata)
    names = [difference.name for difference in caught.value.differences]
    assert names == [
        "outbox_message",
        "inbox_receipt",
        "jobs_job",
        "jobs_attempt",
        "jobs_schedule",
        "jobs_schedule_run",
        "jobs_schedule_action",
        "jobs_schedule_host",
        "jobs_cursor",
        "messaging_lease",
        "messaging_operation",
    ]
    assert "missing table: outbox_message" in str(caught.value)
    assert "selfmanaged schema ddl" in str(caught.value)


async def test_a_missing_column_and_a_missing_index_are_named(
    engine: AsyncEngine, metadata: MetaData
) -> None:
    await create_tables(engine, metadata)
    on_table = " ON outbox_message" if engine.dialect.name in {"mysql", "mariadb"} else ""
    async with engine.begin() as connection:
        await connection.execute(text(f"DROP INDEX ix_outbox_message_ordering{on_table}"))
        await connection.execute(text("ALTER TABLE inbox_receipt DROP COLUMN error_detail"))
    async with engine.connect() as connection:
        found = await connection.run_sync(schema_differences, metadata)
    assert [str(difference) for difference in found] == [
        "missing index: ix_outbox_message_ordering",
        "missing column: inbox_receipt.error_detail",
    ]


@pytest.mark.parametrize("database_kind", ["postgresql", "mariadb"], indirect=True)
async def test_text_that_would_not_compare_by_code_point_is_a_different_type(
    engine: AsyncEngine, metadata: MetaData
) -> None:
    await create_tables(engine, metadata)
    change = {
        "postgresql": 'ALTER TABLE inbox_receipt ALTER COLUMN consumer TYPE VARCHAR(200) COLLATE "und-x-icu"',
        "mysql": "ALTER TABLE inbox_receipt MODIFY consumer VARCHAR(200) NOT NULL",
    }[engine.dialect.name]
    async with engine.begin() as connection:
        await connection.exec_driver_sql(change)
    async with engine.connect() as connection:
        found = await connection.run_sync(schema_differences, metadata)
    assert [difference.name for difference in found] == ["inbox_receipt.consumer"]
    assert "different type" in str(found[0])


async def test_columns_and_indexes_of_the_application_are_no_difference(
    engine: AsyncEngine, metadata: MetaData
) -> None:
    await create_tables(engine, metadata)
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE outbox_message ADD COLUMN tenant INTEGER"))
        await connection.execute(text("CREATE INDEX ix_tenant ON outbox_message (tenant)"))
    async with engine.connect() as connection:
        assert await connection.run_sync(schema_differences, metadata) == []


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
async def test_our_tables_may_live_in_a_schema_of_their_own(engine: AsyncEngine) -> None:
    metadata = MetaData()
    add_messaging_tables(metadata, schema="messaging")
    async with engine.begin() as connection:
        await connection.execute(text("CREATE SCHEMA messaging"))
        await connection.run_sync(metadata.create_all)
    async with engine.connect() as connection:
        await connection.run_sync(check_schema, metadata)
    assert {table.schema for table in messaging_tables(metadata)} == {"messaging"}


def test_each_part_can_be_left_out() -> None:
    own = {"messaging_lease", "messaging_operation"}
    jobs = {"jobs_job", "jobs_attempt"}
    schedules = {
        "jobs_schedule",
        "jobs_schedule_run",
        "jobs_schedule_action",
        "jobs_schedule_host",
        "jobs_cursor",
    }
    parts = ("outbox", "inbox", "jobs", "schedules")
    kept = {
        ("outbox",): {"outbox_message"},
        ("inbox",): {"inbox_receipt"},
        ("jobs",): jobs,
        ("jobs", "schedules"): jobs | schedules,
        ("schedules",): set[str](),  # they need jobs
    }
    for wanted, names in kept.items():
        metadata = MetaData()
        add_messaging_tables(metadata, **{part: part in wanted for part in parts})  # type: ignore[arg-type]
        assert {table.name for table in messaging_tables(metadata)} == names | own
        assert set(metadata.tables) == names | own
    with pytest.raises(LeaseNotMappedError):
        messaging_tables(MetaData())


def test_adding_the_tables_twice_changes_nothing(metadata: MetaData) -> None:
    before: dict[str, Any] = dict(metadata.tables)
    add_messaging_tables(metadata)
    assert dict(metadata.tables) == before
