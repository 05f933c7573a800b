"""Options of executors are checked when they are made, and the error names option, value and rule."""

from typing import Any

import pytest

from jobs import ExecutorOptions, JobOptionError


def test_the_defaults_are_allowed() -> None:
    options = ExecutorOptions()
    assert (options.queues, options.concurrency) == (("default",), 20)


def test_queues_are_kept_once_in_their_order() -> None:
    assert ExecutorOptions(queues=["b", "a", "b"]).queues == ("b", "a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queues": ()}, "queues must name at least one queue"),
        ({"queues": "default"}, r"queues must name at least one queue, as in \('default',\), not 'default'"),
        ({"queues": ("a b",)}, "a name in queues must be 1 to 128 characters"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"concurrency": 10_001}, "concurrency must be"),
        ({"concurrency": 2.0}, "concurrency must be"),
        ({"argument_bytes": 1_048_575}, "argument_bytes must be"),
        ({"retention_batch_size": 1001}, "retention_batch_size must be"),
        ({"poll_interval_seconds": 0}, "poll_interval_seconds must be"),
        ({"status_poll_seconds": float("nan")}, "status_poll_seconds must be"),
        ({"unknown_handler_seconds": -1}, "unknown_handler_seconds must be"),
        ({"stop_grace_seconds": float("inf")}, "stop_grace_seconds must be"),
        ({"queue_concurrency": {"default": 0}}, r"queue_concurrency\[default\] must be"),
        ({"queue_limits": {"default": True}}, r"queue_limits\[default\] must be"),
        ({"queue_limits": {"other": 1}}, "queue_limits names the queue 'other', which is not among"),
        ({"queue_concurrency": {"a b": 1}}, "a queue of queue_concurrency must be 1 to 128 characters"),
    ],
)
def test_a_value_against_the_rules_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(JobOptionError, match=told):
        ExecutorOptions(**options)
