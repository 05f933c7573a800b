"""The tables of the order service, with the framework's own tables beside them.

The demo gives each run on a server a schema of its own; without ORDERS_SCHEMA the default one is used.
"""

import os

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table

from relay import add_messaging_tables

metadata = MetaData(schema=os.environ.get("ORDERS_SCHEMA") or None)

customer_order = Table(
    "customer_order",
    metadata,
    Column("order_number", String(20), primary_key=True),
    Column("customer", String(200), nullable=False),
    Column("country", String(2), nullable=False),
    Column("amount_cents", BigInteger, nullable=False),
    mysql_charset="utf8mb4",
)
tax_rate = Table(
    "tax_rate",
    metadata,
    Column("country", String(2), primary_key=True),
    Column("per_thousand", Integer, nullable=False),
    mysql_charset="utf8mb4",
)
invoice = Table(
    "invoice",
    metadata,
    Column("order_number", String(20), primary_key=True),
    Column("net_cents", BigInteger, nullable=False),
    Column("tax_cents", BigInteger, nullable=False),
    mysql_charset="utf8mb4",
)
parcel = Table(
    "parcel",
    metadata,
    Column("order_number", String(20), primary_key=True),
    Column("recipient", String(200), nullable=False),
    Column("value_cents", BigInteger, nullable=False),
    mysql_charset="utf8mb4",
)
invoice_document = Table(
    "invoice_document",
    metadata,
    Column("order_number", String(20), primary_key=True),
    Column("text", String(200), nullable=False),
    Column("renderings", Integer, nullable=False),  # how often: more than once would be a defect
    mysql_charset="utf8mb4",
)
enclosed_invoice = Table(
    "enclosed_invoice",
    metadata,
    Column("order_number", String(20), primary_key=True),
    Column("total_cents", BigInteger, nullable=False),
    mysql_charset="utf8mb4",
)
basket = Table(
    "basket",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("abandoned", Integer, nullable=False),
    mysql_charset="utf8mb4",
)
add_messaging_tables(metadata)
