"""The outbox: events stored in the commit of the business, waiting for the relay."""
