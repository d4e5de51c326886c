"""Assertions that cannot fail, looked for in all tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = sorted(Path(__file__).parent.rglob("*.py"))


def hollow(tree: ast.AST) -> Iterator[str]:
    """Yield each assertion that holds whatever the code does, as `line: reason`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assert):
            continue
        if isinstance(node.msg, ast.Compare | ast.BoolOp):
            yield f"{node.lineno}: the comparison is the message, so it is never evaluated"
        if isinstance(node.test, ast.Tuple | ast.List | ast.GeneratorExp | ast.Lambda | ast.JoinedStr):
            yield f"{node.lineno}: a {type(node.test).__name__} is always true"
        if isinstance(node.test, ast.Constant) and node.test.value:
            yield f"{node.lineno}: a constant is always true"
        if (
            isinstance(node.test, ast.Compare)
            and ast.dump(node.test.left) == ast.dump(node.test.comparators[0])
            and not any(isinstance(part, ast.Call) for part in ast.walk(node.test))  # two calls may differ
        ):
            yield f"{node.lineno}: both sides are the same expression"


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(Path(__file__).parent)))
def test_each_assertion_can_fail(path: Path) -> None:
    assert list(hollow(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "line",
    ["assert a, b == (1, 2)", "assert (a == 1, 'why')", "assert (x for x in y)", "assert f'{a}'", "assert a == a"],
)
def test_a_hollow_assertion_is_found(line: str) -> None:
    assert len(list(hollow(ast.parse(line)))) == 1


@pytest.mark.parametrize(
    "line", ["assert a == b, f'{a} is wrong'", "assert (a, b) == (1, 2)", "assert all(x for x in y)"]
)
def test_a_sound_assertion_is_not(line: str) -> None:
    assert list(hollow(ast.parse(line))) == []
