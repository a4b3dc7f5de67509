"""Small changes of source text, each of which some test should notice."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

__all__ = ["Mutation", "mutated", "mutations_of"]

_OPPOSITES: list[tuple[type[ast.AST], type[ast.AST]]] = [
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
    (ast.BitAnd, ast.BitOr),
]
_OPERATORS = (
    dict.fromkeys((ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult), ast.Mult)
    | dict(_OPPOSITES)
    | {second: first for first, second in _OPPOSITES}
)
_NEGATED_ALREADY = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_PAIRS = (
    *(("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all")),
    *(("floor", "ceil"), ("sum", "mean"), ("var", "std"), ("left", "right")),
)
_NAMES = dict(_PAIRS) | {second: first for first, second in _PAIRS}
_OF_TYPES = ("cast", "TypeVar", "isinstance", "issubclass")
_TEXTS = ("msg", "__all__")


@dataclass(frozen=True)
class Mutation:
    """One change of a file.

    Parameters
    ----------
    scope : str
        The qualified name of the function or class, "" for the module.
    line, last_line : int
        The lines of the statement, or of the head of a compound one.
    old, new : str
        The text and what takes its place.
    at_import : bool
        Whether it is run as the file is imported.
    start, end : int
        The bytes that it takes the place of.
    number : int
        How many changes of the same scope and texts come before it.
    """

    scope: str
    line: int
    last_line: int
    at_import: bool
    old: str
    new: str
    start: int
    end: int
    number: int = 0

    def __str__(self) -> str:
        return f"{_one_line(self.old)} -> {_one_line(self.new)}"


def mutations_of(source: str) -> list[Mutation]:
    """All changes of a file, in the order of its text.

    Comparisons are moved by their boundary or turned round, arithmetic and logic take the opposite
    operator, numbers move by 1, conditions are negated, branches exchanged, slices moved, functions
    such as min replaced by their opposite, and statements that only act are left out. Docstrings,
    texts of errors, types, decorators and ``__all__`` stay.

    Parameters
    ----------
    source : str
        Of a module.

    Returns
    -------
    list of Mutation
    """
    found = _Finder(source)
    found.block(ast.parse(source).body, "")
    seen: Counter[tuple[str, str]] = Counter()
    numbered = []
    for one in sorted(found.mutations, key=lambda one: (one.start, one.end, one.new)):
        key = one.scope, str(one)
        numbered.append(Mutation(**{**one.__dict__, "number": seen[key]}))
        seen[key] += 1
    return numbered


def mutated(source: str, mutation: Mutation) -> str:
    """The text after the change."""
    text = source.encode()
    return (text[: mutation.start] + mutation.new.encode() + text[mutation.end :]).decode()


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Finder:
    """Walks the statements of a file, and the expressions of each."""

    def __init__(self, source: str) -> None:
        self.mutations: list[Mutation] = []
        self._text = source.encode()
        lines = self._text.splitlines(keepends=True)
        self._starts = [0, *accumulate(len(line) for line in lines)]
        self._scope, self._lines, self._at_import = "", (1, 1), True

    def block(self, statements: list[ast.stmt], scope: str, at_import: bool = True) -> None:
        """All statements of a body."""
        for statement in statements:
            self._statement(statement, scope, at_import)

    def _statement(self, node: ast.stmt, scope: str, at_import: bool) -> None:
        bodies = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        head = node.end_lineno if not bodies[0] else max(node.lineno, bodies[0][0].lineno - 1)
        self._scope, self._lines = scope, (node.lineno, head or node.lineno)
        self._at_import, within = at_import, scope
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                within = f"{scope}.{node.name}".lstrip(".")
                self._scope = within
                if not isinstance(node, ast.ClassDef):
                    at_import = False
                    self._expressions(*node.args.defaults, *filter(None, node.args.kw_defaults))
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                return
            case ast.Assign() if any(
                getattr(one, "id", getattr(one, "attr", "")) in _TEXTS for one in node.targets
            ):
                return
            case ast.Raise() | ast.Continue() | ast.Break():
                self._replace(node, "pass")
            case ast.Expr(value=ast.Call()):
                self._replace(node, "pass")
                self._expressions(node.value)
            case ast.AugAssign():
                self._augmented(node)
            case ast.AnnAssign():
                self._expressions(*filter(None, [node.value]))
            case ast.If():
                self._condition(node.test)
                self._expressions(node.test)
            case _:
                fields = (child for child in ast.iter_child_nodes(node))
                self._expressions(*(child for child in fields if not isinstance(child, ast.stmt)))
        for body in bodies:
            self.block(body, within, at_import)
        for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            self.block(part.body, within, at_import)

    def _expressions(self, *nodes: ast.AST) -> None:
        for node in nodes:
            if self._expression(node):
                self._expressions(*ast.iter_child_nodes(node))

    def _expression(self, node: ast.AST) -> bool:
        """Note the changes of one node; whether those within it are wanted."""
        match node:
            case ast.JoinedStr() | ast.ExceptHandler() | ast.match_case():
                return False
            case ast.Subscript(value=ast.Name(id="Literal")):
                return False
            case ast.Call(func=ast.Name(id=name)) if name in _OF_TYPES:
                return False
            case ast.Constant(value=bool() | int() | float() as value):
                self._number(node, value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                self._number(node, -value)
                return False
            case ast.UnaryOp(op=ast.Not()):
                self._replace(node, f"bool({ast.unparse(node.operand)})")
            case ast.Compare():
                for place, operator in enumerate(node.ops):
                    self._swap(node, operator, place)
            case ast.BoolOp():
                self._swap(node, node.op)
            case ast.BinOp() if not _joins_types(node):
                self._swap(node, node.op)
            case ast.IfExp():
                order = node.body, node.test, node.orelse
                other, test, one = (f"({ast.unparse(part)})" for part in order)
                self._replace(node, f"({one} if {test} else {other})")
            case ast.comprehension():
                for condition in node.ifs:
                    self._condition(condition)
            case ast.Slice():
                for bound in filter(None, (node.lower, node.upper)):
                    if not isinstance(bound, ast.Constant | ast.UnaryOp):
                        self._replace(bound, f"({ast.unparse(bound)}) + 1")
            case ast.Attribute(attr=name) if name in _NAMES:
                self._replace(node, _NAMES[name], last=len(name))
            case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
                self._replace(node.func, _NAMES[name])
        return True

    def _condition(self, test: ast.expr) -> None:
        """Negate it, but where another change does."""
        compared = isinstance(test, ast.Compare) and len(test.ops) == 1
        if compared and isinstance(test.ops[0], _NEGATED_ALREADY):  # type: ignore[attr-defined]
            return
        if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            self._replace(test, f"(not ({ast.unparse(test)}))")

    def _number(self, node: ast.AST, value: bool | float) -> None:
        if isinstance(value, bool):
            self._replace(node, str(not value))
            return
        for moved in (value + 1, value - 1):
            if moved != value:
                self._replace(node, f"({moved!r})")

    def _augmented(self, node: ast.AugAssign) -> None:
        if type(node.op) in _OPERATORS:
            made: Any = ast.parse(ast.unparse(node)).body[0]
            made.op = _OPERATORS[type(node.op)]()
            self._replace(node, ast.unparse(made))
        self._expressions(node.value)

    def _swap(self, node: ast.expr, operator: ast.AST, place: int | None = None) -> None:
        """Take the opposite operator, of a comparison the one at that place."""
        if type(operator) not in _OPERATORS:
            return
        copy: Any = ast.parse(ast.unparse(node), mode="eval").body
        if place is None:
            copy.op = _OPERATORS[type(operator)]()
        else:
            copy.ops[place] = _OPERATORS[type(operator)]()
        self._replace(node, f"({ast.unparse(copy)})")

    def _replace(self, node: Any, new: str, last: int = 0) -> None:
        """Of the whole node, or of so many of its last bytes."""
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        start = end - last if last else self._starts[node.lineno - 1] + node.col_offset
        old = self._text[start:end].decode()
        where = self._scope, *self._lines, self._at_import
        self.mutations.append(Mutation(*where, old, new, start, end))


def _joins_types(node: ast.BinOp) -> bool:
    """Whether it is a union such as ``int | None``, or joins texts."""
    sides = node.left, node.right
    if isinstance(node.op, ast.BitOr):
        return any(_is_type(side) for side in sides)
    return any(_is_text(side) for side in sides)


def _is_type(node: ast.expr) -> bool:
    named = node.value if isinstance(node, ast.Subscript) else node
    is_none = isinstance(node, ast.Constant) and node.value is None
    return is_none or (isinstance(named, ast.Name) and named.id[:1].isupper())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
