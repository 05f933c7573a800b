"""What became of one delivery; the word of telemetry is the word of the inbox."""

from uow.telemetry.name import ConsumeOutcome

__all__ = ["ConsumeOutcome"]
