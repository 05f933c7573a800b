"""A second engine on the same database, with connections of its own."""

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from uow.sql.sqlite import prepare_sqlite


def sibling_engine(engine: AsyncEngine) -> AsyncEngine:
    """An engine that connects exactly as `engine` does, but shares no connection with it.

    Work that must not wait for the application's pool, or that runs in an event loop of its own (the
    connections of async drivers belong to one loop), uses a sibling. The caller disposes it. Listeners
    that the application put on its engine (not on its pool) do not come along.
    """
    source = engine.sync_engine
    sibling = AsyncEngine(
        Engine(
            source.pool.recreate(),
            source.dialect,
            source.url,
            hide_parameters=source.hide_parameters,
            execution_options=dict(source.get_execution_options()),
        )
    )
    prepare_sqlite(sibling)
    return sibling
