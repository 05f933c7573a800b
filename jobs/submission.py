"""What someone wants done: checked and serialized at once, equal or not by exact text."""

import re
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any, Final, Self

import orjson

from jobs.errors import JobSubmissionError
from jobs.key import JobKey
from jobs.scope import scope_hash
from jobs.table import JOB_ID_UNITS, NAME_UNITS
from uow.contracts.contract import is_pydantic_model
from uow.contracts.structure import kind_of, parts_of
from uow.telemetry import TraceContext, capture_trace
from uow.text import TextError, character_fault, check_text, utf8_bytes_of
from uow.ticks import UtcInstant

ARGUMENT_BYTES: Final = 1_048_576
MAXIMUM_ATTEMPTS: Final = 100
MAXIMUM_VERSION: Final = 2_147_483_647
PRIORITY_LIMIT: Final = 100
"""Priorities go from -100 to 100, so that a claim can look into each of them."""

_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_UNITS}}}")
_JSON_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
_COMPARED: Final = ("handler", "handler_version", "arguments", "queue", "max_attempts", "initial_not_before")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """A request for one job, complete and immutable; make it with `create`.

    key: the digest of the scope and the job's id there. arguments: JSON text. initial_not_before: the
    earliest moment asked for, None for at once. priority: higher goes first. trace: of the moment it was
    created. Raises JobSubmissionError or TextError naming the field and the rule.
    """

    key: JobKey
    handler: str
    handler_version: int
    arguments: str = field(repr=False)
    queue: str
    max_attempts: int
    initial_not_before: UtcInstant | None
    priority: int
    trace: TraceContext = field(default_factory=capture_trace, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_text("job_id", self.key.job_id, units=JOB_ID_UNITS, blank=False)
        check_name("handler", self.handler)
        check_name("queue", self.queue)
        _check_whole("handler_version", self.handler_version, 1, MAXIMUM_VERSION)
        _check_whole("max_attempts", self.max_attempts, 1, MAXIMUM_ATTEMPTS)
        _check_whole("priority", self.priority, -PRIORITY_LIMIT, PRIORITY_LIMIT)
        if (size := utf8_bytes_of(self.arguments)) > ARGUMENT_BYTES:
            rule = f"take {size} UTF-8 bytes as JSON; at most {ARGUMENT_BYTES} are allowed"
            raise JobSubmissionError("arguments", rule)

    @classmethod
    def create(
        cls,
        *,
        scope: str,
        job_id: str,
        handler: str,
        version: int = 1,
        arguments: object = None,
        arguments_json: str | None = None,
        queue: str = "default",
        max_attempts: int = 5,
        not_before: datetime | UtcInstant | None = None,
        priority: int = 0,
    ) -> Self:
        """The request, with its arguments serialized now: later changes of them change nothing.

        scope: the host's isolation text, kept as its digest. job_id: not blank, at most 200 UTF-16 units.
        handler, queue: 1 to 128 of `A-Z a-z 0-9 . _ -`. arguments: any JSON value, written with sorted keys;
        `arguments_json` gives the exact text instead, which must be JSON; at most 1 MiB of UTF-8.
        max_attempts: 1 to 100. not_before: aware; a past one is due at once. priority: -100 to 100.
        """
        if arguments_json is not None and arguments is not None:
            raise JobSubmissionError("arguments", "are given twice, as a value and as JSON text")
        return cls(
            key=JobKey(scope_hash(scope), job_id),
            handler=handler,
            handler_version=version,
            arguments=_written(arguments) if arguments_json is None else _checked_json(arguments_json),
            queue=queue,
            max_attempts=max_attempts,
            initial_not_before=_instant(not_before),
            priority=priority,
        )

    @property
    def content(self) -> tuple[Any, ...]:
        """What is equal when the same request is submitted again; priority and trace take no part."""
        return tuple(getattr(self, name) for name in _COMPARED)

    def differs_from(self, other: Any) -> tuple[str, ...]:
        """The names of the compared fields that are not equal in `other`, a submission or a snapshot."""
        return tuple(name for name in _COMPARED if getattr(self, name) != getattr(other, name))


def check_name(name: str, value: object) -> None:
    """Raises JobSubmissionError naming `name` unless `value` can name a handler or a queue."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise JobSubmissionError(name, f"must be 1 to {NAME_UNITS} characters of A-Z a-z 0-9 . _ -")


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise JobSubmissionError(name, f"must be a whole number, {least} to {most}, not {value!r}")


def _instant(not_before: object) -> UtcInstant | None:
    match not_before:
        case None | UtcInstant():
            return not_before
        case datetime() if not_before.utcoffset() is not None:
            return UtcInstant.from_datetime(not_before)
    raise JobSubmissionError("not_before", "must be a datetime with a time zone, a UtcInstant or None")


def _written(arguments: object) -> str:
    try:
        text = orjson.dumps(arguments, default=_write_other, option=_JSON_OPTIONS).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise JobSubmissionError("arguments", f"have no JSON form: {error}") from None
    # orjson writes a number that is not finite as null.
    if "null" in text and (path := _infinite(arguments)) is not None:
        raise JobSubmissionError("arguments", f"have no JSON form: {path or 'the value'} is not finite")
    return text


def _write_other(value: Any) -> Any:
    if is_pydantic_model(type(value)):
        return value.model_dump(mode="json")
    match value:
        case Decimal() if value.is_finite():
            return str(value)
        case UtcInstant():
            return str(value)
        case date() | time() if not isinstance(value, datetime) or value.utcoffset() is not None:
            return value.isoformat()
    raise TypeError(f"{kind_of(value)} has none")


def _infinite(value: object, path: str = "") -> str | None:
    if isinstance(value, float):
        return None if isfinite(value) else path
    return next(
        (found for step, part in parts_of(value) if (found := _infinite(part, path + step)) is not None), None
    )


def _checked_json(text: object) -> str:
    if not isinstance(text, str):
        raise JobSubmissionError("arguments_json", f"must be text, not {kind_of(text)}")
    if (fault := character_fault(text)) is not None:
        raise TextError("arguments_json", fault)
    if len(text) <= ARGUMENT_BYTES:  # a longer one is refused for that
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise JobSubmissionError("arguments_json", f"is not JSON: {error}") from None
    return text
