"""From an import string such as `shop.messaging:app` to an App, each way to fail told apart."""

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final

from relay.app import App
from relay.composition.own_package import OWN_PACKAGES, check_own_packages
from uow.errors import FixTheCodeError
from uow.secret import describe_error, mask_secrets
from uow.suggestion import did_you_mean

_EXTRAS: Final = {
    "asyncpg": ("postgresql", "postgresql+asyncpg://"),
    "psycopg": ("postgresql", "postgresql+asyncpg://"),
    "psycopg2": ("postgresql", "postgresql+asyncpg://"),
    "asyncmy": ("mysql", "mysql+asyncmy://"),
    "aiomysql": ("mysql", "mysql+asyncmy://"),
    "pymysql": ("mysql", "mysql+asyncmy://"),
    "MySQLdb": ("mysql", "mysql+asyncmy://"),
}
"""Drivers that a database URL may ask for: the extra, and the URL that it serves."""
_OWN_DIRECTORY: Final = str(Path(__file__).resolve().parent)


class AppImportError(FixTheCodeError):
    """The import string leads to no App; the text says where it stopped and what to do."""


class AppStringError(AppImportError):
    """The text is not of the form `module:attribute`."""


class AppModuleMissingError(AppImportError):
    """There is no such module on the import path."""


class AppModuleFailedError(AppImportError):
    """The module is there, and raised an error of its own while it was imported, or its factory did."""


class AppAttributeMissingError(AppImportError):
    """The module is there and has no such attribute."""


class NotAnAppError(AppImportError):
    """The attribute is there and is neither an App nor a function that returns one."""


def load_app(text: str) -> App:
    """The App that `module:attribute` names; the attribute may be a function without parameters.

    Modules are looked for in the current directory first. Raises a subclass of AppImportError, or
    ForeignModuleError when the current directory holds a module under one of our names.
    """
    module_name, colon, attribute = text.partition(":")
    names = [*module_name.split("."), *attribute.split(".")]
    is_path = module_name.endswith(".py") or "/" in module_name
    if not colon or is_path or not all(name.isidentifier() for name in names):
        hint = "leave out .py and use dots for slashes" if is_path else "name both parts"
        raise AppStringError(f"{text!r} is not module:attribute such as shop.messaging:app; {hint}")
    directory = str(Path.cwd())
    check_own_packages(directory)
    if directory not in sys.path and "" not in sys.path:
        sys.path.insert(0, directory)
    return _as_app(_attribute(_module(module_name), attribute), text)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (
            error.name is None
            or not f"{name}.".startswith(f"{error.name}.")
            or _own_frames(error.__traceback__)
        ):
            raise _failed(f"importing {name} failed", error) from error
        raise AppModuleMissingError(
            f"there is no module {error.name!r} on the import path; looked in {Path.cwd()} first. "
            "Start from the directory that holds it, or install it"
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(f"importing {name} failed", error) from error


def _attribute(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            if module.__name__.partition(".")[0] in OWN_PACKAGES:
                raise AppAttributeMissingError(
                    f"{module.__name__!r} is a package of selfmanaged and holds no App; name the module of "
                    "your application, which needs another name"
                )
            apps = [key for key, value in vars(module).items() if isinstance(value, App)]
            others = apps or [key for key in dir(found) if not key.startswith("_")]
            raise AppAttributeMissingError(
                f"module {module.__name__!r} has no attribute {path!r}{did_you_mean(name, others)}"
            )
        found = getattr(found, name)
    return found


def _as_app(found: Any, text: str) -> App:
    if isinstance(found, App):
        return found
    if not callable(found):
        raise NotAnAppError(
            f"{text} is {type(found).__name__}, not an App; name an App or a function that returns one"
        )
    if inspect.iscoroutinefunction(found):
        raise NotAnAppError(f"{text} is a coroutine function; make it a plain function that returns an App")
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError) as error:
        raise NotAnAppError(f"{text} cannot be called without arguments ({error})") from error
    try:
        made = found()
    except Exception as error:
        raise _failed(f"calling {text} failed", error) from error
    if not isinstance(made, App):
        raise NotAnAppError(f"{text} returned {type(made).__name__}, not an App")
    return made


def _failed(what: str, error: BaseException) -> AppModuleFailedError:
    frames = "".join(traceback.format_list(_own_frames(error.__traceback__)))
    reason = describe_error(error)
    if isinstance(error, SyntaxError):
        reason = "".join(traceback.format_exception_only(error)).strip()
    return AppModuleFailedError(mask_secrets(f"{what}:\n{frames}{reason}{_driver_hint(error)}"))


def _driver_hint(error: BaseException) -> str:
    """What to install, when the driver of a database URL is missing."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing not in _EXTRAS:
        return ""
    extra, url = _EXTRAS[missing]
    return f"\nInstall {missing}, or install selfmanaged[{extra}] and begin the database URL with {url}"


def _own_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """The frames of the application: those after the last one of importlib and ours at the beginning."""
    frames = traceback.extract_tb(trace)
    for number, frame in enumerate(frames):
        if not frame.filename.startswith(("<frozen importlib", _OWN_DIRECTORY, importlib.__file__)):
            return list(frames)[number:]
    return []
