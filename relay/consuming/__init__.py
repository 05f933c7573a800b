"""Consuming: deliveries and due receipts become running handlers."""
