"""Shipping: packs a parcel when an order is placed, and encloses the invoice when it is issued."""

from sqlalchemy import insert

from examples.orders.events import InvoiceIssued, OrderPlaced
from examples.orders.tables import enclosed_invoice, parcel
from inbox import Consumer, HandlerContext

shipping = Consumer("shipping")


@shipping.handles(OrderPlaced)
async def pack_parcel(event: OrderPlaced, context: HandlerContext) -> None:
    await context.session.execute(
        insert(parcel).values(
            order_number=event.order_number, recipient=event.customer, value_cents=event.amount_cents
        )
    )


@shipping.handles(InvoiceIssued)
async def enclose_invoice(event: InvoiceIssued, context: HandlerContext) -> None:
    # Two events have no order between them, so the parcel may not be packed yet; neither waits for the other.
    await context.session.execute(
        insert(enclosed_invoice).values(
            order_number=event.order_number, total_cents=event.net_cents + event.tax_cents
        )
    )
