"""The scope of a job: the host's isolation text, kept as its digest."""

import hashlib

from uow.text import TextError


def scope_hash(scope: str) -> bytes:
    """The SHA-256 of the strict UTF-8 of `scope`, 32 bytes; `Owner` and `owner` are two scopes.

    Nothing is trimmed or normalised. Raises TextError for a lone surrogate, which other encoders replace,
    so that different texts would fall together.
    """
    if not isinstance(scope, str):
        raise TextError("scope", f"must be text, not {type(scope).__name__}")
    try:
        encoded = scope.encode()
    except UnicodeEncodeError as error:
        rule = f"must not contain a lone surrogate (U+{ord(scope[error.start]):04X})"
        raise TextError("scope", rule) from None
    return hashlib.sha256(encoded).digest()
