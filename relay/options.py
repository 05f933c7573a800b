"""Options of the relay's loops, and the rules between options of different packages."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

from uow.errors import FixTheCodeError
from uow.option_rule import require_seconds, require_whole_number

_MEBIBYTE: Final = 1024 * 1024
_GIBIBYTE: Final = 1024 * _MEBIBYTE


class OptionRuleError(FixTheCodeError):
    """Options that cannot work together; names each option, its value and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """How the loops of a relay or consumer process behave. Raises ValueError naming option, value, rule.

    poll_interval_seconds: the longest time an idle loop goes without looking for work, woken or not.
    stop_grace_seconds: how long work in hand may take after a stop; then it is cancelled.
    diagnostics_interval_seconds: between samples of how many messages are stored; the first comes at once.
    retention_interval_seconds: between clean-ups of finished rows.
    retention_batch_size: rows that one clean-up statement deletes (1 to 10000).
    batch_body_bytes: about how much payload a claimed batch may hold (1 MiB to 1 GiB); a relay has up to
    three batches in memory, each payload about twice.
    outage_pause_seconds: the longest pause between attempts to reach a broker that is away.
    """

    poll_interval_seconds: float = 5.0
    stop_grace_seconds: float = 30.0
    diagnostics_interval_seconds: float = 30.0
    retention_interval_seconds: float = 60.0
    retention_batch_size: int = 1000
    batch_body_bytes: int = 16 * _MEBIBYTE
    outage_pause_seconds: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name.endswith("_seconds"):
                require_seconds(field.name, getattr(self, field.name))
        require_whole_number(
            "batch_body_bytes", self.batch_body_bytes, least=_MEBIBYTE, most=1024 * _MEBIBYTE
        )
        require_whole_number("retention_batch_size", self.retention_batch_size, least=1, most=10_000)


def check_publishing_options(
    *, lease_seconds: float, confirm_timeout_seconds: float, connect_timeout_seconds: float
) -> None:
    """Refuse settings in which a batch cannot finish within its publishing lease.

    A claimed batch may wait while the one before is sent, and is then sent itself; each may take the
    confirm timeout and one reconnect, and both must fit even if no renewal gets through. Raises
    OptionRuleError.
    """
    needed = 2 * (confirm_timeout_seconds + connect_timeout_seconds)
    if not lease_seconds > needed:
        raise OptionRuleError(
            f"the publishing lease_seconds ({lease_seconds:g}) must be greater than {needed:g}, twice the "
            f"sum of confirm_timeout_seconds ({confirm_timeout_seconds:g}) and connect_timeout_seconds "
            f"({connect_timeout_seconds:g}): a batch waits for the one before it and is then sent itself, "
            "and could not finish within its lease"
        )


def check_consuming_options(
    *,
    acknowledgement_timeout_seconds: float,
    busy_wait_limit_seconds: float,
    processing_timeouts: Iterable[tuple[str, float]],
) -> None:
    """Refuse settings in which the broker takes a delivery back while its handler may still run.

    `processing_timeouts` are consumer names with their processing timeouts in seconds. Raises
    OptionRuleError.
    """
    for consumer, processing_timeout_seconds in processing_timeouts:
        if not acknowledgement_timeout_seconds > processing_timeout_seconds + busy_wait_limit_seconds:
            raise OptionRuleError(
                f"the broker's acknowledgement_timeout_seconds ({acknowledgement_timeout_seconds:g}) must be "
                f"greater than processing_timeout_seconds ({processing_timeout_seconds:g}, consumer "
                f"{consumer!r}) plus busy_wait_limit_seconds ({busy_wait_limit_seconds:g})"
            )
