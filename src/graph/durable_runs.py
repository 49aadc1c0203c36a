"""Runs that can go on after their process was killed: what a journal says of them beside their calls.

A run notes what it cannot find out again by itself under the place of its node: the replies of servers, the
decisions of people, what time and chance gave, the errors after which it went on. A run that goes on goes
through its graph again, and takes all of this from the journal. A reply stands there before its call counts
as done, so that no call with a reply is made twice. A call that was sent and has no reply is *unknown*.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from ..audit.journal import Journal, JournalWriteError
from ..audit.journal_lines import journal_lines
from ..audit.journal_reading import read_journal
from ..audit.secrets import SecretMarker, marks_in, with_secrets
from ..client.protocol.tools import ABSENT
from ..runs.resuming import learn_unknown, unknown_calls
from ..types.errors import FileFailed
from ..types.texts import canonical_json
from ..yaml_text import as_mapping
from .expressions.javascript import UNDEFINED, json_value
from .graph_model import McpNode, ToolNode, evaluated, with_defaults
from .run_control import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from ..audit.journal import Outcome, SentCall
    from ..audit.journal_reading import JournalContent
    from ..runs.engine import Run
    from .api import McpGraphApi
    from .graph_model import GraphDocument, GraphTool, Node
    from .run_state import RunState

_DIGITS: Final = 16
_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_UNSTEADY: Final = re.compile(r"\$(?:now|millis|random|shuffle|eval)\b")


class CannotGoOn(RunError):  # noqa: N818
    """An interrupted run cannot be gone on with."""

    CODE = "KMCP-GRAPH-RESUME"

    def __init__(self, cause: str, *, fix: str | None = None) -> None:
        super().__init__(cause, kind="resume", fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A value in a journal, with the digests of the secrets that are marks in it, and their salt."""

    value: Any
    salt: str = ""
    digests: tuple[str, ...] = ()

    def restored(self, place: str, known: SecretMarker) -> Any:
        if not self.digests:
            return self.value
        marker = known.salted(bytes.fromhex(self.salt))
        texts = {d: text for d in self.digests for text in known.known if marker.is_same(d, text)}
        if missing := set(self.digests) - texts.keys():
            raise CannotGoOn(
                f"What the run had at '{place}' held {len(missing)} secrets that are not in its journal",
                fix="Run the tool anew; or give the same credentials and secret arguments",
            )
        marks = {p: tuple(d for d in found if d in texts) for p, found in marks_in(self.value).items()}
        return with_secrets(self.value, marks, texts)


@dataclass(slots=True, kw_only=True)
class EarlierGraphRun:
    """A run as a journal has it.

    Attributes:
        hidden: Pointers to the arguments that are secret, and not there.
        document: Digests of what it ran, see `digests_of`.
        outcome: How it ended; None if it was killed, or is still going on.
        noted: What it noted, by place and kind.
    """

    id: str
    tool: str
    arguments: Noted
    hidden: tuple[str, ...]
    document: Mapping[str, str]
    outcome: Outcome | None = None
    noted: dict[tuple[str, str], Noted] = field(default_factory=dict[tuple[str, str], Noted])

    def changes(self, document: GraphDocument) -> list[str]:
        """What is otherwise in a document than when the run began, in words."""
        now, before = digests_of(document, self.tool), self.document
        added = [f"{name} was added" for name in now if name not in before]
        gone = [f"{name} is gone" for name in before if name not in now]
        return [*added, *gone, *(f"{n} changed" for n in now if n in before and now[n] != before[n])]

    def unknown(self, content: JournalContent) -> list[SentCall]:
        """The calls of this run that were sent, and of which nobody knows whether they were carried out."""
        return [
            call
            for call in unknown_calls(content)
            if (row := call.input_row or "").startswith(f"{self.id}/")
            and not self._is_settled(row.removeprefix(f"{self.id}/"))
        ]

    def _is_settled(self, place: str) -> bool:
        """Whether the run has a reply there, or went on after an error there or around it."""
        if (place, "reply") in self.noted or (place, "retried") in self.noted:
            return True
        # An error that was caught around a call has settled it: the run went on without its reply.
        around = [place, *(place[: match.start()] for match in re.finditer(r"\[", place))]
        return any((outer, kind) in self.noted for outer in around for kind in ("error", "retried"))


