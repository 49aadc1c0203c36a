"""Of random small faults in a part of the code, the share that the tests of the part find.

``python benchmarks/mutants.py client runs audit --count 20`` prints the faults that nobody finds, and a line
per part. The faults are the same for the same code and seed, so that figures can be compared.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 900  # a fault that makes the tests hang is found
PAIRS: list[tuple[type, type]] = [
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub)),
]
OTHERS = dict([*PAIRS, *((second, first) for first, second in PAIRS)])


def faults(tree: ast.AST) -> Iterator[ast.AST]:
    """The places of a module where a fault can be made."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=[op]) | ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OTHERS:
                yield node
            case ast.If() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=bool() | int()):
                yield node
            case ast.Return(value=ast.expr()):
                yield node
            case _:
                pass


def make(node: ast.AST) -> None:
    """Makes the fault."""
    match node:
        case ast.Compare(ops=[op]):
            node.ops = [OTHERS[type(op)]()]
        case ast.BoolOp(op=op) | ast.BinOp(op=op):
            node.op = OTHERS[type(op)]()
        case ast.If(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.UnaryOp(operand=operand):
            node.operand = ast.UnaryOp(ast.Not(), operand)
        case ast.Constant(value=value):
            node.value = not value if isinstance(value, bool) else value + 1
        case ast.Return():
            node.value = ast.Constant(None)
        case _:
            raise AssertionError(node)


def is_found(part: str, file: Path, place: int) -> str | None:
    """None if the tests find the fault, else where it is."""
    tree = ast.parse((ROOT / "src" / file).read_text("utf-8"))
    node = next(node for number, node in zip(count(), faults(tree), strict=False) if number == place)
    before = ast.unparse(node).partition("\n")[0]
    make(node)
    said = f"{file}:{getattr(node, 'lineno', 0)}: {before}  ->  {ast.unparse(node).partition(chr(10))[0]}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for beside in ("knime.yml", "icons", "views"):
            Path(folder, beside).symlink_to(ROOT / beside)
        (source / file).write_text(ast.unparse(ast.fix_missing_locations(tree)), "utf-8")
        command = [sys.executable, "-m", "pytest", f"tests/{part}", "-xq", "-m", "not peer and not long"]
        environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        options = ["-p", "no:randomly", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, *options],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    return said if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    for part in asked.parts:
        files = [file.relative_to(ROOT / "src") for file in sorted((ROOT / "src" / part).rglob("*.py"))]
        places = [
            (part, file, number)
            for file in files
            for number, _ in enumerate(faults(ast.parse((ROOT / "src" / file).read_text("utf-8"))))
        ]
        chosen = random.Random(asked.seed).sample(places, asked.count)
        with ThreadPoolExecutor(asked.workers) as pool:
            missed = [said for said in pool.map(lambda place: is_found(*place), chosen) if said]
        print(
            f"{part}: {asked.count - len(missed)} of {asked.count} found", *missed, sep="\n    ", flush=True
        )


if __name__ == "__main__":
    main()
