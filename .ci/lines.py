"""Count logical lines: `lines.py [FOLDER ...]`, by default of what plans, lowers, runs and prints programs.

A logical line is a statement of the syntax tree that is neither an import nor a docstring: how statements are broken
into lines does not matter, nor do comments.
"""

import ast
import sys
from pathlib import Path

CORE = Path("openinfer-core/src/openinfer")
PARTS = ("plan", "lower", "schedule", "compute", "expr", "ir", "serialize", "validate", "plugins", "simulate")
FOLDERS = (*(CORE / part for part in PARTS), Path("openinfer-synth-c/src"))


def logical_lines(source: str) -> int:
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
    return sum(not isinstance(node, ast.Import | ast.ImportFrom) and not _is_text(node) for node in statements)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]] or FOLDERS
    counts = {folder: sum(logical_lines(path.read_text()) for path in folder.rglob("*.py")) for folder in folders}
    for folder, count in counts.items():
        print(f"{count:7,} {folder}")
    print(f"{sum(counts.values()):7,} in all")
