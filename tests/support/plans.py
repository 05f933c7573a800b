"""How a database executes the statements of a piece of work: each is explained just before it runs."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.ext.asyncio import AsyncEngine

_EXPLAIN = {
    "sqlite": "EXPLAIN QUERY PLAN ",
    "postgresql": "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ",
    "mysql": "ANALYZE FORMAT=JSON ",
}
# MariaDB writes conditions with the bytes of their values as they are, which is no JSON.
_CONDITION = re.compile(r'^\s*"\w+_condition":.*$', re.MULTILINE)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")


@dataclass(frozen=True)
class Plan:
    """One statement and what the database says of it, in its own words; with the rows it really read,
    except on SQLite."""

    statement: str
    steps: list[Any]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """All mappings anywhere in a JSON plan."""
        return list(_mappings(self.steps))

    @property
    def lines(self) -> list[str]:
        """The lines of a textual plan."""
        return [str(step[3]) for step in self.steps]


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _mappings(each)


async def plans_of(
    engine: AsyncEngine, work: Callable[[Connection], Any], *, before: Callable[[Connection], Any] | None
) -> list[Plan]:
    """The plans of the statements of `work`, run after `before` in one transaction that is rolled back."""
    plans: list[Plan] = []
    explaining = False

    def explain(
        connection: Connection, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        nonlocal explaining
        if explaining:
            return
        explaining = True
        name = connection.dialect.name
        connection.exec_driver_sql("SAVEPOINT explaining")
        rows = connection.exec_driver_sql(_EXPLAIN[name] + statement, parameters).all()
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT explaining")
        plans.append(Plan(statement, _decoded(name, rows)))
        explaining = False

    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))  # begins the transaction
        if before is not None:
            await connection.run_sync(before)
        event.listen(engine.sync_engine, "before_cursor_execute", explain)
        try:
            await connection.run_sync(work)
        finally:
            event.remove(engine.sync_engine, "before_cursor_execute", explain)
            await connection.rollback()
    return plans


def _decoded(name: str, rows: Any) -> list[Any]:
    if name == "sqlite":
        return [tuple(row) for row in rows]
    (document,) = [row[0] for row in rows]
    if isinstance(document, str):
        document = json.loads(_LAST_COMMA.sub("", _CONDITION.sub("", document)), strict=False)
    return [document]
