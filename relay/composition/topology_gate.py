"""Whether the broker has what an App binds: checked at the start, declared when told to."""

import logging
from typing import Final

from relay.broker import BrokerUnavailableError, TopologyError, TopologyPart
from relay.composition.parts import AppParts
from uow.secret import describe_error

_log: Final = logging.getLogger(__name__)


class TopologyGate:
    """The exchanges, queues and bindings of one App; nothing at all with `local:`."""

    def __init__(self, parts: AppParts) -> None:
        self._parts = parts

    async def declare(self) -> list[TopologyPart]:
        """Create what is missing; what exists is left as it is. Raises BrokerUnavailableError."""
        broker = self._parts.broker
        return [] if broker is None else await broker.declare_topology(self._parts.bindings)

    async def check(self) -> list[TopologyPart]:
        """How everything stands, without changing it. Raises BrokerUnavailableError."""
        broker = self._parts.broker
        return [] if broker is None else await broker.check_topology(self._parts.bindings)

    async def prepare(self) -> None:
        """Before a start: declare it where the options say so, else require it; a broker may be away."""
        if self._parts.options.declare_topology:
            await self.declare()
            return
        try:
            await self.require()
        except BrokerUnavailableError as error:
            _log.warning("the topology was not checked: %s", describe_error(error))

    async def require(self) -> None:
        """Raises TopologyError unless all is there, BrokerUnavailableError when nobody can tell."""
        wrong = [part for part in await self.check() if not part.stands]
        if wrong:
            listed = ", ".join(f"{part.kind} {part.name} ({part.status})" for part in wrong[:5])
            raise TopologyError(
                f"{len(wrong)} parts of the topology are missing or differ: {listed}; "
                "`selfmanaged topology declare` creates what is missing"
            )
