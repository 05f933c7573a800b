"""What operators do with messages, put together from the parts of an App."""

from relay.admin.dead_queue import DeadQueues
from relay.admin.failed import FailedMessages
from relay.admin.operation import OperationLog, operation_table
from relay.composition.ground import ProcessGround


def failed_messages_of(ground: ProcessGround) -> FailedMessages:
    """Dead letters in outbox and inbox."""
    return FailedMessages(
        ground.parts.engine,
        contracts=ground.parts.contracts,
        outbox=ground.outbox,
        inbox=ground.inbox,
        operations=_operations(ground),
        wake=ground.committed,
    )


def dead_queues_of(ground: ProcessGround) -> DeadQueues:
    """The dead queues of the broker."""
    parts = ground.parts
    names = [binding.consumer for binding in parts.bindings]
    return DeadQueues(parts.broker, parts.engine, consumers=names, operations=_operations(ground))


def _operations(ground: ProcessGround) -> OperationLog:
    return OperationLog(operation_table(ground.parts.metadata))
