"""Reads compiled Java classes as far as needed to find which constants they pass to which methods.

An installed KNIME has no sources: of the 1,225 node factories in KNIME's public repositories, 315 describe
themselves in Java code, so that without this reader a catalogue would lack every fourth node. It also gives
the types of ports, which KNIME's XML does not have.

No Java code is run. Code without branches is followed instruction by instruction, with symbols for fields and
calls (https://docs.oracle.com/javase/specs/jvms/se17/html/jvms-4.html and -6.html).
"""

from __future__ import annotations

import contextlib
import re
import struct
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_STEPS: Final = 20_000
_DESCRIPTOR: Final = re.compile(r"\[*(?:[BCDFIJSZ]|L[^;]+;)")
_MAGIC: Final = 0xCAFEBABE
_WIDE_CONSTANTS: Final = (5, 6)
_UNREADABLE: Final = (struct.error, LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""The exceptions that damaged bytes lead to."""

_POOL: Final = {
    **dict.fromkeys((7, 8, 16, 19, 20), ">H"),
    **dict.fromkeys((9, 10, 11, 12, 17, 18), ">HH"),
    **dict(zip((3, 4, 5, 6, 15), (">i", ">f", ">q", ">d", ">BH"), strict=True)),
}
"""The struct format of each kind of constant."""


class ClassFileError(Exception):
    """The data is not a class file, or the code cannot be followed."""


@dataclass(frozen=True, slots=True)
class Static:
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Lambda:
    """A lambda or method reference; `method` names the method of the class that it calls."""

    method: str


@dataclass(slots=True)
class MethodCall:
    """A method call, which also stands for its return value."""

    name: str
    args: list[Any] = field(default_factory=list[Any])
    target: Any = None  # the object on which the method was called; None for static methods
    owner: str = ""
    descriptor: str = ""


class ClassFile:
    def __init__(self, data: bytes) -> None:
        try:
            self._read(data)
        except _UNREADABLE as error:
            raise ClassFileError(f"is no readable class file: {error}") from None

    def run(
        self, method: str, arguments: list[Any] | None = None, fields: dict[str, Any] | None = None
    ) -> Any:
        """Follows a method up to its end, its first branch, or an unknown instruction.

        The first method with this name (with or without descriptor) is followed; arguments begin with
        ``this`` unless it is static; its assignments change `fields`. Returns the value, or None, and all
        calls in order.
        """
        code = self.methods.get(method)
        follower = _Follower(self, dict(enumerate(arguments or [])), {} if fields is None else fields)
        if code is not None:
            with contextlib.suppress(ClassFileError, *_UNREADABLE):
                follower.follow(code)
        return follower.result, follower.calls

    def constant(self, index: int) -> Any:
        """A constant: a number, a text, a class's name, or (owner, name, descriptor)."""
        kind, value = self._pool[index]
        match kind:
            case 1 | 3 | 4 | 5 | 6:
                return value
            case 7 | 8 | 16 | 19 | 20:
                return self._text(value)
            case 9 | 10 | 11:
                return (self.constant(value[0]), *self.constant(value[1]))
            case 12:
                return self._text(value[0]), self._text(value[1])
            case 15:
                return self.constant(value[1])
            case 17 | 18:
                return (value[0], *self.constant(value[1]))
            case _:
                raise ClassFileError(f"has a constant of the unknown kind {kind}")

    def _text(self, index: int) -> str:
        kind, value = self._pool[index]
        if kind != 1:
            raise ClassFileError("names something without a text")
        return value

    def loaded(self, index: int) -> Any:
        """A constant as instructions load it: a class becomes a `Static`, to tell it from a text."""
        value = self.constant(index)
        return Static(value.replace("/", "."), "class") if self._pool[index][0] == 7 else value

    def lambda_of(self, bootstrap: int) -> Lambda | None:
        """The lambda that a bootstrap method makes; None without a method."""
        arguments = self._bootstraps[bootstrap] if bootstrap < len(self._bootstraps) else ()
        for index in arguments:
            # A method handle: of the arguments of Java's LambdaMetafactory only the implementation is one.
            if self._pool[index][0] == 15:
                return Lambda(self.constant(index)[1])
        return None

    def _read(self, data: bytes) -> None:
        self._data = data
        magic, _, _, count = struct.unpack_from(">IHHH", data, 0)
        if magic != _MAGIC:
            raise ClassFileError("is no class file")
        self._pool: dict[int, tuple[int, Any]] = {}
        at = self._read_pool(10, count)
        _, name, above, interfaces = struct.unpack_from(">HHHH", data, at)
        self.name = str(self.constant(name)).replace("/", ".")
        # Only java.lang.Object has none.
        self.superclass = str(self.constant(above)).replace("/", ".") if above else ""
        at += 8 + 2 * interfaces
        self.field_values: dict[str, Any] = {}
        at = self._read_members(at, is_method=False)
        self.methods: dict[str, bytes] = {}
        at = self._read_members(at, is_method=True)
        self._bootstraps: list[tuple[int, ...]] = []
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            name, body, at = self._attribute(at)
            if name == "BootstrapMethods":
                self._read_bootstraps(body)

    def _read_pool(self, at: int, count: int) -> int:
        data, index = self._data, 1
        while index < count:
            kind = data[at]
            at += 1
            if kind == 1:
                (size,) = struct.unpack_from(">H", data, at)
                # "Modified UTF-8": U+0000 has two bytes, and each surrogate is encoded separately.
                raw = data[at + 2 : at + 2 + size].replace(b"\xc0\x80", b"\0")
                text = raw.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass")
                self._pool[index] = (kind, text.decode("utf-16", "replace"))
                at += 2 + size
            else:
                layout = _POOL[kind]
                values = struct.unpack_from(layout, data, at)
                self._pool[index] = (kind, values[0] if len(values) == 1 else values)
                at += struct.calcsize(layout)
            # A long or double takes two places:
            # https://docs.oracle.com/javase/specs/jvms/se21/html/jvms-4.html#jvms-4.4.5
            index += 2 if kind in _WIDE_CONSTANTS else 1
        return at

    def _read_members(self, at: int, *, is_method: bool) -> int:
        (count,) = struct.unpack_from(">H", self._data, at)
        at += 2
        for _ in range(count):
            _, name_index, type_index, attributes = struct.unpack_from(">HHHH", self._data, at)
            member = str(self.constant(name_index))
            at += 8
            for _ in range(attributes):
                name, body, at = self._attribute(at)
                if is_method and name == "Code":
                    (size,) = struct.unpack_from(">I", body, 4)
                    # By its name alone the first of several methods with that name is found.
                    for key in (member, f"{member}{self.constant(type_index)}"):
                        self.methods.setdefault(key, body[8 : 8 + size])
                elif not is_method and name == "ConstantValue":
                    (index,) = struct.unpack(">H", body)
                    self.field_values[member] = self.constant(index)
        return at

    def _attribute(self, at: int) -> tuple[str, bytes, int]:
        name, size = struct.unpack_from(">HI", self._data, at)
        return str(self.constant(name)), self._data[at + 6 : at + 6 + size], at + 6 + size

    def _read_bootstraps(self, body: bytes) -> None:
        (count,) = struct.unpack_from(">H", body, 0)
        at = 2
        for _ in range(count):
            _, arguments = struct.unpack_from(">HH", body, at)
            self._bootstraps.append(struct.unpack_from(f">{arguments}H", body, at + 4))
            at += 4 + 2 * arguments


class _Follower:
    """Follows one method. Its stack has one entry per value, also for values of two words."""

    def __init__(self, owner: ClassFile, local: dict[int, Any], fields: dict[str, Any]) -> None:
        self._class = owner
        self._local = local
        self._fields = fields
        self._stack: list[Any] = []
        self.calls: list[MethodCall] = []
        self.result: Any = None

    def follow(self, code: bytes) -> None:
        at = 0
        for _ in range(_MOST_STEPS):
            if at >= len(code):
                return
            length = self._step(code, at)
            if not length:
                return
            at += length

    def _step(self, code: bytes, at: int) -> int:  # noqa: C901 - a case per kind of instruction
        """Executes an instruction; returns its length, 0 at the end."""
        op, stack = code[at], self._stack
        short = struct.unpack_from(">H", code, at + 1)[0] if at + 3 <= len(code) else 0
        match op:
            case 0 | 192:  # nop, checkcast
                return 1 if op == 0 else 3
            case _ if 1 <= op <= 15:  # constants
                stack.append(None if op == 1 else op - 3)
                return 1
            case 16 | 17:  # bipush, sipush
                stack.append(code[at + 1] if op == 16 else short)
                return 2 if op == 16 else 3
            case 18 | 19 | 20:  # ldc
                stack.append(self._class.loaded(code[at + 1] if op == 18 else short))
                return 2 if op == 18 else 3
            case _ if 21 <= op <= 25:  # load
                stack.append(self._local.get(code[at + 1]))
                return 2
            case _ if 26 <= op <= 45:
                stack.append(self._local.get((op - 26) % 4))
                return 1
            case _ if 54 <= op <= 58:  # store
                self._local[code[at + 1]] = stack.pop()
                return 2
            case _ if 59 <= op <= 78:
                self._local[(op - 59) % 4] = stack.pop()
                return 1
            case 83:  # aastore
                value, index, array = stack.pop(), stack.pop(), stack.pop()
                if isinstance(array, list) and isinstance(index, int):
                    array[index] = value
                return 1
            case 87:  # pop
                stack.pop()
                return 1
            case 89:  # dup
                stack.append(stack[-1])
                return 1
            case 176:  # areturn
                self.result = stack.pop()
                return 0
            case 178 | 179:
                self._static(op, short)
                return 3
            case 180:  # getfield
                stack[-1] = None
                return 3
            case 181:  # putfield
                del stack[-2:]
                return 3
            case 182 | 183 | 184 | 185 | 186:
                self._invoke(op, short)
                return 3 if op < 185 else 5
            case 187:  # new
                stack.append(MethodCall("new", [self._class.loaded(short)]))
                return 3
            case 189:  # anewarray
                size = stack.pop()
                stack.append([None] * size if isinstance(size, int) and 0 <= size < 1000 else None)
                return 3
            case _:  # branches, arithmetic, return: descriptions do not need them
                return 0

    def _static(self, op: int, index: int) -> None:
        owner, name, _ = self._class.constant(index)
        own = owner.replace("/", ".") == self._class.name
        if op == 179:
            self._fields[name] = self._stack.pop()
        elif own and name in self._fields:
            self._stack.append(self._fields[name])
        else:
            self._stack.append(Static(owner.replace("/", "."), name))

    def _invoke(self, op: int, index: int) -> None:
        owner, name, descriptor = self._class.constant(index)
        inside, _, result = descriptor[1:].rpartition(")")
        count = len(_DESCRIPTOR.findall(inside))
        args = [self._stack.pop() for _ in range(count)][::-1]
        if op == 186:
            self._stack.append(self._class.lambda_of(self._class.constant(index)[0]))
            return
        target = None if op == 184 else self._stack.pop()
        call = MethodCall(name, args, target, owner.replace("/", "."), descriptor)
        self.calls.append(call)
        if name == "<init>" and isinstance(target, MethodCall):
            target.args += args
            target.descriptor = descriptor
        if result != "V":
            self._stack.append(call)
