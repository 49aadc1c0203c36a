"""The ports of a node, with the exact classes of what goes through them, from its Java source.

Four ways lead there: a configuration that a factory builds (`WebUINodeFactory`, `DefaultNodeFactory`), groups
of ports that a person can change (`ConfigurableNodeFactory`), and what the constructor of the node's model
passes to KNIME's own `NodeModel`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from .java_values import UNKNOWN, Call, ClassRef, Lambda, MethodRef, Obj, Static

if TYPE_CHECKING:
    from .java_reader import JavaReader

TABLE: Final = "org.knime.core.node.BufferedDataTable"
ANY: Final = "org.knime.core.node.port.PortObject"
FLOW_VARIABLES: Final = "org.knime.core.node.port.flowvariable.FlowVariablePortObject"
ENDS: Final = frozenset(
    {
        "org.knime.core.node.NodeModel",
        "org.knime.core.node.NodeFactory",
        "org.knime.core.node.ConfigurableNodeFactory",
        "org.knime.core.webui.node.impl.WebUINodeFactory",
        "org.knime.core.webui.node.impl.WebUINodeModel",
        "org.knime.core.webui.node.impl.WebUISimpleStreamableFunctionNodeModel",
        "org.knime.node.DefaultNodeFactory",
        "org.knime.core.node.port.PortType",
    }
)
_ONE_TABLE_EACH: Final = "org.knime.core.node.streamable.simple.SimpleStreamableFunctionNodeModel"
_KNOWN_TYPES: Final = {
    "BufferedDataTable": TABLE,
    "PortObject": ANY,
    "FlowVariablePortObject": FLOW_VARIABLES,
}


@dataclass(slots=True)
class PortFact:
    type: str | None  # the class of its objects; None if the source does not say
    name: str = ""
    optional: bool = False
    group: str | None = None  # the id of its group, if a person can change the number or type of its ports
    # how many ports of the group a new node has
    count: int = 1
    addable: bool = False  # more ports can be added; otherwise the type or the only port can be changed
    accepts: list[str] = field(default_factory=list[str])  # the types of ports that can be added


@dataclass(slots=True)
class Ports:
    inputs: list[PortFact]
    outputs: list[PortFact]
    way: str
    complete: bool = True


def port_type(value: Any, reader: JavaReader) -> tuple[str | None, bool]:
    """The class of a port type, and whether the port is optional."""
    match value:
        case Static(owner, name):
            if name.startswith("TYPE"):
                return _of_static(owner, name, reader)
            return None, False
        case Call("getPortType", args) | Obj("org.knime.core.node.port.PortType", args):
            classes = [arg.name for arg in args if isinstance(arg, ClassRef)]
            return (classes[0] if classes else None), any(arg is True for arg in args)
        case _:
            return None, False


def _of_static(owner: str, name: str, reader: JavaReader) -> tuple[str, bool]:
    optional = "OPTIONAL" in name
    cls = reader.index.find(owner)
    return (cls.name if cls is not None else owner), optional


def ports_of_model(model: Obj, reader: JavaReader) -> Ports | None:
    """What the constructor of a model passes to KNIME's model class."""
    if model.base is None:
        return None
    owner, args = model.base
    if owner == _ONE_TABLE_EACH or owner.endswith("SimpleStreamableFunctionNodeModel"):
        if not args:
            return Ports([PortFact(TABLE)], [PortFact(TABLE)], "model")
    if owner.endswith("WebUINodeModel") or "WebUI" in owner:
        configuration = next((arg for arg in args if isinstance(arg, Call)), None)
        if configuration is not None:
            return ports_of_configuration(configuration, reader)
    for arg in args[:2]:
        chain = arg.chain() if isinstance(arg, Call) else []
        builder = chain[0].target if chain else None
        if isinstance(builder, Obj) and builder.type.endswith("PortsConfigurationBuilder"):
            # Only the first call of a chain is one of the builder itself.
            builder.calls += [call for call in chain if not any(call is other for other in builder.calls)]
            return ports_of_groups(builder, reader)
    sides = [_side(arg, reader) for arg in args[:2]]
    if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
        complete = all(port.type for side in sides for port in side or ())
        return Ports(sides[0], sides[1], "model", complete)
    return None


