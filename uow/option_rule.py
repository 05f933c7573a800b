"""Rules that every number among the options obeys, with the error that names option, value and rule."""

import math


def require_seconds(option: str, value: object, *, least: float | None = None) -> None:
    """Raise ValueError unless `value` is a finite number of seconds: positive, or at least `least`."""
    rule = "be positive" if least is None else f"be at least {least:g}"
    number = value if type(value) is int or type(value) is float else math.nan
    if not (math.isfinite(number) and (number > 0 if least is None else number >= least)):
        raise ValueError(f"{option} must {rule}, not {value!r}")


def require_whole_number(option: str, value: object, *, least: int, most: int) -> None:
    """Raise ValueError unless `value` is a whole number from `least` to `most`."""
    if not (type(value) is int and least <= value <= most):
        raise ValueError(f"{option} must be a whole number, {least} to {most}, not {value!r}")
