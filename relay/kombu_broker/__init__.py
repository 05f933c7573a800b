"""Brokers through kombu: the one place that imports kombu and py-amqp."""
