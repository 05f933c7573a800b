"""Names of leases and cursors: the same work, and the same tenant, has the same name in every process."""

import hashlib
import re
from typing import Final

from jobs.schedule.errors import shown
from uow.text import NAME_UNITS, TextError, utf16_units

WORK_NAME_CHARACTERS: Final = 100

_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{WORK_NAME_CHARACTERS}}}")


def check_work_name(field: str, value: object) -> str:
    """The name of a piece of work: 1 to 100 of `A-Z a-z 0-9 . _ -`. Raises TextError naming `field`."""
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise TextError(field, f"must be 1 to {WORK_NAME_CHARACTERS} characters of A-Z a-z 0-9 . _ -")
    return value


def stored_lease_name(name: str, tenant: str | None) -> str:
    """The name in the table of leases, at most 200 UTF-16 units; different for each pair of both.

    It cannot be one of the framework's own leases. A tenant that does not fit is told by its SHA-256.
    """
    if tenant is None:
        return f"named {name}"
    plain = f"named {name} / {tenant}"
    if utf16_units(plain) <= NAME_UNITS:
        return plain
    # Names hold no blanks, so what stands behind the first tells the two forms apart.
    return f"named {name} # {hashlib.sha256(tenant.encode()).hexdigest()}"


def shown_name(name: str, tenant: str | None) -> str:
    """Both in words, for errors."""
    return repr(name) if tenant is None else f"{name!r} of tenant {shown(tenant)}"