def earlier_runs(file: Path, notes_of: str | None = None) -> dict[str, EarlierGraphRun]:
    """The runs in a journal, in the order in which they began; one of them with what it noted."""
    found: dict[str, EarlierGraphRun] = {}
    for line in journal_lines(file):
        # By their bytes, as most lines are of other kinds, and parsing is what takes time.
        if line.torn or not any(kind in line.data for kind in _KINDS):
            continue
        entry = line.entry()
        match entry.get("kind"):
            case "graph":
                known = found.get(entry["graph"])
                if known is not None:
                    known.outcome = None  # it was gone on with
                    continue
                found[entry["graph"]] = EarlierGraphRun(
                    id=entry["graph"],
                    tool=entry["tool"],
                    arguments=_noted(entry, "arguments"),
                    hidden=tuple(entry.get("hidden", ())),
                    document=entry["document"],
                )
            case "node" if entry["graph"] == notes_of:
                found[entry["graph"]].noted[entry["place"], entry["part"]] = _noted(entry, "value")
            case "result":
                found[entry["graph"]].outcome = entry["outcome"]
            case _:
                pass
    return found


_KINDS: Final = (b'"kind":"graph"', b'"kind":"node"', b'"kind":"result"')


def _noted(entry: Mapping[str, Any], name: str) -> Noted:
    value = json.loads(entry[name]) if name in entry else UNDEFINED
    hidden = as_mapping(entry.get("secrets"))
    digests = tuple(map(str, cast("list[Any]", hidden.get("digests", []))))
    return Noted(value=value, salt=str(hidden.get("salt", "")), digests=digests)


def digests_of(document: GraphDocument, tool: str) -> dict[str, str]:
    """Digests of the nodes that a run of a tool may come to, of their tools' schemas, and of their servers.

    No secret is in it: of a server it has the place alone.
    """
    found: dict[str, Any] = {}
    waiting = [tool]
    while waiting:
        definition = document.tool(waiting.pop())
        if definition is None or f"tool '{definition.name}'" in found:
            continue
        schemas = {"in": definition.input_schema, "out": definition.output_schema}
        found[f"tool '{definition.name}'"] = canonical_json(schemas)
        for node in definition.nodes:
            # A frozen dataclass, so its `repr` has all that it does and nothing else.
            found[f"node '{node.id}' of the tool '{definition.name}'"] = repr(node)
            if isinstance(node, ToolNode):
                waiting.append(node.tool)
            elif isinstance(node, McpNode):
                from .audited_calls import route_of

                found[f"server '{node.server}'"] = route_of(document.servers[node.server]).url
    return {name: hashlib.sha256(text.encode()).hexdigest()[:_DIGITS] for name, text in found.items()}


