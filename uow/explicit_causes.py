"""What an exception was raised from."""

from collections.abc import Iterator


def explicit_causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, then what it was raised `from` and so on, each once: `raise error from error` is a circle."""
    told: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and not any(cause is one for one in told):
        told.append(cause)
        yield cause
        cause = cause.__cause__
