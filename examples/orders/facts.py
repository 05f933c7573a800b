"""What the database says about a run, counted afresh at each call."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, func, select

from examples.orders.tables import (
    basket,
    customer_order,
    enclosed_invoice,
    invoice,
    invoice_document,
    metadata,
    parcel,
)
from inbox.table import inbox_table
from jobs import AttemptState, JobState, job_tables, scope_hash
from jobs.schedule.storing.table import schedule_tables
from outbox.table import outbox_table
from relay.admin.operation import operation_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Counts of rows, and sums in cents."""

    orders: int
    ordered_cents: int
    invoices: int
    net_cents: int
    tax_cents: int
    parcels: int
    parcel_cents: int
    enclosed: int
    enclosed_cents: int
    documents: int
    renderings: int
    stored: int
    published: int
    consumed: int
    in_hand: int
    dead_lettered: int
    replayed: int
    jobs: int
    jobs_succeeded: int
    attempts: int
    attempts_lost: int
    baskets: int
    clean_ups: int

    def settled(self, orders: int) -> bool:
        """Whether so many orders have their invoice, its document, their parcel and the invoice in it.

        Of the six baskets three are not abandoned.
        """
        return (
            self.baskets == 3
            and orders == self.invoices == self.jobs_succeeded == self.parcels == self.enclosed
        )


def read_facts(connection: Connection) -> Facts:
    """Count everything in one transaction."""
    outbox, inbox = outbox_table(metadata), inbox_table(metadata)
    operation = operation_table(metadata)
    orders, ordered_cents = _sums(connection, customer_order, customer_order.c.amount_cents)
    invoices, net_cents, tax_cents = _sums(connection, invoice, invoice.c.net_cents, invoice.c.tax_cents)
    parcels, parcel_cents = _sums(connection, parcel, parcel.c.value_cents)
    enclosed, enclosed_cents = _sums(connection, enclosed_invoice, enclosed_invoice.c.total_cents)
    documents, renderings = _sums(connection, invoice_document, invoice_document.c.renderings)
    jobs = _states(connection, job_tables(metadata).job, scope="orders")
    attempts = _states(connection, job_tables(metadata).attempt, scope="orders")
    (baskets,) = _sums(connection, basket)
    run = schedule_tables(metadata).run
    clean_ups = select(func.count()).where(run.c.name == "orders.clean-up")
    outbox_states = _states(connection, outbox)
    inbox_states = _states(connection, inbox)
    replays = select(func.count()).where(operation.c.kind == "replay", operation.c.result == "accepted")
    return Facts(
        orders=orders,
        ordered_cents=ordered_cents,
        invoices=invoices,
        net_cents=net_cents,
        tax_cents=tax_cents,
        parcels=parcels,
        parcel_cents=parcel_cents,
        enclosed=enclosed,
        enclosed_cents=enclosed_cents,
        documents=documents,
        renderings=renderings,
        stored=sum(outbox_states.values()),
        published=outbox_states.get("published", 0),
        consumed=inbox_states.get("processed", 0),
        in_hand=inbox_states.get("processing", 0),
        dead_lettered=outbox_states.get("dead_lettered", 0) + inbox_states.get("dead_lettered", 0),
        replayed=int(connection.execute(replays).scalar_one()),
        jobs=sum(jobs.values()),
        jobs_succeeded=jobs.get(JobState.SUCCEEDED, 0),
        attempts=sum(attempts.values()),
        attempts_lost=attempts.get(AttemptState.INTERRUPTED, 0),
        baskets=baskets,
        clean_ups=int(connection.execute(clean_ups).scalar_one()),
    )


def jobs_of_executor(connection: Connection, *, pid: int) -> tuple[int, int]:
    """How many jobs the executor of this process has ended, and how many it has in the middle of their work.

    What a server is just committing for it is locked, and counts as neither.
    """
    attempt = job_tables(metadata).attempt
    begun = select(attempt.c.ended_ticks).where(attempt.c.owner.contains(f":{pid}:"))
    ends = connection.execute(begun.with_for_update(skip_locked=True)).scalars().all()
    in_the_middle = ends.count(None)
    return len(ends) - in_the_middle, in_the_middle


def _sums(connection: Connection, table: Table, *columns: Any) -> list[int]:
    # Databases answer sums of BIGINT as int or Decimal; both are exact.
    totals = [func.coalesce(func.sum(column), 0) for column in columns]
    row = connection.execute(select(func.count(), *totals).select_from(table)).one()
    return [int(value) for value in row]


def _states(connection: Connection, table: Table, *, scope: str | None = None) -> dict[str, int]:
    query = select(table.c.state, func.count()).group_by(table.c.state)
    if scope is not None:
        query = query.where(table.c.scope_hash == scope_hash(scope))
    rows = connection.execute(query)
    return {state: int(count) for state, count in rows}