def _side(value: Any, reader: JavaReader) -> list[PortFact] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return [PortFact(TABLE) for _ in range(value)]
    if value is None:
        return []
    if isinstance(value, list):
        return [_port(entry, reader) for entry in value]
    return None


def _port(value: Any, reader: JavaReader) -> PortFact:
    kind, optional = port_type(value, reader)
    return PortFact(kind, optional=optional)


# -- what factories configure -------------------------------------------------------------------------------


def ports_of_configuration(call: Call, reader: JavaReader) -> Ports | None:
    """The ports of ``WebUINodeConfiguration.builder()…`` or ``DefaultNode.create()…``."""
    found = Ports([], [], "configuration")
    for entry in call.chain():
        if entry.name == "ports" and entry.args and isinstance(entry.args[0], (Lambda, MethodRef)):
            _in_lambda(entry.args[0], found, reader)
        else:
            _configured(entry, found, reader)
    found.complete = all(port.type for port in (*found.inputs, *found.outputs))
    return found


def _in_lambda(function: Lambda | MethodRef, found: Ports, reader: JavaReader) -> None:
    result = reader.apply(function, [Obj("ports")])
    for entry in result.chain() if isinstance(result, Call) else ():
        _configured(entry, found, reader)


def _configured(call: Call, found: Ports, reader: JavaReader) -> None:
    texts = [arg for arg in call.args if isinstance(arg, str)]
    types = [port_type(arg, reader) for arg in _flat(call.args)]
    kinds = [kind for kind, _ in types if kind is not None]
    name = texts[0] if texts else ""
    optional = any(flag for _, flag in types)
    match call.name:
        case "addInputTable":
            found.inputs.append(PortFact(TABLE, name))
        case "addOptionalInputTable":
            found.inputs.append(PortFact(TABLE, name, optional=True))
        case "addOutputTable":
            found.outputs.append(PortFact(TABLE, name))
        case "addInputPort":
            found.inputs.append(PortFact(kinds[0] if kinds else None, name, optional))
        case "addOptionalInputPort":
            found.inputs.append(PortFact(kinds[0] if kinds else None, name, optional=True))
        case "addOutputPort":
            found.outputs.append(PortFact(kinds[0] if kinds else None, name))
        case "addDynamicPorts" | "dynamicPorts" if call.args and isinstance(
            call.args[0], (Lambda, MethodRef)
        ):
            _in_lambda(call.args[0], found, reader)
        case "addInputPortGroup" | "addOutputPortGroup" | "addInputAndOutputPortGroup":
            _dynamic_group(call, found, reader)
        case _:
            pass


def _dynamic_group(call: Call, found: Ports, reader: JavaReader) -> None:
    """A group of ``DefaultNode``'s dynamic ports: ``addInputPortGroup(id, group -> group.…)``."""
    id_ = next((arg for arg in call.args if isinstance(arg, str)), "")
    function = next((arg for arg in call.args if isinstance(arg, (Lambda, MethodRef))), None)
    inner = reader.apply(function, [Obj("group")]) if function is not None else UNKNOWN
    fixed: list[PortFact] = []
    accepts: list[str] = []
    optional = extendable = exchangeable = False
    names: list[str] = []
    for entry in inner.chain() if isinstance(inner, Call) else ():
        kinds = [kind for kind, _ in (port_type(arg, reader) for arg in _flat(entry.args)) if kind]
        names += [arg for arg in entry.args if isinstance(arg, str)] if entry.name == "name" else []
        match entry.name:
            case "fixed" | "defaultPortType" | "defaultPortTypes":
                fixed += [PortFact(kind) for kind in kinds]
            case "optional":
                optional = True
            case "extendable":
                extendable = True
            case "exchangeable":
                exchangeable = True
            case "supportedTypes":
                accepts += kinds
            case "supportedTypesPredicate":
                accepts.append(ANY)
            case _:
                pass
    sides = {"addInputPortGroup": [found.inputs], "addOutputPortGroup": [found.outputs]}
    for side in sides.get(call.name, [found.inputs, found.outputs]):
        is_group = optional or extendable or exchangeable
        kind = fixed[0].type if fixed else accepts[0] if accepts else None
        name = names[0] if names else id_
        count = len(fixed)
        side.append(
            PortFact(kind, name, optional=not count, group=id_ if is_group else None, count=count,
                     addable=extendable or optional, accepts=accepts)
        )  # fmt: skip


