"""The inbox: one receipt per message and consumer, completed in the commit of the handler."""
