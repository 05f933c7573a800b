"""Finds a foreign module that stands under one of our five top-level names."""

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

OWN_PACKAGES: Final = ("uow", "outbox", "inbox", "jobs", "relay")
_HOME: Final = Path(__file__).resolve().parents[2]


class ForeignModuleError(ImportError):
    """A module that is not ours has the name of one of our packages; one of the two cannot be imported.

    It is rooted in Python's ImportError alone, since `uow` with our own roots may be what is missing.
    """


def check_own_packages(directory: str | None = None) -> None:
    """Raise ForeignModuleError when `import jobs` (or another of our five names) finds someone else's.

    `directory`: look only there, for a directory that is about to be put on the import path.
    """
    for name in OWN_PACKAGES:
        found = _location(name, directory)
        if found is not None and found.parent != _HOME:
            raise ForeignModuleError(
                f"{found} has the name of one of selfmanaged's packages ({', '.join(OWN_PACKAGES)}), "
                f"which are imported from {_HOME}; only one of the two can be imported. Rename yours, put it "
                "inside a package of its own, or start from another directory"
            )


def _location(name: str, directory: str | None) -> Path | None:
    if directory is None and name in sys.modules:
        origin = getattr(sys.modules[name], "__file__", None)
    else:
        spec = PathFinder.find_spec(name, None if directory is None else [directory])
        origin = spec.origin if spec is not None else None
    if origin is None:
        return None
    file = Path(origin).resolve()
    return file.parent if file.name.startswith("__init__.") else file
