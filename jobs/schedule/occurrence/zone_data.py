"""Which version of the world's time zones this process works with."""

import importlib.util
import zoneinfo
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"
_VERSION_LINE: Final = "# version "
_FILES: Final = ("tzdata.zi", "+VERSION")


@cache
def zone_data_version() -> str:
    """Like `2026a`: of the system's data, which zoneinfo reads first, else of the package tzdata."""
    for folder in zoneinfo.TZPATH:
        for name in _FILES:
            version = _version_in(Path(folder) / name)
            if version is not None:
                return version
    if importlib.util.find_spec("tzdata") is None:
        return UNKNOWN
    return f"package {metadata.version('tzdata')}"


def _version_in(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            first = lines.readline().strip()
    except OSError:
        return None
    return first.removeprefix(_VERSION_LINE)[:40] or None