def ports_of_groups(builder: Obj, reader: JavaReader) -> Ports:
    """The ports of a ``PortsConfigurationBuilder``, from the calls that filled it."""
    found = Ports([], [], "groups")
    for call in builder.calls:
        _group(call, found, reader)
    found.complete = all(port.type for port in (*found.inputs, *found.outputs))
    return found


def _group(call: Call, found: Ports, reader: JavaReader) -> None:
    name = call.name.removeprefix("addNonInteractive").removeprefix("add")
    if "PortGroup" not in name or not call.args:
        return
    id_ = call.args[0] if isinstance(call.args[0], str) else ""
    given = call.args[1:]
    sides = [found.inputs, found.outputs]
    sides = sides[:1] if "InputPort" in name else sides[1:] if "OutputPort" in name else sides
    for side in sides:
        side += _grouped(name, id_, given, found, reader)


def _grouped(name: str, id_: str, given: list[Any], found: Ports, reader: JavaReader) -> list[PortFact]:
    if name.startswith("Fixed"):
        return [_port(entry, reader) for entry in _flat(given)]
    if name.startswith("Bound"):
        bound = [arg for arg in given if isinstance(arg, str)]
        partner = next(
            (port for port in (*found.inputs, *found.outputs) if bound and port.group == bound[0]), None
        )
        kind = partner.type if partner is not None else None
        number = next((arg for arg in given if isinstance(arg, int)), 0)
        minimum = number if "WithDefault" in name else 0
        numbers = [arg for arg in given if isinstance(arg, int)]
        minimum = sum(numbers)
        return [
            PortFact(kind, id_, optional=minimum == 0, group=id_, count=minimum, addable=True,
                     accepts=[kind] if kind else [])
        ]  # fmt: skip
    with_default = "WithDefault" in name
    lists = [arg for arg in given if isinstance(arg, list)]
    if name.startswith("Extendable"):
        # (id, [fixed,] [default,] supported…): lists of types come first, the supported ones last.
        ahead = lists if lists and any(not isinstance(arg, list) for arg in given) else lists[:-1]
        if with_default and given and not isinstance(given[0], list):
            ahead = [[given[0]], *ahead]
        rest = [arg for arg in given if not any(arg is entry for entry in ahead)]
        if with_default and rest and rest[0] is given[0]:
            rest = rest[1:]
        fixed = [_port(entry, reader) for entries in ahead for entry in entries]
        supported = _supported(rest, reader)
        kind = next((port.type for port in fixed), supported[0] if supported else None)
        return [
            PortFact(
                kind, id_, optional=not fixed, group=id_, count=len(fixed), addable=True, accepts=supported
            )
        ]
    if name.startswith("Optional"):
        default = _port(given[0], reader) if with_default and given else None
        supported = _supported(given[1:] if with_default else given, reader)
        kind = default.type if default else supported[0] if supported else None
        return [PortFact(kind, id_, optional=True, group=id_, count=int(with_default), addable=True,
                         accepts=supported)]  # fmt: skip
    if name.startswith("Exchangeable"):
        default = _port(given[0], reader)
        default.group, default.accepts = id_, _supported(given[1:], reader)
        return [default]
    return []


def _supported(given: list[Any], reader: JavaReader) -> list[str]:
    if any(isinstance(arg, (Lambda, MethodRef)) for arg in given):
        return [ANY]
    found = [kind for kind, _ in (port_type(entry, reader) for entry in _flat(given)) if kind]
    return list(dict.fromkeys(found))


def _flat(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _flat(value) if isinstance(value, list) else [value]
    return found
