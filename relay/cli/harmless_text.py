"""Text of others, fit for a terminal: what would move its cursor or reorder its letters is shown instead."""

import unicodedata
from typing import Final

_HARMFUL: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of controls, invisible formatting, lone surrogates and separators of lines."""


def harmless(text: str, *, lines: bool = False) -> str:
    r"""`text` with each such character as its escape (`\x1b`, `\u202e`); with `lines` line feeds stay.

    Ids, scopes, names and messages come from whoever submitted them.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(each) if _is_harmful(each, lines) else each for each in text)


def _is_harmful(character: str, lines: bool) -> bool:
    return unicodedata.category(character) in _HARMFUL and not (lines and character == "\n")


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode()
