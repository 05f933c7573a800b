"""Invoicing: renders each invoice as a document, in a job that is run by processes of its own.

The job is staged in the commit that writes the invoice, so there is never one without the other.
"""

import asyncio

from sqlalchemy import insert, update

from examples.orders.tables import invoice_document
from jobs import JobContext, JobRegistry, JobSubmission, RetryPolicy
from uow import Backoff, SelfManagedUnitOfWork

invoicing = JobRegistry(retry=RetryPolicy(backoff=Backoff(initial_seconds=0.2, maximum_seconds=1)))


def invoice_to_render(order_number: str, *, net_cents: int, tax_cents: int) -> JobSubmission:
    """The job that renders the invoice of this order; staged again it is the same job."""
    return JobSubmission.create(
        scope="orders",
        job_id=f"invoice-{order_number}",
        handler="invoices.render",
        arguments={"order_number": order_number, "net_cents": net_cents, "tax_cents": tax_cents},
    )


@invoicing.handler("invoices.render", transactional=True)
async def render_invoice(context: JobContext, unit: SelfManagedUnitOfWork) -> str:
    order_number = context.arguments["order_number"]
    net_cents, tax_cents = context.arguments["net_cents"], context.arguments["tax_cents"]
    await asyncio.sleep(0.01)  # stands for the work of rendering
    text = f"Invoice {order_number}: {net_cents} + {tax_cents} = {net_cents + tax_cents} cents"
    # A second run would be written down as such, and found by the sums at the end: it never comes to that.
    here = invoice_document.c.order_number == order_number
    again = await unit.session.execute(
        update(invoice_document).where(here).values(renderings=invoice_document.c.renderings + 1)
    )
    if again.rowcount == 0:
        await unit.session.execute(
            insert(invoice_document).values(order_number=order_number, text=text, renderings=1)
        )
    return f"invoice_document/{order_number}"