class DurableRun:
    """A run of a tool as it is noted in a journal. Safe to use from several threads.

    Args:
        run: Whose journal it is.
        known: The credentials of the document's servers.
        earlier: What it had when it was interrupted.
        repeat_unknown: Whether calls with unknown outcome are made again.
    """

    def __init__(
        self,
        run: Run,
        document: GraphDocument,
        tool: GraphTool,
        arguments: Mapping[str, Any],
        *,
        known: SecretMarker,
        id: str | None = None,  # noqa: A002
        earlier: EarlierGraphRun | None = None,
        repeat_unknown: bool = False,
    ) -> None:
        assert isinstance(run.journal, Journal)
        self.id = id or secrets.token_hex(8)
        self.repeat_unknown = repeat_unknown
        self._journal = run.journal
        self._known = known
        self._noted = {} if earlier is None else earlier.noted
        marked, found = known.marked(arguments, tool.input_schema_json)
        digests = sorted({digest for digests in found.values() for digest in digests})
        self._note(
            "graph",
            tool=tool.name,
            arguments=canonical_json(marked),
            document=digests_of(document, tool.name),
            **({"hidden": sorted(found), "secrets": self._secrets(known, digests)} if digests else {}),
        )

    def end(self, outcome: Outcome) -> None:
        self._note("result", outcome=outcome)

    def row(self, place: str) -> str:
        """What stands in records for a place, in the place of a RowID."""
        return f"{self.id}/{place}"

    def recorded(self, place: str, part: str, run: RunState) -> Any:
        """What the run had at a place when it was interrupted; `ABSENT` if it was not there."""
        noted = self._noted.get((place, part)) if self._noted else None
        return ABSENT if noted is None else noted.restored(place, run.secrets(self._known))

    def keep(self, place: str, part: str, value: Any, run: RunState) -> None:
        """Notes what the run has at a place."""
        counts: Counter[str] = Counter()
        fields: dict[str, Any] = {}
        marker = run.secrets(self._known)
        if value is not UNDEFINED:
            # As a text, in which nothing looks like a member of the line.
            fields["value"] = canonical_json(marker.data(json_value(value), counts))
        if counts:
            fields["secrets"] = self._secrets(marker, sorted(counts))
        self._note("node", place=place, part=part, **fields)

    def keep_reply(self, place: str, reply: Mapping[str, Any], run: RunState) -> None:
        """Notes a server's reply, before its call is on record."""
        try:
            self.keep(place, "reply", reply, run)
        except (JournalWriteError, ValueError) as error:
            failed = FileFailed(f"The server has answered, and its reply could not be noted: {error}")
            failed.may_have_run = True
            raise failed from None

    def steady(self, place: str, node: Node, run: RunState, value: Callable[[], Any]) -> Any:
        """A value that depends on time or chance: the same as before the interruption."""
        # Anything else gives the same again from the same replies, and need not stand in the journal.
        if not any(_UNSTEADY.search(str(text)) for _, text in evaluated(node)):
            return value()
        known = self.recorded(place, "value", run)
        if known is ABSENT:
            known = value()
            self.keep(place, "value", known, run)
        return known

    def has(self, place: str, part: str) -> bool:
        return (place, part) in self._noted

    def error(self, place: str, part: str, run: RunState) -> RunError | None:
        """An error after which the run went on."""
        said = self.recorded(place, part, run)
        if said is ABSENT:
            return None
        names = ("cause", "tool", "node", "kind", "code", "fix", "details")
        return RunError(**{name: said.get(name) for name in names})

    def keep_error(self, place: str, part: str, error: RunError, run: RunState) -> None:
        """Notes an error after which the run goes on."""
        said = {"cause": error.cause, "tool": error.tool, "node": error.node, "kind": error.kind}
        self.keep(place, part, said | {"code": error.code, "fix": error.fix, "details": error.details}, run)

    def _note(self, kind: str, **fields: Any) -> None:
        self._journal.note(kind, {"graph": self.id, **fields})

    def _secrets(self, marker: SecretMarker, digests: list[str]) -> dict[str, Any]:
        return {"salt": marker.salt.hex(), "digests": digests}


