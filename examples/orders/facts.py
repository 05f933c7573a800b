"""What the database says about a run, counted afresh at each call."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, func, select

from examples.orders.tables import customer_order, enclosed_invoice, invoice, metadata, parcel
from inbox.table import inbox_table
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
    stored: int
    published: int
    consumed: int
    in_hand: int
    dead_lettered: int
    replayed: int

    @property
    def settled(self) -> bool:
        """Whether every order has its invoice, its parcel and the invoice in the parcel."""
        return self.orders == self.invoices == self.parcels == self.enclosed


def read_facts(connection: Connection) -> Facts:
    """Count everything in one transaction."""
    outbox, inbox = outbox_table(metadata), inbox_table(metadata)
    operation = operation_table(metadata)
    orders, ordered_cents = _sums(connection, customer_order, customer_order.c.amount_cents)
    invoices, net_cents, tax_cents = _sums(connection, invoice, invoice.c.net_cents, invoice.c.tax_cents)
    parcels, parcel_cents = _sums(connection, parcel, parcel.c.value_cents)
    enclosed, enclosed_cents = _sums(connection, enclosed_invoice, enclosed_invoice.c.total_cents)
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
        stored=sum(outbox_states.values()),
        published=outbox_states.get("published", 0),
        consumed=inbox_states.get("processed", 0),
        in_hand=inbox_states.get("processing", 0),
        dead_lettered=outbox_states.get("dead_lettered", 0) + inbox_states.get("dead_lettered", 0),
        replayed=int(connection.execute(replays).scalar_one()),
    )


def _sums(connection: Connection, table: Table, *columns: Any) -> list[int]:
    # Databases answer sums of BIGINT as int or Decimal; both are exact.
    totals = [func.coalesce(func.sum(column), 0) for column in columns]
    row = connection.execute(select(func.count(), *totals).select_from(table)).one()
    return [int(value) for value in row]


def _states(connection: Connection, table: Table) -> dict[str, int]:
    rows = connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
    return {state: int(count) for state, count in rows}
