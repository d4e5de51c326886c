"""The hook of the wheel: it installs `chaos`, `checks` and `dags` below one name, as `aftershock.chaos` and so on.

A checkout has the three folders at its top, and its modules import each other by these names. In site-packages, names
so general would collide with packages of others. The hook moves the folders below `aftershock` and rewrites what names
a module: `from chaos.errors import ...`, and strings that are the name of a module or of an object in one. Lines
that end with `# checkout only` are left out, and advice names the command `aftershock`, not `python -m chaos`. Where
code composes the name of a module, it begins with `__package__`, or with `chaos.install.locations.PREFIX`.

Hatchling runs this file alone, so it imports nothing of the project. An editable installation gets a package
`aftershock` with the checkout as its path.
"""

from __future__ import annotations

import ast
import io
import re
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "aftershock"
PACKAGES = ("chaos", "checks", "dags")
CHECKOUT_ONLY = "# checkout only"
DOCSTRING = '"""Aftershock, the platform: `aftershock.chaos`, `aftershock.checks`, `aftershock.dags`."""\n'
MAIN = f'"""`python -m {NAME}`."""\n\nfrom {NAME}.chaos.cli import main\n\nmain()\n'
EDITABLE = "import sys\n\nsys.path.insert(0, {root!r})\n__path__ = [{root!r}]\n"
_COMMAND = re.compile(r"python -m chaos\b(?!\.)")
_IMPORT = re.compile(rf"^(\s*)(?:from ({'|'.join(PACKAGES)})\b|import ({'|'.join(PACKAGES)})(\s*(?:#.*)?)$)")
_MODULE = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+(?=:\w+$|$)")


class WheelHook(BuildHookInterface):  # type: ignore[misc]
    """Names every file of the wheel; sources are rewritten in a folder for the time of the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fill `force_include` (file -> place in the wheel). Raises `ValueError` for an import it cannot rewrite."""
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory(prefix=f"{NAME}-wheel-")
        made = Path(self._folder.name)
        (made / "__init__.py").write_text(DOCSTRING, encoding="utf-8")
        files: dict[str, str] = build_data["force_include"]
        (made / "__main__.py").write_text(MAIN, encoding="utf-8")
        files.update({str(made / file): f"{NAME}/{file}" for file in ("__init__.py", "__main__.py")})
        if version == "editable":
            (made / "__init__.py").write_text(f"{DOCSTRING}{EDITABLE.format(root=str(root))}", encoding="utf-8")
            return
        for path in sources(root):
            place, found = f"{NAME}/{path.relative_to(root).as_posix()}", path
            if path.suffix in (".py", ".md", ".j2", ".yaml"):
                text = _COMMAND.sub(NAME, path.read_text(encoding="utf-8"))
                found = made / path.relative_to(root)
                found.parent.mkdir(parents=True, exist_ok=True)
                found.write_text(rewritten(text, root, place) if path.suffix == ".py" else text, encoding="utf-8")
            files[str(found)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of the rewritten sources."""
        self._folder.cleanup()


def sources(root: Path) -> Iterator[Path]:
    """Yield the files of the packages, in order."""
    for package in PACKAGES:
        yield from (p for p in sorted((root / package).rglob("*")) if p.is_file() and "__pycache__" not in p.parts)


def rewritten(text: str, root: Path, place: str) -> str:
    """Return a source with the names that the modules have in a wheel. root: the checkout; place: for errors."""
    lines = ["\n" if line.rstrip().endswith(CHECKOUT_ONLY) else line for line in text.splitlines(keepends=True)]
    for token in reversed([*tokenize.generate_tokens(io.StringIO("".join(lines)).readline)]):
        (row, column), (_, end) = token.start, token.end
        if token.type == tokenize.STRING and _names_module(token.string, root):
            line = lines[row - 1]
            lines[row - 1] = f"{line[:column]}{token.string[0]}{NAME}.{token.string[1:]}{line[end:]}"
    for node in ast.walk(ast.parse("".join(lines))):
        if not (names := _imported(node)):
            continue
        if not (match := _IMPORT.match(lines[node.lineno - 1])) or len(names) > 1:  # type: ignore[attr-defined]
            raise ValueError(f"{place}: import {', '.join(names)} needs a separate line, with `from` if it is dotted")
        indent, module, package, rest = match.groups()
        begin = f"{indent}from {NAME}.{module}" if module else f"{indent}from {NAME} import {package}{rest}"
        lines[node.lineno - 1] = begin + lines[node.lineno - 1][match.end() :]  # type: ignore[attr-defined]
    return "".join(lines)


def _names_module(literal: str, root: Path) -> bool:
    """Return whether a string literal is the name of a module of ours, or of an object in one."""
    if literal[0] not in "\"'" or not (match := _MODULE.fullmatch(literal.strip("\"'").partition(":")[0])):
        return False
    path = root.joinpath(*match.group().split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _imported(node: ast.AST) -> list[str]:
    """Return the modules of ours that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""] if not node.level else []
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        return []
    return [name for name in names if name.partition(".")[0] in PACKAGES]
