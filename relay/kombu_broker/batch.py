"""A batch of messages on its way to the broker, and the verdict on each."""

from collections.abc import Iterator, Sequence

from relay.broker import PublishResult, Verdict
from relay.wire import WireMessage, encode_wire
from uow.errors import FixTheCodeError
from uow.message import Message

_CONFIRMED = PublishResult(Verdict.CONFIRMED)


class Batch:
    """Messages by their position, which of them were handed to the network, and their verdicts.

    The first verdict on a message stands; a later one is ignored.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._results: list[PublishResult | None] = [None] * len(messages)
        self._written: set[int] = set()
        self._wires: list[WireMessage | None] = [self._encoded(*each) for each in enumerate(messages)]

    @property
    def nothing_written(self) -> bool:
        """Whether surely no message left."""
        return not self._written

    def wire(self, position: int) -> WireMessage:
        """The encoded message. Raises LookupError for one that was refused since it has no wire form."""
        wire = self._wires[position]
        if wire is None:
            raise LookupError(f"message {position} of the batch could not be encoded")
        return wire

    def open_positions(self) -> Iterator[int]:
        """The messages without a verdict, in order; verdicts may be given meanwhile."""
        return (position for position, result in enumerate(self._results) if result is None)

    def written(self, position: int) -> None:
        """From now on this message may be at the broker."""
        self._written.add(position)

    def confirm(self, position: int) -> None:
        """The broker has it."""
        if self._results[position] is None:
            self._results[position] = _CONFIRMED

    def judge(self, position: int, verdict: Verdict, error_code: str, detail: str) -> None:
        """Any other verdict on one message."""
        if self._results[position] is None:
            self._results[position] = PublishResult(verdict, error_code, detail)

    def give_up(self, error_code: str, detail: str) -> None:
        """No verdict will come: what was written is UNKNOWN, what was not is UNSENT."""
        for position in self.open_positions():
            verdict = Verdict.UNKNOWN if position in self._written else Verdict.UNSENT
            self.judge(position, verdict, error_code, detail)

    def results(self) -> list[PublishResult]:
        """One verdict a message, in their order; only once each has one."""
        return [result for result in self._results if result is not None]

    def _encoded(self, position: int, message: Message) -> WireMessage | None:
        try:
            return encode_wire(message)
        except FixTheCodeError as error:  # whose text never holds payload
            self.judge(position, Verdict.REFUSED, "contract", str(error))
        except UnicodeError as error:  # whose text does
            self.judge(position, Verdict.REFUSED, "contract", f"cannot be encoded: {type(error).__name__}")
        return None
