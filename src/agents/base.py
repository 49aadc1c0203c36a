"""The node *MCP Agent Prompter*: a model that calls workflow tools and MCP tools from one column.

Here are only the dialog, the ports, and the calls of the modules that do the work. The node keeps no state
between KNIME's calls, and loads heavy imports only in `execute`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import knime.extension as knext

from ..client.limits import Timeouts
from ..tools.audit_workflow import save_after_run
from ..tools.node_settings import connection, shared_parameters
from ..types.columns import choose_form, column_name, knime_type
from ..types.errors import MCPError
from . import agent_settings as settings
from .model.chat_model_ports import model_input

if TYPE_CHECKING:
    from pathlib import Path

    from ..tools.node_settings.connection import Sessions
    from .agent_events import AgentOptions
    from .prompter.conversation_table import ConversationLayout, ConversationRow
    from .prompter.prompter import Prompt, Prompter, PromptRuns


@knext.node(
    name="MCP Agent Prompter",
    node_type=knext.NodeType.PREDICTOR,
    icon_path="icons/agent.png",
    category="/community/mcp",
    id="mcp_agent_prompter",
    after="openai_compatible_chat_model",
    keywords=["MCP", "Model Context Protocol", "agent", "tool", "LLM", "GenAI", "AI", "prompt", "chat"],
)
@model_input
@settings.tools_input
@knext.input_table(
    "Conversation history",
    "Optional: the *Conversation* of an agent, which this one goes on with. With a prompt column and a column"
    " *Input row*, each prompt goes on with its own.",
    optional=True,
)
@knext.input_table_group(
    "Data inputs",
    "Tables that workflow tools can take. The model sees names, columns and types, not the data. With a"
    " prompt column the first of them holds the prompts.",
)
@shared_parameters.credential_port("the MCP server whose tools name no credential of their own.")
@knext.output_table(
    "Conversation",
    "What was said: prompt, answers of the model, its tool calls and their results, without the system"
    " message. With a prompt column, *Input row* is the RowID of its prompt.",
)
@knext.output_table(
    "Tool calls",
    "Every tool call, in the order in which they ended: tool, server, arguments as sent, status, the whole"
    " result, errors, times, and the hashes that prove that nobody changed a row.",
)
@knext.output_table(
    "Answers",
    "One row per prompt: how it ended, the answer, with an *Answer schema* a column for each part of it,"
    " error, tokens and seconds. With a prompt column they are appended to the columns of that table.",
)
@knext.output_table_group(
    "Data outputs",
    "The tables that tools produced last, one per port, in the order in which they were produced.",
)
@knext.output_view("Timeline", "The run: prompt, turns of the model, tool calls with results, answer.")
class MCPAgentPrompter:
    """Lets a chat model answer a prompt with the help of tools: KNIME workflows and tools on MCP servers.

    The model gets the prompt and the definitions of the tools, asks for calls, gets their results, and so on
    until it answers.

    **How to use it**

    - Connect an *OpenAI-Compatible Chat Model Connector*.
    - Connect tools: the *Tools* output of an *MCP Tool Provider*, a *Workflow to Tool* node, or both through
      *Concatenate*.
    - Enter the question or task under *User message*. For many prompts, connect a table to *Data inputs* and
      choose the *Prompt column*: each row is a conversation of its own.
    - For an answer in columns instead of a text, say under *Answer schema* what it consists of.
    - To go on with a conversation, connect the *Conversation* of one agent to the *Conversation history* of
      the next.

    **When something goes wrong**

    Tools that fail do not fail the node: the model is told what went wrong and what would help, and one
    warning on the node counts the calls. Errors of the agent itself (no answer from the model, a limit that
    is reached) fail the node; with a prompt column they become rows of their prompts. After a run of many
    prompts that you canceled, that was killed, or in which some failed, *Resume an interrupted run* asks only
    for what was not answered.

    **Data**

    The model does not see your tables, only which there are. It hands them to workflow tools by id. Tables
    that tools give back get ids, too, and so do lists of records that MCP tools return; the last ones are the
    node's *Data outputs*.

    **Many tools, long results**

    Where the definitions of all tools would take too much of the model's context, it searches for the tools
    that it needs. A result that is too long is cut for the model, which can read on; *Tool calls* has all of
    it.

    **Control and proof**

    *Rules for calls* says which calls may be made. Every call is written to a journal in the workflow's data
    area as it ends, chained by hashes; the last hash is handed on as flow variable `mcp_audit_head`. *Save
    audit workflow to* makes a workflow of the calls, with one *MCP Tool Caller* each.
    """

    developer_message = settings.developer_message
    user_message = settings.user_message
    prompt_column = settings.prompt_column
    answer_schema = settings.answer_schema

    rules = settings.rules
    trusted_servers = settings.trusted_servers
    tool_column = shared_parameters.tool_column(settings.TOOLS)
    pinning = shared_parameters.pinning()
    debug = settings.debug

    prompt_concurrency = settings.prompt_concurrency

    recursion_limit = settings.recursion_limit
    recursion_limit_handling = settings.recursion_limit_handling
    call_limit = settings.call_limit
    token_budget = settings.token_budget
    time_limit = settings.time_limit

    resume = settings.resume

    secret_arguments = settings.secret_arguments
    save_audit_workflow_to = shared_parameters.save_audit_workflow_to()

    connect_timeout = Timeouts().connect  # who takes longer to connect is down
    idle_timeout = shared_parameters.idle_timeout()
    total_timeout = shared_parameters.total_timeout()

    shared_parameters.headings(
        Prompt=[developer_message],
        Tools=[rules],
        Rows=[prompt_concurrency],
        Limits=[recursion_limit],
        Errors=[resume],
        Audit=[secret_arguments],
        Advanced=[idle_timeout],
    )
    for _setting in (prompt_column, prompt_concurrency):
        _setting.rule(
            knext.DialogContextCondition(shared_parameters.is_connected(settings.DATA)), knext.Effect.SHOW
        )
    tool_column.rule(
        knext.DialogContextCondition(shared_parameters.is_connected(settings.TOOLS)), knext.Effect.SHOW
    )
    del _setting

    def configure(
        self,
        ctx: Any,
        model: Any,
        tools: Any,
        history: Any,
        data: list[Any],
        credential: Any,  # noqa: ARG002
    ) -> Any:
        """Checks the settings and promises the columns; makes no connection."""
        try:
            if model is not None:
                model.check(ctx)
            settings.check(self, tools, history, data)
            conversation = settings.layout_of(self, history).schema()
            rows = data[0] if settings.prompt_column_of(self) is not None else None
            answers = settings.answers_layout(self, rows).schema(rows)
            # Which tables tools will give shows only when they are called.
            return conversation, calls_schema(), answers, [None] * data_outputs(ctx)
        except MCPError as error:
            raise connection.as_setting_error(error) from None

    def execute(
        self, ctx: Any, model: Any, tools: Any, history: Any, data: list[Any], credential: Any
    ) -> Any:
        """Answers the prompts."""
        from ..audit.calls_table import calls_table
        from ..audit.journal import SUFFIX
        from ..runs.resuming import (
            latest_to_resume,
            learn_unknown,
            may_change,
            taken_as_complete,
            unknown_calls,
        )
        from ..runs.saved_files import BlobStore
        from .prompter.prompter import PromptRuns
        from .prompter.resuming import FinishedPrompts

        layout = settings.layout_of(self, None if history is None else history.schema)
        prompts, tables = self._prompts(layout, history, data)
        folder, about, opened = connection.data_area(ctx), self._about(ctx), connection.opening(ctx)
        ctx.set_progress(0.0, "starting")
        with (
            latest_to_resume(folder / connection.JOURNALS, about, opened)
            if self.resume
            else nullcontext() as interrupted,
            self._sessions(ctx, credential) as sessions,
        ):
            run = sessions.run
            path = folder / connection.JOURNALS / f"{run.id}{SUFFIX}"
            finished = FinishedPrompts(path, run.id, interrupted, outputs=data_outputs(ctx))
            run.save_blob = BlobStore(folder, run.id).save
            prompter = prompter_of(self, ctx, model, tools, tables, sessions)
            what = {"kind": "agent", "opened": opened, "question": self.user_message}
            what |= prompter.described()
            run.open_journal(path, about=about, what=what, follows=interrupted.head if interrupted else "")
            if interrupted is not None:
                # Before any call: those whose outcome is unknown must not be made a second time.
                learn_unknown(unknown_calls(interrupted), run)
            remark = taken_as_complete(interrupted)
            runs = PromptRuns(
                prompter=prompter,
                keep_errors=layout.per_row,
                outputs=data_outputs(ctx),
                concurrency=self.prompt_concurrency,
                finished=finished,
                notes={remark: None} if remark else {},
            )
            saved = self._run_prompts(ctx, runs, prompts, sessions)
        if not runs.failures:
            if any(map(may_change, runs.calls())):  # see `latest_to_resume`
                finished.keep_until_next(about)
            else:
                finished.forget()
        warning = " ".join(filter(None, (runs.warning(), saved))) or None
        if warning:
            ctx.set_warning(warning)
        return (
            to_table(layout.table(runs.entries)),
            to_table(calls_table(runs.calls(), form=choose_form("auto"))),
            self._answers(runs, data),
            runs.data(),
            knext.view_html(self._page(model, runs, warning, path)),
        )

    def _sessions(self, ctx: Any, credential: Any) -> connection.Sessions:
        return connection.Sessions(
            ctx,
            credential,
            connection.timeouts_from_settings(self),
            pinning=self.pinning,
            # The default mode, as in KNIME's own agent: the output tables stay readable.
            workflow_mode="DEBUG" if self.debug else "DEFAULT",
            secret_arguments=self.secret_arguments,
        )

    def _run_prompts(
        self, ctx: Any, runs: PromptRuns, prompts: list[Prompt], sessions: connection.Sessions
    ) -> str | None:
        """Answers the prompts, ends the journal, and returns what is to be told of the saved workflow."""
        run = sessions.run
        try:
            runs.run(prompts, is_canceled=ctx.is_canceled, on_progress=ctx.set_progress)
            # Failed, it can be resumed. Its head is that of the journal with its end.
            run.close("failed" if runs.failures else "complete")
        finally:
            sessions.stop.set()
            ctx.flow_variables["mcp_audit_head"] = "" if run.journal is None else run.journal.anchor
            question, answer = runs.question_and_answer()
            saved = save_after_run(
                runs.prompter.records,
                self.save_audit_workflow_to,
                connection.data_area(ctx),
                run.id,
                question=question,
                answer=answer,
            )
        return saved

    def _about(self, ctx: Any) -> str:
        """Identifies this node's runs among the journals of a workflow."""
        from hashlib import sha256

        from ..types.texts import canonical_json

        asked = [self.developer_message, self.user_message, self.prompt_column, self.answer_schema]
        digest = sha256(canonical_json([connection.place_in_workflow(ctx), *asked]).encode()).hexdigest()
        return f"mcp_agent_prompter {digest[:16]}"

    def _prompts(
        self, layout: ConversationLayout, history: Any | None, data: list[Any]
    ) -> tuple[list[Prompt], list[Any]]:
        """The prompts, and the tables that are for tools."""
        from .prompter.conversation_table import of_row, read_conversation
        from .prompter.prompter import Prompt

        entries: list[ConversationRow] = []
        if history is not None:
            entries = read_conversation(history, layout.column)
        text = self.user_message.strip()
        column = settings.prompt_column_of(self)
        if column is None:
            return [Prompt(text=text, history=tuple(of_row(entries, None)))], data
        cells = data[0][[column]].to_pyarrow()
        prompts = [
            Prompt(
                text=None if cell is None else "\n\n".join(part for part in (text, cell) if part.strip()),
                row=row,
                history=tuple(of_row(entries, row)),
            )
            # The first column of a table of KNIME's is that of its RowIDs.
            for row, cell in zip(cells.column(0).to_pylist(), cells.column(1).to_pylist(), strict=True)
        ]
        # The table of the prompts is not for tools.
        return prompts, data[1:]

    def _answers(self, runs: PromptRuns, data: list[Any]) -> Any:
        if settings.prompt_column_of(self) is None:
            return to_table(settings.answers_layout(self, None).table(runs.entries))
        layout = settings.answers_layout(self, data[0].schema)
        return knext.Table.from_pyarrow(layout.table(runs.entries, data[0].to_pyarrow()), row_ids="keep")

    def _page(self, model: Any, runs: PromptRuns, warning: str | None, journal: Path) -> str:
        from .timeline_page import timeline_page

        model_settings = model.spec.settings
        resumed = runs.finished.resumed if runs.finished else 0
        facts = (
            ("Model", f"{model_settings.model} at {model_settings.base_url}"),
            ("Taken over from the interrupted run", f"{resumed} prompts" if resumed else None),
            ("Journal", str(journal)),
        )
        return timeline_page(runs.timelines, warning=warning, facts=facts)


