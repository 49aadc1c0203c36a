"""Follows Java source as far as constants, constructors and plain helper methods go, and no further.

Nothing is compiled or run: this is a small interpreter of the syntax tree that knows *unknown* as a value.
What lies outside of the sources, and KNIME's own framework, is kept as the call that it was. Of a condition
that is unknown both sides are followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .java_classes import AnonymousClass, plain, text
from .java_library import (
    above,
    computed,
    library_call,
    literal,
    takes,
    value_call,
    with_interfaces,
    zero,
)
from .java_values import UNKNOWN, Call, ClassRef, Lambda, MethodRef, Obj, Static

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

    from .java_classes import Field, JavaClass, JavaIndex, Method

_DEEPEST: Final = 60
_MOST_STEPS: Final = 60_000
_MOST_ROUNDS: Final = 300
_OPAQUE: Final = ("org.knime.core.", "org.knime.node.", "org.eclipse.", "java.", "org.apache.", "com.google.")
"""Packages whose methods are not followed; their constants are, and constructors up to `ENDS`."""
_KEPT: Final = ("PortsConfigurationBuilder",)
"""Classes whose calls are what is looked for."""
_LISTS: Final = frozenset({"ArrayList", "LinkedList", "HashSet", "LinkedHashSet", "TreeSet", "Vector"})


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Thrown(Exception):
    pass


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


@dataclass(slots=True)
class Frame:
    cls: JavaClass
    this: Obj | None
    names: dict[str, Any] = field(default_factory=dict[str, Any])
    outer: Frame | None = None

    def holder(self, name: str) -> Frame | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.names:
                return frame
            frame = frame.outer
        return None


class JavaReader:
    """Evaluates expressions, methods and constructors of an index's classes."""

    def __init__(self, index: JavaIndex, *, ends: frozenset[str]) -> None:
        """`ends` are classes whose constructors are kept as they are called, and whose methods are too."""
        self.index = index
        self.ends = ends
        self.steps = 0
        self.depth = 0
        self.watch: Callable[[Call], None] | None = None
        self.both = False  # follow both sides of every condition
        self._statics: dict[tuple[str, str], Any] = {}

    # -- entrances ---------------------------------------------------------------------------------------

    def start(self) -> None:
        self.steps = self.depth = 0

    def new(self, name: str, args: list[Any] | None = None) -> Obj:
        """An object of a class; its fields are set as its constructors set them."""
        cls = self.index.find(name)
        found = Obj(cls.name if cls else name, args or [], cls)
        if cls is None or name in self.ends:
            found.base = (found.type, found.args)
        else:
            self._construct(found, cls, found.args)
        return found

    def call(self, target: Obj, name: str, args: list[Any] | None = None) -> Any:
        """The result of a method of an object, found as Java finds it: in the object's own class first."""
        for cls in target.cls.ancestors() if target.cls else ():
            if cls.name in self.ends:
                break
            method = self._method(cls, name, args or [])
            if method is not None and method.body is not None:
                return self._invoke(cls, target, method, args or [])
        return UNKNOWN

    def apply(self, function: Any, args: list[Any]) -> Any:
        """The result of a lambda or method reference."""
        if isinstance(function, Lambda):
            frame = Frame(function.frame.cls, function.frame.this, {}, function.frame)
            frame.names.update(zip(function.parameters, args, strict=False))
            if function.body.type == "block":
                return self._run_body(function.body, frame)
            return self.value(function.body, frame)
        if isinstance(function, MethodRef):
            if isinstance(function.target, ClassRef):
                if function.name == "new":
                    return self.new(function.target.name, args)
                return self._static_call(function.target.name, function.name, args)
            if isinstance(function.target, Obj):
                return self.call(function.target, function.name, args)
        return UNKNOWN

    def static(self, owner: str, name: str) -> Any:
        """The value of a static field."""
        key = (owner, name)
        if key not in self._statics:
            self._statics[key] = Static(owner, name)
            self._statics[key] = self._static(owner, name)
        return self._statics[key]

    # -- objects -----------------------------------------------------------------------------------------

    def _construct(self, target: Obj, cls: JavaClass, args: list[Any], left: tuple[Method, ...] = ()) -> None:
        """Runs a constructor and those that it calls; `left` are those that said ``this(…)``."""
        method = self._method(cls, "<init>", args, left)
        frame = Frame(cls, target)
        body = method.body.named_children if method is not None and method.body is not None else []
        statements = [entry for entry in body if "comment" not in entry.type]
        if method is not None:
            self._bind(frame, method, args)
        first = (
            statements[0] if statements and statements[0].type == "explicit_constructor_invocation" else None
        )
        own = first is not None and (kind := first.child_by_field_name("constructor")) and kind.type == "this"
        arguments = first.child_by_field_name("arguments") if first is not None else None
        given = self._guarded(lambda: self._arguments(arguments, frame)) or []
        if own:
            self._construct(target, cls, given, (*left, method) if method is not None else left)
        else:
            self._construct_super(target, cls, given)
            self._set_fields(target, cls)
        for entry in statements[1 if first is not None else 0 :]:
            self._guarded(lambda entry=entry: self._do(entry, frame))

    def _construct_super(self, target: Obj, cls: JavaClass, args: list[Any]) -> None:
        above = cls.superclass
        known = self.index.find(above)
        if above is None:
            return
        if known is None or above in self.ends:
            target.base = (above, args)
        else:
            self._construct(target, known, args)

    def _set_fields(self, target: Obj, cls: JavaClass) -> None:
        frame = Frame(cls, target, {}, target.scope if isinstance(cls, AnonymousClass) else None)
        for name, entry in cls.fields.items():
            if not entry.static:
                target.fields[name] = zero(entry)
                if entry.value is not None:
                    target.fields[name] = self._guarded(lambda entry=entry: self._initial(entry, frame))
        for block in cls.initializers:
            self._guarded(lambda block=block: self._do(block, frame))

    def _initial(self, entry: Field, frame: Frame) -> Any:
        if entry.value is not None and entry.value.type == "array_initializer":
            return [self.value(child, frame) for child in entry.value.named_children]
        return self.value(entry.value, frame) if entry.value is not None else UNKNOWN

    def _guarded(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except _Return as found:
            return found.value
        except (_Thrown, _Break, _Continue):
            return UNKNOWN

    # -- methods -----------------------------------------------------------------------------------------

    def _method(
        self, cls: JavaClass, name: str, args: list[Any], left: tuple[Method, ...] = ()
    ) -> Method | None:
        found = cls.methods.get(name, ())
        fitting = [
            entry for entry in found if not any(entry is other for other in left) and takes(entry, len(args))
        ]
        if len(fitting) <= 1:
            return fitting[0] if fitting else None
        return max(fitting, key=lambda entry: (self._fit(cls, entry, args), not entry.variadic))

    def _fit(self, cls: JavaClass, method: Method, args: list[Any]) -> int:
        """How well a method's parameters suit the arguments, to tell overloaded methods apart."""
        score = 0
        for position, value in enumerate(args):
            kind = method.parameters[min(position, len(method.parameters) - 1)][1]
            score += self._suits(cls, kind, value, method.variadic and position >= len(method.parameters) - 1)
        return score

    def _suits(self, cls: JavaClass, kind: str, value: Any, variadic: bool) -> int:
        is_list = kind.endswith("[]") or (variadic and isinstance(value, list))
        simple = plain(kind).rpartition(".")[2]
        match value:
            case bool():
                return 2 if simple in ("boolean", "Boolean") else -3
            case int():
                return 2 if simple in ("int", "long", "Integer", "double", "Long") else -3
            case str():
                return (
                    2 if simple in ("String", "CharSequence") else -3 if simple in ("int", "boolean") else 0
                )
            case list():
                return 2 if is_list or simple in ("List", "Collection", "Set") else -3
            case ClassRef():
                return 2 if simple == "Class" else -3
            case Lambda() | MethodRef():
                return -3 if simple in ("String", "int", "boolean", "PortType", "Class") or is_list else 1
            case Static() | Call() if is_list:
                return -1
            case Obj():
                if is_list or simple in ("String", "int", "boolean"):
                    return -3
                return 2 if cls.resolve(plain(kind)) in (value.type, *above(value)) else 0
            case _:
                return 0

    def _bind(self, frame: Frame, method: Method, args: list[Any]) -> None:
        names = [name for name, _ in method.parameters]
        if method.variadic:
            last = len(names) - 1
            rest = args[last:]
            if len(rest) == 1 and isinstance(rest[0], list):
                rest = rest[0]
            frame.names.update(zip(names[:last], args, strict=False))
            frame.names[names[last]] = rest
        else:
            frame.names.update(zip(names, args, strict=False))

    def _invoke(self, cls: JavaClass, this: Obj | None, method: Method, args: list[Any]) -> Any:
        if self.depth > _DEEPEST or method.body is None:
            return UNKNOWN
        outer = this.scope if this is not None and isinstance(cls, AnonymousClass) else None
        frame = Frame(cls, this, {}, outer)
        self._bind(frame, method, args)
        self.depth += 1
        try:
            return self._run_body(method.body, frame)
        finally:
            self.depth -= 1

    def _run_body(self, body: Node, frame: Frame) -> Any:
        try:
            self._do(body, frame)
            result = None
        except _Return as found:
            result = found.value
        except (_Thrown, _Break, _Continue):
            result = UNKNOWN
        candidate = frame.names.get("return?", UNKNOWN)
        return candidate if result is UNKNOWN or result is None else result

    def _static(self, owner: str, name: str) -> Any:
        cls = self.index.find(owner)
        if cls is None:
            return Static(owner, name)
        for entry in with_interfaces(cls, self.index):
            if name in entry.constants:
                return Static(entry.name, name)
            found = entry.fields.get(name)
            if found is not None:
                if found.value is None or not found.static:
                    return self._set_in_block(entry, name)
                value = self._initial(found, Frame(entry, None))
                return Static(entry.name, name) if value is UNKNOWN else value
        return Static(owner, name)

    def _set_in_block(self, cls: JavaClass, name: str) -> Any:
        """A static field that a ``static { }`` sets."""
        holder = Obj(cls.name, [], cls)
        for node in cls.members:
            if node.type == "static_initializer":
                self._guarded(lambda node=node: self._do(node.named_children[0], Frame(cls, holder)))
        return holder.fields.get(name, Static(cls.name, name))

    def _static_call(self, owner: str, name: str, args: list[Any]) -> Any:
        simple = owner.rpartition(".")[2]
        library = library_call(simple, name, args)
        if library is not UNKNOWN:
            return library
        cls = self.index.find(owner)
        if cls is not None and not owner.startswith(_OPAQUE):
            for entry in cls.ancestors():
                method = self._method(entry, name, args)
                if method is not None:
                    return self._invoke(entry, None, method, args)
        return self._kept(Call(name, args, ClassRef(owner)))

    def _kept(self, call: Call) -> Call:
        if self.watch is not None:
            self.watch(call)
        if isinstance(call.target, Obj):
            call.target.calls.append(call)
        return call

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _Thrown

    # -- statements --------------------------------------------------------------------------------------

    def _do(self, node: Node, frame: Frame) -> None:
        self._step()
        run = _STATEMENTS.get(node.type)
        if run is not None:
            run(self, node, frame)

    def _block(self, node: Node, frame: Frame) -> None:
        for entry in node.named_children:
            self._do(entry, frame)

    def _locals(self, node: Node, frame: Frame) -> None:
        for entry in node.children_by_field_name("declarator"):
            name, value = entry.child_by_field_name("name"), entry.child_by_field_name("value")
            if name is None:
                continue
            if value is not None and value.type == "array_initializer":
                frame.names[text(name)] = [self.value(child, frame) for child in value.named_children]
            else:
                frame.names[text(name)] = self.value(value, frame) if value is not None else UNKNOWN

    def _expression(self, node: Node, frame: Frame) -> None:
        self.value(node.named_children[0], frame)

    def _return(self, node: Node, frame: Frame) -> None:
        values = [child for child in node.named_children if "comment" not in child.type]
        raise _Return(self.value(values[0], frame) if values else None)

    def _throw(self, node: Node, frame: Frame) -> None:
        raise _Thrown

    def _if(self, node: Node, frame: Frame) -> None:
        condition = self.value(node.child_by_field_name("condition"), frame)
        then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        if isinstance(condition, bool) and not self.both:
            chosen = then if condition else other
            if chosen is not None:
                self._do(chosen, frame)
            return
        for branch in (then, other):
            try:
                if branch is not None:
                    self._do(branch, frame)
            except _Return as found:
                # It may be the result: it counts if what follows has none.
                frame.names.setdefault("return?", found.value)
                if branch is other:
                    raise
            except (_Thrown, _Break, _Continue):
                pass

    def _for(self, node: Node, frame: Frame) -> None:
        for entry in node.children_by_field_name("init"):
            if entry.type == "local_variable_declaration":
                self._locals(entry, frame)
            else:
                self.value(entry, frame)
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        for number in range(_MOST_ROUNDS):
            goes_on = condition is None or self.value(condition, frame) is True
            if not goes_on and not (self.both and number == 0):
                return
            if body is not None and self._round(body, frame):
                return
            for entry in node.children_by_field_name("update"):
                self.value(entry, frame)

    def _for_each(self, node: Node, frame: Frame) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        values = self.value(node.child_by_field_name("value"), frame)
        for entry in values[:_MOST_ROUNDS] if isinstance(values, list) else [UNKNOWN]:
            if name is not None:
                frame.names[text(name)] = entry
            if body is not None and self._round(body, frame):
                return

    def _while(self, node: Node, frame: Frame) -> None:
        body = node.child_by_field_name("body")
        if body is not None:
            self._round(body, frame)

    def _round(self, body: Node, frame: Frame) -> bool:
        """One round of a loop; whether it was the last."""
        try:
            self._do(body, frame)
        except _Continue:
            pass
        except _Break:
            return True
        return False

    def _try(self, node: Node, frame: Frame) -> None:
        for child in node.named_children:
            if child.type in ("resource_specification", "finally_clause"):
                continue
            if child.type == "block":
                try:
                    self._do(child, frame)
                except _Thrown:
                    continue
                return

    def _break(self, node: Node, frame: Frame) -> None:
        raise _Break

    def _continue(self, node: Node, frame: Frame) -> None:
        raise _Continue

    def _construction(self, node: Node, frame: Frame) -> None:
        """``this(…)`` and ``super(…)`` are followed where constructors are."""

    # -- expressions -------------------------------------------------------------------------------------

    def value(self, node: Node | None, frame: Frame) -> Any:
        if node is None:
            return UNKNOWN
        self._step()
        run = _EXPRESSIONS.get(node.type)
        if run is None or self.depth > _DEEPEST:
            return UNKNOWN
        self.depth += 1
        try:
            return run(self, node, frame)
        finally:
            self.depth -= 1

    def _arguments(self, node: Node | None, frame: Frame) -> list[Any]:
        found = node.named_children if node is not None else []
        return [self.value(child, frame) for child in found if "comment" not in child.type]

    def _identifier(self, node: Node, frame: Frame) -> Any:
        name = text(node)
        holder = frame.holder(name)
        if holder is not None:
            return holder.names[name]
        if frame.this is not None and name in frame.this.fields:
            return frame.this.fields[name]
        scope: JavaClass | None = frame.cls
        while scope is not None:
            for entry in with_interfaces(scope, self.index):
                if name in entry.fields or name in entry.constants:
                    return self.static(entry.name, name)
            scope = scope.outer
        imported = frame.cls.unit.members.get(name)
        if imported is not None:
            owner, _, field_name = imported.rpartition(".")
            return self.static(owner, field_name)
        for owner in frame.cls.unit.static_folders:
            known = self.index.find(owner)
            if known is not None and (name in known.fields or name in known.constants):
                return self.static(owner, name)
        return UNKNOWN

    def _owner(self, node: Node, frame: Frame) -> str | None:
        """The class that a node names, if it is the name of a class rather than of a value."""
        name = text(node)
        if not all(part.isidentifier() for part in name.split(".")) or frame.holder(name.partition(".")[0]):
            return None
        simple = name.rpartition(".")[2]
        if not simple[:1].isupper() or (
            simple.isupper()
            and frame.cls.index.find(frame.cls.resolve(name)) is None
            and len(simple) > 3
            and self._identifier_known(name, frame)
        ):
            return None
        return frame.cls.resolve(name)

    def _identifier_known(self, name: str, frame: Frame) -> bool:
        return any(name in entry.fields for entry in with_interfaces(frame.cls, self.index))

    def _field(self, node: Node, frame: Frame) -> Any:
        object_, field_ = node.child_by_field_name("object"), node.child_by_field_name("field")
        if object_ is None or field_ is None:
            return UNKNOWN
        name = text(field_)
        if object_.type in ("identifier", "field_access", "scoped_identifier"):
            owner = self._owner(object_, frame)
            if owner is not None:
                return self.static(owner, name)
        target = self.value(object_, frame)
        if isinstance(target, Obj):
            return target.fields.get(name, UNKNOWN)
        if isinstance(target, list) and name == "length":
            return len(target)
        if isinstance(target, ClassRef):
            return self.static(target.name, name)
        return UNKNOWN

    def _invocation(self, node: Node, frame: Frame) -> Any:
        object_ = node.child_by_field_name("object")
        name = text(node.child_by_field_name("name"))  # pyright: ignore[reportArgumentType]
        if object_ is None or object_.type in ("this", "super"):
            args = self._arguments(node.child_by_field_name("arguments"), frame)
            return self._own_call(name, args, frame, above=object_ is not None and object_.type == "super")
        if object_.type in ("identifier", "field_access", "scoped_identifier"):
            owner = self._owner(object_, frame)
            if owner is not None:
                return self._static_call(
                    owner, name, self._arguments(node.child_by_field_name("arguments"), frame)
                )
        target = self.value(object_, frame)
        args = self._arguments(node.child_by_field_name("arguments"), frame)
        return self._method_call(target, name, args)

    def _own_call(self, name: str, args: list[Any], frame: Frame, *, above: bool) -> Any:
        scope: JavaClass | None = frame.cls
        this = frame.this
        while scope is not None:
            start = this.cls if this is not None and this.cls is not None and scope is frame.cls else scope
            first = scope if above else start
            for cls in list(first.ancestors())[1 if above else 0 :]:
                method = self._method(cls, name, args)
                if method is not None and method.body is not None:
                    if cls.name in self.ends:
                        break
                    return self._invoke(cls, None if method.static else this, method, args)
            scope = scope.outer
        imported = frame.cls.unit.members.get(name)
        if imported is not None:
            return self._static_call(imported.rpartition(".")[0], name, args)
        return self._kept(Call(name, args, this))

    def _method_call(self, target: Any, name: str, args: list[Any]) -> Any:
        followed = isinstance(target, Obj) and not target.type.rpartition(".")[2].startswith("SettingsModel")
        if followed and target.cls is not None and not target.type.startswith(_OPAQUE):
            for cls in target.cls.ancestors():
                method = self._method(cls, name, args)
                if method is not None and method.body is not None and cls.name not in self.ends:
                    return self._invoke(cls, target, method, args)
        found = value_call(self, target, name, args)
        return self._kept(Call(name, args, target)) if found is UNKNOWN else found

    def _creation(self, node: Node, frame: Frame) -> Any:
        kind = node.child_by_field_name("type")
        name = plain(text(kind)) if kind is not None else ""
        args = self._arguments(node.child_by_field_name("arguments"), frame)
        if name.rpartition(".")[2] in _LISTS:
            return list(args[0]) if args and isinstance(args[0], list) else []
        full = frame.cls.resolve(name)
        body = next((child for child in node.named_children if child.type == "class_body"), None)
        kept = full.endswith(_KEPT) or (full.startswith(_OPAQUE) and not full.endswith("NodeModel"))
        if kept and body is None:
            return Obj(full, args, None, base=(full, args))
        if body is None:
            return self.new(full, args)
        return self._anonymous(full, body, args, frame)

    def _anonymous(self, full: str, body: Node, args: list[Any], frame: Frame) -> Obj:
        known = self.index.find(full)
        is_interface = known is not None and known.node.type == "interface_declaration"
        cls = AnonymousClass(self.index, full, body, frame.cls, frame.cls.unit)
        found = Obj(full, args, cls, scope=frame)
        if known is None or is_interface or full in self.ends:
            found.base = (full, args)
        else:
            self._construct(found, known, args)
        self._set_fields(found, cls)
        return found

    def _array(self, node: Node, frame: Frame) -> Any:
        value = node.child_by_field_name("value")
        if value is not None:
            return [self.value(child, frame) for child in value.named_children if "comment" not in child.type]
        sizes = [child for child in node.named_children if child.type == "dimensions_expr"]
        size = self.value(sizes[0].named_children[0], frame) if sizes else UNKNOWN
        return [UNKNOWN] * size if isinstance(size, int) and 0 <= size < _MOST_ROUNDS else UNKNOWN

    def _array_values(self, node: Node, frame: Frame) -> Any:
        return [self.value(child, frame) for child in node.named_children if "comment" not in child.type]

    def _element(self, node: Node, frame: Frame) -> Any:
        array = self.value(node.child_by_field_name("array"), frame)
        index = self.value(node.child_by_field_name("index"), frame)
        if isinstance(array, list) and isinstance(index, int) and 0 <= index < len(array):
            return array[index]
        return UNKNOWN

    def _assignment(self, node: Node, frame: Frame) -> Any:
        left, right = node.child_by_field_name("left"), self.value(node.child_by_field_name("right"), frame)
        sign = text(node.children[1])
        if left is None:
            return right
        if sign != "=":
            right = computed(sign.removesuffix("="), self.value(left, frame), right)
        if left.type == "identifier":
            name = text(left)
            holder = frame.holder(name)
            if holder is not None:
                holder.names[name] = right
            elif frame.this is not None:
                frame.this.fields[name] = right
        elif left.type == "field_access" and (name_node := left.child_by_field_name("field")) is not None:
            target = self.value(left.child_by_field_name("object"), frame)
            if isinstance(target, Obj):
                target.fields[text(name_node)] = right
        elif left.type == "array_access":
            array = self.value(left.child_by_field_name("array"), frame)
            index = self.value(left.child_by_field_name("index"), frame)
            if isinstance(array, list) and isinstance(index, int) and 0 <= index < len(array):
                array[index] = right
        return right

    def _update(self, node: Node, frame: Frame) -> Any:
        inner = node.named_children[0]
        value = self.value(inner, frame)
        step = 1 if "++" in text(node) else -1
        if inner.type == "identifier" and isinstance(value, int):
            holder = frame.holder(text(inner))
            if holder is not None:
                holder.names[text(inner)] = value + step
            elif frame.this is not None:
                frame.this.fields[text(inner)] = value + step
        return value

    def _binary(self, node: Node, frame: Frame) -> Any:
        sign = text(node.children[1])
        left = self.value(node.child_by_field_name("left"), frame)
        if sign == "&&" and left is False:
            return False
        if sign == "||" and left is True:
            return True
        right = self.value(node.child_by_field_name("right"), frame)
        return computed(sign, left, right)

    def _unary(self, node: Node, frame: Frame) -> Any:
        value = self.value(node.child_by_field_name("operand"), frame)
        match text(node.children[0]), value:
            case "!", bool():
                return not value
            case "-", int() | float():
                return -value
            case "+", int() | float():
                return value
            case _:
                return UNKNOWN

    def _ternary(self, node: Node, frame: Frame) -> Any:
        condition = self.value(node.child_by_field_name("condition"), frame)
        first = (
            self.value(node.child_by_field_name("consequence"), frame) if condition is not False else UNKNOWN
        )
        second = (
            self.value(node.child_by_field_name("alternative"), frame) if condition is not True else UNKNOWN
        )
        if isinstance(condition, bool):
            return first if condition else second
        if isinstance(first, (Obj, Call)) or first == second:
            return first
        return second if isinstance(second, (Obj, Call)) else UNKNOWN

    def _inner(self, node: Node, frame: Frame) -> Any:
        found = [child for child in node.named_children if "comment" not in child.type]
        return self.value(found[-1], frame) if found else UNKNOWN

    def _cast(self, node: Node, frame: Frame) -> Any:
        return self.value(node.child_by_field_name("value"), frame)

    def _lambda(self, node: Node, frame: Frame) -> Any:
        listed = node.child_by_field_name("parameters")
        names: list[str] = []
        if listed is not None and listed.type == "identifier":
            names = [text(listed)]
        elif listed is not None:
            for child in listed.named_children:
                name = child.child_by_field_name("name") if child.type != "identifier" else child
                names.append(text(name) if name is not None else "")
        return Lambda(names, node.child_by_field_name("body"), frame)

    def _reference(self, node: Node, frame: Frame) -> Any:
        first = node.children[0]
        name = text(node.children[-1])
        if first.type == "this":
            return MethodRef(frame.this, name, frame)
        owner = (
            self._owner(first, frame) if "identifier" in first.type or first.type == "field_access" else None
        )
        if owner is not None:
            return MethodRef(ClassRef(owner), name, frame)
        return MethodRef(UNKNOWN, name, frame)

    def _class(self, node: Node, frame: Frame) -> Any:
        return ClassRef(frame.cls.resolve(plain(text(node.named_children[0]))))

    def _this(self, node: Node, frame: Frame) -> Any:
        return frame.this if frame.this is not None else UNKNOWN

    def _text(self, node: Node, frame: Frame) -> Any:
        return literal(node)

    def _number(self, node: Node, frame: Frame) -> Any:
        digits = text(node).replace("_", "")
        try:
            if node.type == "decimal_floating_point_literal":
                return float(digits.rstrip("dDfF"))
            return int(digits.rstrip("lL"), 0 if digits[:2].lower() in ("0x", "0b") else 10)
        except ValueError:
            return UNKNOWN

    def _true(self, node: Node, frame: Frame) -> Any:
        return True

    def _false(self, node: Node, frame: Frame) -> Any:
        return False

    def _null(self, node: Node, frame: Frame) -> Any:
        return None


_STATEMENTS: Final[dict[str, Callable[[JavaReader, Any, Frame], None]]] = {
    "block": JavaReader._block,
    "constructor_body": JavaReader._block,
    "local_variable_declaration": JavaReader._locals,
    "expression_statement": JavaReader._expression,
    "return_statement": JavaReader._return,
    "throw_statement": JavaReader._throw,
    "if_statement": JavaReader._if,
    "for_statement": JavaReader._for,
    "enhanced_for_statement": JavaReader._for_each,
    "while_statement": JavaReader._while,
    "do_statement": JavaReader._while,
    "try_statement": JavaReader._try,
    "try_with_resources_statement": JavaReader._try,
    "synchronized_statement": JavaReader._try,
    "break_statement": JavaReader._break,
    "continue_statement": JavaReader._continue,
}
_EXPRESSIONS: Final[dict[str, Callable[[JavaReader, Any, Frame], Any]]] = {
    "identifier": JavaReader._identifier,
    "field_access": JavaReader._field,
    "method_invocation": JavaReader._invocation,
    "object_creation_expression": JavaReader._creation,
    "array_creation_expression": JavaReader._array,
    "array_initializer": JavaReader._array_values,
    "array_access": JavaReader._element,
    "assignment_expression": JavaReader._assignment,
    "update_expression": JavaReader._update,
    "binary_expression": JavaReader._binary,
    "unary_expression": JavaReader._unary,
    "ternary_expression": JavaReader._ternary,
    "parenthesized_expression": JavaReader._inner,
    "cast_expression": JavaReader._cast,
    "lambda_expression": JavaReader._lambda,
    "method_reference": JavaReader._reference,
    "class_literal": JavaReader._class,
    "this": JavaReader._this,
    "string_literal": JavaReader._text,
    "decimal_integer_literal": JavaReader._number,
    "hex_integer_literal": JavaReader._number,
    "decimal_floating_point_literal": JavaReader._number,
    "true": JavaReader._true,
    "false": JavaReader._false,
    "null_literal": JavaReader._null,
}
