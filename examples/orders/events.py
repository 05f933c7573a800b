"""The events of the order service and their contracts."""

from dataclasses import dataclass

from uow import Contracts, Event

contracts = Contracts()


@contracts.event("orders.order-placed", version=1)
@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    """A customer ordered something; `amount_cents` is without tax."""

    order_number: str
    customer: str
    country: str
    amount_cents: int


@contracts.event("orders.invoice-issued", version=1)
@dataclass(frozen=True, kw_only=True)
class InvoiceIssued(Event):
    """Billing wrote the invoice of an order."""

    order_number: str
    net_cents: int
    tax_cents: int
