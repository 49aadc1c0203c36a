"""The node *MCP Agent Chat*: an agent that a person talks to in the node's view.

KNIME makes the view's service from the inputs and the settings, and in a process of its own, which knows
neither the workflow's folder nor what the node has given out. What was said leaves the service as *view
data*: KNIME fetches them when the node is executed again, and hands them to `execute` and the next service,
if the view has asked for it. In all other cases it is found in the chat's own folder, whose name `execute`
leaves among the settings: KNIME keeps what a node sets there while the workflow is open.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ..client.limits import Timeouts
from ..tools.node_settings import connection, shared_parameters
from ..types.errors import MCPError
from . import agent_settings as settings
from .base import calls_schema, data_outputs, prompter_of, to_table
from .model.chat_model_ports import model_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..runs.server_questions import ServerQuestions
    from ..tools.node_settings.connection import Sessions
    from .prompter.conversation_table import ConversationLayout, ConversationRow
    from .prompter.prompter import Prompter

PAGE: Final = "views/agent_chat"
"""The folder of the view's files in the extension."""
ASK_FIRST: Final = "ask * if not read-only"


class AskFirst(knext.EnumParameterOptions):
    changes = (
        "Calls that may change something",
        "You are asked before each call that no rule decides about, unless a trusted server says that the"
        " tool only reads.",
    )
    rules = ("What the rules say", "You are asked only where a rule says `ask`. Other calls are made.")


class ReexecutionTrigger(knext.EnumParameterOptions):
    """When the node is executed again. The names are KNIME's."""

    NONE = ("With the button", "*Hand on* in the view gives the conversation to the nodes behind this one.")
    INTERACTION = ("After each answer", "The node is executed again after each answer.")


