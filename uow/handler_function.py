"""What a function must be to serve as a handler."""

import inspect


def is_async(handler: object) -> bool:
    """Whether it is an `async def`, or an object that is called like one."""
    if inspect.iscoroutinefunction(handler):  # sees through functools.partial
        return True
    return callable(handler) and inspect.iscoroutinefunction(type(handler).__call__)


def check_call(handler: object, arguments: int) -> None:
    """Raises TypeError, as the call would, unless it can be called with so many positional arguments."""
    if not callable(handler):
        raise TypeError(f"{type(handler).__name__} cannot be called")
    try:
        signature = inspect.signature(handler)
    except ValueError:  # a function in C that does not tell
        return
    signature.bind(*(object() for _ in range(arguments)))
