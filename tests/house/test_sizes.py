"""Files and functions stay small enough to be read at once."""

import ast
import statistics
from collections.abc import Iterator

from tests.house.source import PACKAGES, ROOT, modules, tree_of

MAXIMUM_FILE_LINES = 300
MAXIMUM_MEDIAN_LINES = 120
MAXIMUM_FUNCTION_LINES = 40
FORBIDDEN_WORDS = ("Manager", "Helper", "Util", "Utils", "Abstract", "Impl")


def test_no_file_is_longer_than_300_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules(*PACKAGES)}
    assert {name: lines for name, lines in lengths.items() if lines > MAXIMUM_FILE_LINES} == {}


def test_half_of_the_files_are_shorter_than_120_lines() -> None:
    lengths = [len(path.read_text().splitlines()) for path in modules(*PACKAGES)]
    assert statistics.median(length for length in lengths if length > 1) < MAXIMUM_MEDIAN_LINES


def test_no_function_has_more_than_40_lines_below_its_docstring() -> None:
    assert [f"{where} {name}: {lines} lines" for where, name, lines in _long_functions()] == []


def test_no_class_is_named_after_nothing() -> None:
    named = [
        f"{path.relative_to(ROOT)} {node.name}"
        for path in modules(*PACKAGES)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
        and (node.name.endswith(FORBIDDEN_WORDS) or node.name.startswith(("Abstract", "Base")))
    ]
    assert named == []


def _long_functions() -> Iterator[tuple[str, str, int]]:
    for path in modules(*PACKAGES):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                documented = ast.get_docstring(node, clean=False) is not None
                docstring_lines = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
                lines = (node.end_lineno or 0) - node.lineno + 1 - docstring_lines
                if lines > MAXIMUM_FUNCTION_LINES:
                    yield str(path.relative_to(ROOT)), node.name, lines
