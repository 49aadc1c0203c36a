"""What a document says of its servers under ``publish``: what of theirs its own clients get, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ..client.protocol.tools import ABSENT
from ..types.errors import SettingInvalid
from ..yaml_text import LIST, MAPPING, TRUTH, Fields, as_list, as_mapping, did_you_mean, one_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..yaml_text import Findings, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Names or URIs by patterns with ``*``, ``?`` and ``[]``, as in a shell."""

    only: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        def fits(patterns: tuple[str, ...]) -> bool:
            return any(fnmatchcase(name, pattern) for pattern in patterns)

        return fits(self.only) and not fits(self.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentChange:
    """How an argument of a server's tool is offered."""

    name: str | None = None
    description: str | None = None
    default: Any = ABSENT
    value: Any = ABSENT  # what is sent whatever a caller says; it is not offered
    hidden: bool = False  # whether it is neither offered nor sent

    @property
    def is_offered(self) -> bool:
        return self.value is ABSENT and not self.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """How a tool of a server is offered; what is None stays as the server has it."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    annotations: Mapping[str, Any] | None = None
    arguments: Mapping[str, ArgumentChange] = field(default_factory=dict[str, ArgumentChange])
    position: Position | None = field(default=None, compare=False, repr=False)

    def described(self, raw: Mapping[str, Any], name: str) -> dict[str, Any]:
        """A tool as MCP lists it, from what its server lists.

        Raises `SettingInvalid` if the change does not fit the tool's arguments.
        """
        changed = {"title": self.title, "description": self.description, "annotations": self.annotations}
        own = {key: value for key, value in changed.items() if value is not None}
        schema = self._schema(as_mapping(raw.get("inputSchema")))
        # The document makes calls, not tasks; and `_meta` is between the server and its client.
        kept = {key: value for key, value in raw.items() if key not in {"execution", "_meta"}}
        return {**kept, **own, "name": name, "inputSchema": schema}

    def sent(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for the server, from those of a caller."""
        theirs = {change.name or name: name for name, change in self.arguments.items()}
        values = {theirs.get(name, name): value for name, value in arguments.items()}
        for name, change in self.arguments.items():
            if change.hidden:
                # A caller may name it all the same, unless the schema forbids more arguments.
                values.pop(name, None)
            elif change.value is not ABSENT:
                values[name] = change.value
            elif change.default is not ABSENT:
                values.setdefault(name, change.default)
        return values

    def _schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        properties = as_mapping(schema.get("properties"))
        for name in self.arguments:
            if name not in properties:
                fix = one_of(name, properties)
                raise SettingInvalid(f"it has no argument '{name}'", setting="arguments", fix=fix)
        offered: dict[str, Any] = {}
        required = [name for name in as_list(schema.get("required")) if isinstance(name, str)]
        for name, described in properties.items():
            change = self.arguments.get(name, ArgumentChange())
            if change.hidden and name in required:
                what = f"it requires the argument '{name}', which is hidden"
                raise SettingInvalid(what, setting="arguments", fix="Give it a 'value' instead")
            is_optional = not change.is_offered or change.default is not ABSENT
            required = [
                change.name or name if other == name else other
                for other in required
                if other != name or not is_optional
            ]
            if change.is_offered:
                offered[change.name or name] = _described(described, change)
        changed = {"properties": offered, "required": required}
        return {**schema, **{key: value for key, value in changed.items() if key in schema}}


def _described(schema: Any, change: ArgumentChange) -> Any:
    if change.description is None and change.default is ABSENT:
        return schema
    own = {} if change.description is None else {"description": change.description}
    own |= {} if change.default is ABSENT else {"default": change.default}
    return {**as_mapping(schema), **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What clients of a document get of one of its servers; what is None they do not get."""

    prefix: str = ""  # of the names of tools and prompts
    tools: Selection | None = None
    changes: Mapping[str, ToolChange] = field(default_factory=dict[str, ToolChange])  # by the server's names
    resources: Selection | None = None
    prompts: Selection | None = None
    questions: bool = False  # whether the server can ask the client of a call: elicitation, sampling
    logs: bool = False  # whether what it logs during a call goes to the client
    position: Position | None = field(default=None, compare=False, repr=False)

    @property
    def goes_on(self) -> bool:
        """Whether something that the server says during a call goes on to the call's client."""
        return self.questions or self.logs


def read_publications(
    findings: Findings, raw: Mapping[str, Any], servers: Collection[str], own_tools: Collection[str]
) -> dict[str, Publication]:
    """The publications of a document, by server; problems are in the findings."""
    found: dict[str, Publication] = {}
    # Only names that the document gives can be checked: servers are not asked when it is read.
    taken = dict.fromkeys(own_tools, "of the document")
    for server, written in as_mapping(raw.get("publish")).items():
        path = ("publish", server)
        if server not in servers:
            findings.error(f"there is no server '{server}' to publish", path, did_you_mean(server, servers))
        fields = findings.fields(written, path)
        if fields is None:
            continue
        found[server] = _publication(findings, fields)
        for name, change in found[server].changes.items():
            own = f"{found[server].prefix}{change.name}"
            if change.name is not None and own in taken:
                message = f"there is a tool '{own}' already, {taken[own]}"
                findings.error(message, (*path, "tools", "change", name, "name"), "Choose another name")
            elif change.name is not None:
                taken[own] = f"of the server '{server}'"
    return found


def _publication(findings: Findings, fields: Fields) -> Publication:
    written = fields.get("tools", TRUTH, LIST, MAPPING, default=None)
    inner = fields.inside("tools") if isinstance(written, dict) else None
    changes = {} if inner is None else _changes(findings, inner)
    publication = Publication(
        prefix=fields.optional_text("prefix") or "",
        tools=_selection(fields, "tools", inner),
        changes=changes,
        resources=_selection(fields, "resources"),
        prompts=_selection(fields, "prompts"),
        questions=fields.get("questions", TRUTH, default=False),
        logs=fields.get("logs", TRUTH, default=False),
        position=fields.position,
    )
    fields.end()
    for name in changes:
        if publication.tools is not None and not publication.tools.takes(name):
            message = f"the tool '{name}' is changed, but not published"
            findings.warn(message, (*fields.path, "tools", "change", name), "See 'only' and 'except'")
    return publication


def _selection(fields: Fields, key: str, inner: Fields | None = None) -> Selection | None:
    written = fields.get(key, TRUTH, LIST, MAPPING, default=None)
    if isinstance(written, list):
        return Selection(only=tuple(fields.texts(key)))
    if not isinstance(written, dict):
        return Selection() if written else None
    inner = inner or fields.inside(key)
    selection = Selection(
        only=tuple(inner.texts("only", default=["*"])), without=tuple(inner.texts("except", []))
    )
    inner.end()
    return selection


def _changes(findings: Findings, tools: Fields) -> dict[str, ToolChange]:
    changes: dict[str, ToolChange] = {}
    for name, written in tools.mapping("change", default=None).items():
        fields = findings.fields(written, (*tools.path, "change", name))
        if fields is None:
            continue
        arguments = {
            argument: _argument(inner)
            for argument, raw in fields.mapping("arguments", default=None).items()
            if (inner := findings.fields(raw, (*fields.path, "arguments", argument))) is not None
        }
        changes[name] = ToolChange(
            name=fields.optional_text("name"),
            title=fields.optional_text("title"),
            description=fields.optional_text("description"),
            annotations=fields.get("annotations", MAPPING, default=None),
            arguments=arguments,
            position=fields.position,
        )
        fields.end()
    return changes


def _argument(fields: Fields) -> ArgumentChange:
    change = ArgumentChange(
        name=fields.optional_text("name"),
        description=fields.optional_text("description"),
        default=fields.get("default", default=ABSENT),
        value=fields.get("value", default=ABSENT),
        hidden=fields.get("hidden", TRUTH, default=False),
    )
    if not change.is_offered and (change.name, change.description, change.default) != (None, None, ABSENT):
        fields.misfit("an argument with a 'value', or a hidden one, is not offered", fields.path)
    fields.end()
    return change
