"""A module without one of its checks: for tests that must fail when a check is removed."""

import ast
from pathlib import Path
from types import ModuleType


def mutants(module, functions=None):
    """The module again and again, each time without one check, and where that was.

    A check is an `if` that raises, each part of its condition, each part of what makes a thing
    `good`, and each kind of error that is turned into another one.
    """
    source = Path(module.__file__).read_text()
    for number in range(len(_checks(ast.parse(source), functions))):
        tree = ast.parse(source)
        line, remove = _checks(tree, functions)[number]
        remove()
        copy = ModuleType(module.__name__)
        copy.__file__ = module.__file__
        exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), copy.__dict__)
        yield f"{Path(module.__file__).name}:{line} ({number})", copy


def _checks(tree, functions):
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and functions in (None, function.name):
            for node in function.body:
                for inner in ast.walk(node):
                    found += _removals(inner)
    return found


def _removals(node):
    match node:
        case ast.If(test=test, body=[ast.Raise(), *_]):
            yield node.lineno, lambda: setattr(node, "test", ast.Constant(False))
            yield from _parts(test)
        case ast.Assign(targets=[ast.Name(id="good" | "unusual")]) | ast.Return(value=ast.BoolOp()):
            yield from _parts(node.value)
        case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple(elts=[*_, last])):
            if isinstance(last, ast.Compare):
                yield node.lineno, lambda: node.value.elts.__setitem__(-1, ast.Constant(True))
        case ast.ExceptHandler(type=ast.Tuple(elts=kinds)):
            for i in range(len(kinds)):
                yield node.lineno, lambda i=i: kinds.pop(i)
        case ast.ExceptHandler(body=[ast.Raise(), *_]):
            never = ast.Name("ZeroDivisionError", ast.Load())
            yield node.lineno, lambda: setattr(node, "type", never)


def _parts(condition):
    """The operands of `and` and `or`, and of chains such as 0 <= n < 9, wherever they stand."""
    for node in ast.walk(condition):
        if isinstance(node, ast.BoolOp):
            for i, operand in enumerate(node.values):
                if getattr(operand, "id", "") != "good":
                    yield operand.lineno, lambda i=i, node=node: _neutral(node, i)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            yield node.lineno, lambda node=node: _without_first(node)
            yield node.lineno, lambda node=node: (node.ops.pop(), node.comparators.pop())
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "all":
            yield node.lineno, lambda node=node: setattr(node, "args", [ast.List([], ast.Load())])


def _neutral(node, i):
    node.values[i] = ast.Constant(isinstance(node.op, ast.And))


def _without_first(node):
    node.left = node.comparators.pop(0)
    node.ops.pop(0)
