"""Putting a gate before a method of one object.

The gates stand on the instances of SQLAlchemy because the application chooses the classes of its session
(any callable may make it), and because SQLAlchemy has no event that comes before a rollback or a close.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any


def cover(target: Any, verb: str, before: Callable[..., None]) -> None:
    """From now on `target.verb(...)` first calls `before(...)` with the same arguments; it may raise."""
    original = getattr(target, verb)

    @functools.wraps(original)
    def covered(*arguments: Any, **options: Any) -> Any:
        before(*arguments, **options)
        return original(*arguments, **options)

    setattr(target, verb, covered)


def uncover(target: Any, verbs: Iterable[str]) -> None:
    """Undo `cover` for `verbs`; what is not covered stays as it is."""
    for verb in verbs:
        vars(target).pop(verb, None)