def arguments_to_go_on(
    document: GraphDocument,
    earlier: EarlierGraphRun,
    content: JournalContent,
    given: Mapping[str, Any],
    *,
    known: SecretMarker,
    repeat_unknown: bool,
) -> dict[str, Any]:
    """The arguments with which a run goes on; those that are not given are the recorded ones.

    Raises:
        CannotGoOn: The document or the arguments are others, or a call has an unknown outcome.
    """
    tool = document.tool(earlier.tool)
    changes = [] if tool is None else earlier.changes(document)
    if tool is None or changes:
        told = "; ".join(changes) or f"it has no tool '{earlier.tool}' any more"
        raise CannotGoOn(
            f"The run {earlier.id} began with another document: {told}",
            fix="Go on with the document as it was, or run the tool anew",
        )
    unknown = earlier.unknown(content)
    if unknown and not repeat_unknown:
        named = ", ".join(f"{call.tool_name} at {call.input_row}" for call in unknown)
        raise CannotGoOn(
            f"Nobody knows whether these calls were carried out: {named}",
            fix="See at the server whether they were; if not, make them again: option --repeat-unknown, or"
            ' "knime-mcp/repeat-unknown": true in the _meta of a served graph\'s call',
        )
    arguments = {**earlier.arguments.value, **given}
    if missing := [pointer for pointer in earlier.hidden if pointer.split("/")[1] not in given]:
        raise CannotGoOn(
            f"The journal has marks in the place of secret arguments: {', '.join(missing)}",
            fix="Give these arguments again",
        )
    marker = known.salted(bytes.fromhex(earlier.arguments.salt)) if earlier.hidden else known
    # With the salt of the first run: then equal secrets have equal marks, and can be compared unseen.
    if marker.mark(arguments, tool.input_schema_json) != earlier.arguments.value:
        raise CannotGoOn(
            f"The run {earlier.id} has other arguments",
            fix="Give the same ones, or none; or run the tool anew",
        )
    return arguments


class KeptRuns:
    """The runs of a server to which clients gave names, with which they can go on after an interruption.

    Safe to use from several threads.
    """

    def __init__(self, run: Run) -> None:
        assert isinstance(run.journal, Journal)
        self._run, self._file = run, run.journal.path
        known = earlier_runs(self._file)
        self._known = set(known)
        self.interrupted = [one for one in known.values() if one.outcome is None]
        self._active: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def named(
        self, api: McpGraphApi, name: str, tool: str, given: Mapping[str, Any], *, repeat_unknown: bool
    ) -> Generator[tuple[dict[str, Any], DurableRun]]:
        """The arguments of a call and its run, which begins or goes on within the block.

        Raises:
            CannotGoOn: The name is in use, or stands for another call; see `arguments_to_go_on`, too.
        """
        if not _NAME.fullmatch(name):
            raise CannotGoOn("The name of a run has 1 to 64 letters, digits, '-', '_' and '.'")
        with self._lock:
            if name in self._active:
                raise CannotGoOn(f"The run {name} is still going on", fix="Wait for its end")
            is_known = name in self._known
            self._active.add(name)
            self._known.add(name)
        try:
            yield self._begun(api, name, tool, given, is_known=is_known, repeat_unknown=repeat_unknown)
        finally:
            with self._lock:
                self._active.discard(name)

    def _begun(
        self,
        api: McpGraphApi,
        name: str,
        tool: str,
        given: Mapping[str, Any],
        *,
        is_known: bool,
        repeat_unknown: bool,
    ) -> tuple[dict[str, Any], DurableRun]:
        definition = api.document.tool(tool)
        if definition is None:
            raise CannotGoOn(f"Tool not found: {tool}")
        earlier = earlier_runs(self._file, name).get(name) if is_known else None
        arguments = with_defaults(definition.input_schema, given)
        if earlier is not None:
            if earlier.tool != tool:
                raise CannotGoOn(f"The run {name} is one of the tool '{earlier.tool}'")
            content = read_journal(self._file)
            arguments = arguments_to_go_on(
                api.document, earlier, content, arguments, known=api.secrets, repeat_unknown=repeat_unknown
            )
            learn_unknown(earlier.unknown(content), self._run)
        return arguments, api.durable(
            definition, arguments, id=name, earlier=earlier, repeat_unknown=repeat_unknown
        )