@knext.node(
    name="MCP Agent Chat",
    node_type=knext.NodeType.VISUALIZER,
    icon_path="icons/chat.png",
    category="/community/mcp",
    id="mcp_agent_chat",
    after="mcp_agent_prompter",
    keywords=["MCP", "Model Context Protocol", "agent", "chat", "tool", "LLM", "GenAI", "AI", "widget"],
)
@model_input
@settings.tools_input
@knext.input_table(
    "Conversation history",
    "Optional: the *Conversation* of an agent, which this one goes on with.",
    optional=True,
)
@knext.input_table_group(
    "Data inputs",
    "Tables that workflow tools can take. The model sees names, columns and types, not the data.",
)
@shared_parameters.credential_port("the MCP server whose tools name no credential of their own.")
@knext.output_table("Conversation", "What was said, with the model's tool calls and their results.")
@knext.output_table(
    "Tool calls",
    "Every tool call, in the order in which they ended: tool, server, arguments as sent, what was decided and"
    " by whom, status, result, errors, times, and the hashes that prove that nobody changed a row.",
)
@knext.output_table_group("Data outputs", "The tables that tools produced last, one per port.")
@knext.output_view(
    "Chat", "The conversation with the agent.", static_resources=PAGE, index_html_path="index.html"
)
class MCPAgentChat:
    """A chat with a model that may call tools, KNIME workflows and tools on MCP servers, and asks you first.

    Open the view and write. The answer appears while the model writes it, and each tool call is a card: its
    server, arguments, result, time, and who decided about it. Before a call that may change something you
    allow it, deny it, or edit its arguments. *Stop* ends an answer.

    **How to use it**

    - Connect an *OpenAI-Compatible Chat Model Connector*, and the *Tools* of an *MCP Tool Provider*.
    - Execute the node and open its view. In a component, the view is a chat for a data app.
    - *Hand on* in the view executes the node again: then *Conversation* and *Tool calls* have what was said
      and done. So they do after each other execution, also if the node was reset, the view closed, or KNIME
      ended while a call was waiting. *Start over* in the view forgets the conversation.

    **Without a person**

    *Questions* are asked one after the other when the node is executed and nobody has talked to it. What a
    person would have to decide is denied then. The view offers the same questions as buttons.

    **Control and proof**

    *Rules for calls* are stronger than what you allow in the view: a call that they deny is not made. Every
    call is in a journal before you see its result. While you talk it lies with the conversation in your own
    folder of `knime-mcp` (`chats`), which nobody else can read. Executing the node brings it into the
    workflow's data area, and its hash is the flow variable `mcp_audit_head`.
    """

    developer_message = settings.developer_message
    questions = knext.MultilineStringParameter(
        "Questions",
        "Questions to begin with, one per line. The view offers them as buttons. If the node is executed and"
        " nobody has talked to it yet, they are asked one after the other, without a person.",
        default_value="",
        number_of_lines=3,
    )

    rules = settings.rules
    ask_first = knext.EnumParameter(
        "Ask me before",
        "Which calls you decide about in the view, after *Rules for calls*.",
        default_value=AskFirst.changes.name,
        enum=AskFirst,
        is_advanced=True,
    )
    trusted_servers = settings.trusted_servers
    tool_column = shared_parameters.tool_column(settings.TOOLS)
    pinning = shared_parameters.pinning()

    recursion_limit = settings.recursion_limit
    call_limit = settings.call_limit
    token_budget = settings.token_budget
    time_limit = settings.time_limit

    reexecution_trigger = knext.EnumParameter(
        "Re-execution trigger",
        "When the outputs get what was said in the view.",
        default_value=ReexecutionTrigger.NONE.name,
        enum=ReexecutionTrigger,
        style=knext.EnumParameter.Style.VALUE_SWITCH,
        is_advanced=True,
    )

    secret_arguments = settings.secret_arguments

    chat = knext.StringParameter(
        "Chat",
        "The folder of what was said in the view, which the node sets.",
        default_value="",
        is_advanced=True,
    )
    chat.rule(knext.DialogContextCondition(lambda _: True), knext.Effect.HIDE)

    connect_timeout = Timeouts().connect
    idle_timeout = shared_parameters.idle_timeout()
    total_timeout = shared_parameters.total_timeout()

    # What it shares with *MCP Agent Prompter* has its headings there.
    shared_parameters.headings(Output=[reexecution_trigger], Advanced=[idle_timeout])

    # What *MCP Agent Prompter* lets people choose, and a chat does not.
    prompt_column = connection.NO_COLUMN
    answer_schema = ""
    recursion_limit_handling = settings.LimitHandling.FINAL_RESPONSE.name

    tool_column.rule(
        knext.DialogContextCondition(shared_parameters.is_connected(settings.TOOLS)), knext.Effect.SHOW
    )

    def configure(
        self,
        ctx: Any,
        model: Any,
        tools: Any,
        history: Any,
        data: list[Any],  # noqa: ARG002
        credential: Any,  # noqa: ARG002
    ) -> Any:
        """Checks the settings and promises the columns; makes no connection."""
        try:
            if model is not None:
                model.check(ctx)
            settings.check_calls(self, tools)
            conversation = settings.layout_of(self, history).schema()
            return conversation, calls_schema(), [None] * data_outputs(ctx)
        except MCPError as error:
            raise connection.as_setting_error(error) from None

    def execute(
        self, ctx: Any, model: Any, tools: Any, history: Any, data: list[Any], credential: Any
    ) -> Any:
        """Gives out what was said in the view; if nothing was, asks the questions."""
        from ..audit.calls_table import calls_table
        from ..tools.node_settings.connection import JOURNALS, data_area, place_in_workflow
        from ..types.columns import choose_form
        from .chat.chat_service import HandedOn, hosts_table
        from .chat.kept_chat import ChatFolder, KeptChat

        outputs = data_outputs(ctx)
        journals = data_area(ctx) / JOURNALS
        folder = ChatFolder.of_node(data_area(ctx).parent, place_in_workflow(ctx))
        self.chat = folder.name
        said = getattr(ctx, "_get_view_data", lambda: None)()
        shown = HandedOn(conversation=None, calls=()) if said is None else HandedOn.read(said)
        kept = folder.read() or KeptChat()
        if said is not None:
            kept = folder.joined(kept, self._history(shown.conversation)[1], shown.journal)
        if not (kept.entries or kept.journals):
            conversation, calls, tables = self._ask_questions(ctx, model, tools, history, data, credential)
        else:
            layout, _ = self._history(history)
            conversation = to_table(layout.table(kept.entries))
            told = folder.told(kept, shown.calls)
            calls = to_table(calls_table(told.calls, form=choose_form("auto")))
            tables = [hosts_table(table) for _, table in shown.tables or kept.tables]
            tables = tables[-outputs:] if outputs else []
            folder.give_journals(kept, journals)
            ctx.flow_variables["mcp_audit_head"] = told.head
            if warning := "\n".join(filter(None, (shown.problem, told.remark))):
                ctx.set_warning(warning)
        return conversation, calls, (tables + [to_table(_nothing()) for _ in range(outputs)])[:outputs]

    def get_data_service(
        self, ctx: Any, model: Any, tools: Any, history: Any, data: list[Any], credential: Any
    ) -> Any:
        """The service behind the view; a service that says what is wrong if there can be no chat."""
        from ..audit.journal import SUFFIX
        from ..audit.journal_lines import JournalError
        from ..runs.server_questions import ServerQuestions
        from .chat.chat_service import ChatService, HandedOn
        from .chat.chat_session import ChatSession
        from .chat.kept_chat import ChatFolder, KeptChat

        said = getattr(ctx, "_get_view_data", lambda: None)()
        earlier = HandedOn(conversation=history, calls=()) if said is None else HandedOn.read(said)
        layout, entries = self._history(earlier.conversation)
        # KNIME keeps view data only of a service that has such a workflow, even if nothing is in it.
        make_workflow: Any = getattr(ctx, "_init_combined_tools_workflow", None)
        if make_workflow is not None:  # KNIME 5.9 has two parameters, later versions have three
            make_workflow(*([], "DETACHED", False)[: len(signature(make_workflow).parameters)])
        folder = ChatFolder(self.chat or earlier.chat)
        service = ChatService(
            session=None,
            layout=layout,
            before=KeptChat(entries=entries, tables=earlier.tables),
            calls=earlier.calls,
            chat=folder.name,
            shown={
                "suggestions": self._questions(),
                "hands_on": self.reexecution_trigger == ReexecutionTrigger.INTERACTION.name,
                # KNIME before 5.8 takes nothing from a view.
                "can_hand_on": hasattr(ctx, "_get_view_data"),
                "finds_earlier": bool(folder.name),
            },
        )
        try:
            remark = ""
            if (kept := folder.read()) is not None:
                # What only KNIME can read is in its view data.
                before = replace(kept, tables=earlier.tables or kept.tables)
                told = folder.told(kept, earlier.calls)
                service, remark = replace(service, before=before, calls=told.calls), told.remark
            sessions = self._sessions(ctx, credential, ServerQuestions())
            before = service.before
            prompter = self._prompter(ctx, model, tools, data, sessions, before.entries, before.tables)
            journal = folder.path / f"{sessions.run.id}{SUFFIX}"
            what = {"kind": "chat", **prompter.described()}
            folder.make()
            sessions.run.open_journal(journal, about="mcp_agent_chat", what=what)
        except (MCPError, JournalError, OSError) as error:
            return replace(service, problem=str(error))
        session = ChatSession(
            prompter, before.entries, keep=folder.writer(before, journal.name), remark=remark
        )
        return replace(service, session=session, journal=str(journal))

    def _sessions(self, ctx: Any, credential: Any, questions: ServerQuestions | None = None) -> Sessions:
        from ..tools.node_settings.connection import Sessions

        return Sessions(
            ctx,
            credential,
            connection.timeouts_from_settings(self),
            pinning=self.pinning,
            workflow_mode="DEFAULT",
            secret_arguments=self.secret_arguments,
            questions=questions,
        )

    def _prompter(
        self,
        ctx: Any,
        model: Any,
        tools: Any,
        data: list[Any],
        sessions: Sessions,
        entries: Sequence[ConversationRow],
        tables: Sequence[tuple[str, Any]] = (),
    ) -> Prompter:
        """The agent, whose data stay known from question to question."""
        from .toolbox.call_rules import CallRules
        from .toolbox.data_registry import DataRegistry

        prompter = prompter_of(self, ctx, model, tools, data, sessions)
        # The conversation may name data of an earlier execution,
        # whose ids must not come to mean other tables.
        prompter.registry = DataRegistry(data, to_table=to_table, first=_unused_id(entries))
        for name, table in tables:
            prompter.registry.add(table, name=name, description="From earlier in this conversation")
        prompter.options = replace(prompter.options, stream=True)
        if self.ask_first == AskFirst.changes.name:
            # Behind the rules of the person, of which the first one that fits decides.
            rules = CallRules.parse(f"{self.rules}\n{ASK_FIRST}", self.trusted_servers)
            prompter.tool_options = replace(prompter.tool_options, rules=rules)
        return prompter

    def _history(self, history: Any | None) -> tuple[ConversationLayout, list[ConversationRow]]:
        from .prompter.conversation_table import of_row, read_conversation

        layout = settings.layout_of(self, None if history is None else history.schema)
        return layout, [] if history is None else of_row(read_conversation(history, layout.column), None)

    def _questions(self) -> list[str]:
        return [line.strip() for line in self.questions.splitlines() if line.strip()]

    def _ask_questions(
        self, ctx: Any, model: Any, tools: Any, history: Any, data: list[Any], credential: Any
    ) -> tuple[Any, Any, list[Any]]:
        """Asks the questions one after the other, as in one conversation; what has to be asked is denied."""
        from ..audit.calls_table import calls_table
        from ..audit.journal import SUFFIX
        from ..runs.saved_files import BlobStore
        from ..tools.node_settings.connection import JOURNALS, data_area
        from ..types.columns import choose_form
        from .prompter.prompter import Prompt, PromptRuns

        layout, entries = self._history(history)
        form, questions = choose_form("auto"), self._questions()
        if not questions:
            return to_table(layout.table(entries)), to_table(calls_table([], form=form)), []
        folder, warnings = data_area(ctx), list[str]()
        with self._sessions(ctx, credential) as sessions:
            run = sessions.run
            run.save_blob = BlobStore(folder, run.id).save
            prompter = self._prompter(ctx, model, tools, data, sessions, entries)
            what = {"kind": "chat", "question": "\n".join(questions), **prompter.described()}
            run.open_journal(folder / JOURNALS / f"{run.id}{SUFFIX}", about="mcp_agent_chat", what=what)
            try:
                for question in questions:
                    runs = PromptRuns(prompter=prompter, keep_errors=False)
                    prompt = Prompt(text=question, history=tuple(entries))
                    runs.run([prompt], is_canceled=ctx.is_canceled, on_progress=ctx.set_progress)
                    entries = runs.entries
                    warnings += filter(None, [runs.warning()])
                run.close("complete")
            finally:
                sessions.stop.set()
                ctx.flow_variables["mcp_audit_head"] = "" if run.journal is None else run.journal.anchor
        if warnings:
            ctx.set_warning(" ".join(dict.fromkeys(warnings)))
        assert prompter.registry is not None
        calls = sorted(prompter.records, key=lambda record: record.call)
        tables = prompter.registry.last_tables(data_outputs(ctx)) if prompter.registry.made_tables else []
        return to_table(layout.table(entries)), to_table(calls_table(calls, form=form)), tables


def _unused_id(entries: Sequence[ConversationRow]) -> int:
    """The first id of data that nobody has named in a conversation."""
    from .message_content import text_of
    from .toolbox.data_registry import next_ids

    return next_ids(text_of(entry.message) for entry in entries if entry.message is not None)[0]


def _nothing() -> Any:
    import pyarrow as pa

    return pa.table({})
