"""What schedules refuse, by who must act."""

from uow.errors import FixTheCodeError

_SHOWN_CHARACTERS = 80


class ScheduleError(FixTheCodeError, ValueError):
    """A part of a schedule breaks its rule; the text names both. `part` is the part, `rule` what it broke."""

    def __init__(self, part: str, rule: str) -> None:
        super().__init__(f"{part}: {rule}")
        self.part = part
        self.rule = rule

    def __reduce__(self) -> tuple[type["ScheduleError"], tuple[str, ...]]:
        return type(self), (self.part, self.rule)


class CronError(ScheduleError):
    """A cron expression that is not taken. `field` is its field in words, or "expression" for the whole."""

    def __init__(self, expression: str, field: str, rule: str) -> None:
        super().__init__(f"cron {shown(expression)}, {field}", rule)
        self.expression = expression
        self.field = field

    def __reduce__(self) -> tuple[type["CronError"], tuple[str, ...]]:
        return type(self), (self.expression, self.field, self.rule)


class UnknownScheduleError(FixTheCodeError):
    """There is no schedule of this name; names compare by code point."""


def shown(value: object) -> str:
    """The value in plain ASCII and cut, so that an error stays one short line whatever it was given."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