def prompter_of(
    node: Any, ctx: Any, model: Any, tools: Any | None, tables: list[Any], sessions: Sessions
) -> Prompter:
    """The agent that the settings of a node describe. Looks up credentials, so call it in KNIME's thread."""
    from ..tools.node_settings.connection import routes_of
    from .prompter.prompter import Prompter
    from .toolbox.call_rules import CallLimits, CallRules
    from .toolbox.tool_executor import TOOL_TOKENS, ToolOptions
    from .toolbox.toolset import Toolset, extract_tools

    tool_list = [] if tools is None else extract_tools(tools, node.tool_column)
    sessions.know(*routes_of(tool_list))
    chat_model = model.create_model(ctx)
    sessions.run.secrets.learn(chat_model.secrets)
    options = ToolOptions(
        rules=CallRules.parse(node.rules, node.trusted_servers),
        limits=CallLimits.parse(node.call_limit),
        search_above=TOOL_TOKENS,
    )
    return Prompter(
        model=chat_model,
        toolset=Toolset(tool_list),
        run=sessions.run,
        options=_options(node),
        tool_options=options,
        system_message=node.developer_message,
        data=tables,
        to_table=to_table,
        questions=sessions.questions,
    )


def _options(node: Any) -> AgentOptions:
    from .agent_events import AgentOptions
    from .answer_schema import AnswerSchema

    return AgentOptions(
        iteration_limit=node.recursion_limit,
        answer_at_limit=node.recursion_limit_handling == settings.LimitHandling.FINAL_RESPONSE.name,
        answer_schema=AnswerSchema.parse(node.answer_schema),
        total_timeout=settings.time_limit_of(node),
        token_limit=settings.token_limit_of(node),
    )


def calls_schema() -> Any:
    from ..audit.calls_table import COLUMNS
    from ..types.columns import knime_columns

    form = choose_form("auto")
    columns = knime_columns((name, kind) for name, _, kind in COLUMNS)
    return knext.Schema.from_columns([knext.Column(knime_type(form), column_name(form)), *columns])


def data_outputs(ctx: Any) -> int:
    # The group of the data outputs is the last port.
    return ctx.get_connected_output_port_numbers()[-1]


def to_table(data: Any) -> Any:
    return knext.Table.from_pyarrow(data, row_ids="generate")
