"""Billing: an invoice per order, an event that says so and a job that renders it, in the receipt's commit."""

from sqlalchemy import insert, select

from examples.orders.events import InvoiceIssued, OrderPlaced
from examples.orders.invoicing import invoice_to_render
from examples.orders.tables import invoice, tax_rate
from inbox import Consumer, HandlerContext

billing = Consumer("billing")


class UnknownTaxRateError(LookupError):
    """Nobody has entered the tax rate of this country yet."""


@billing.handles(OrderPlaced)
async def issue_invoice(event: OrderPlaced, context: HandlerContext) -> None:
    rate = await context.session.scalar(
        select(tax_rate.c.per_thousand).where(tax_rate.c.country == event.country)
    )
    if rate is None:
        raise UnknownTaxRateError(f"no tax rate is known for {event.country}")
    tax_cents = (event.amount_cents * rate + 500) // 1000
    # A second invoice for this order would violate the primary key: it never comes to that.
    await context.session.execute(
        insert(invoice).values(
            order_number=event.order_number, net_cents=event.amount_cents, tax_cents=tax_cents
        )
    )
    context.enqueue(
        InvoiceIssued(order_number=event.order_number, net_cents=event.amount_cents, tax_cents=tax_cents)
    )
    context.stage(invoice_to_render(event.order_number, net_cents=event.amount_cents, tax_cents=tax_cents))
