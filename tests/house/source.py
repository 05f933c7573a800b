"""The project's files, as the house tests look at them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("uow", "outbox", "inbox", "jobs", "relay")
SHIPPED = (*PACKAGES, "examples", "benchmarks", "scripts")


@cache
def modules(*folders: str) -> tuple[Path, ...]:
    """Every Python file below these folders of the checkout."""
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    text = path.read_text(encoding="utf-8")
    try:
        return ast.parse(text)
    except SystemError:  # CPython miscounts its depth when a garbage collection falls into the parsing
        return ast.parse(text)


def dotted_name(path: Path) -> str:
    """`uow.sql.step` for `uow/sql/step.py`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> Iterator[str]:
    """Dotted names that a module imports anywhere, also inside functions; `from a import b` gives `a.b`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tracked_files() -> list[Path]:
    """What git keeps or would keep; all files of the usual places where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return [path for path in modules(*SHIPPED, "tests") if path.is_file()]
    return [ROOT / name for name in listed if (ROOT / name).is_file()]
