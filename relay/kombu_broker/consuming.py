"""What a subscription's thread needs of an open connection that consumes."""

from collections.abc import Sequence
from typing import Any, Protocol

from relay.broker import Disposition


class Consuming(Protocol):
    """One connection that consumes one queue, owned by one thread. Everything may raise ConnectionLost."""

    @property
    def healthy(self) -> bool:
        """Whether messages would come if there were any."""
        ...

    def wait(self) -> None:
        """Wait for deliveries or the wake pipe, about a second at most, and hand over what came."""
        ...

    def settle(self, settlements: Sequence[tuple[Any, Disposition]]) -> None:
        """Tell the broker about deliveries by their tags."""
        ...

    def stop(self) -> None:
        """Take no further deliveries; what still comes is returned at once."""
        ...

    def close(self) -> None:
        """Return what is not settled and close; bounded, and never raises."""
        ...
