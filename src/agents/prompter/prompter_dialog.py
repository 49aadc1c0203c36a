"""The agent's own settings: their parameters, with descriptions for analysts. `settings_checks` checks them.

The keys that KNIME's Agent Prompter has mean the same here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ...tools.node_settings import shared_parameters
from ...tools.node_settings.connection import NO_COLUMN, chosen_column
from ...tools.node_settings.shared_parameters import column_choices, text_columns
from ...types.columns import AUTO
from ...types.errors import SettingInvalid
from ..agent_events import DATA_PREFIX, LIMIT_PROMPT, SYSTEM_MESSAGE

if TYPE_CHECKING:
    from ..agent_events import TokenBudget
    from .answers_table import AnswersLayout
    from .conversation_table import ConversationLayout


TOOLS, HISTORY, DATA = 1, 2, 3
_LONGEST_RUN: Final = 7 * 24 * 3600.0

tools_input = knext.input_table(
    "Tools",
    "Optional: the tools that the agent may call, from *MCP Tool Provider* and *Workflow to Tool*, both"
    " together through *Concatenate*. Without tools the model only answers.",
    optional=True,
)


class LimitHandling(knext.EnumParameterOptions):
    FAIL = ("Fail", "The prompt fails.")
    FINAL_RESPONSE = (
        "Final response",
        "The model is asked for an answer from what it knows by then, without tools.",
    )


class ToolErrorHandling(knext.EnumParameterOptions):
    model = ("Tell the model", "The model reads what went wrong, and what would help, and goes on.")
    stop = (
        "Stop",
        "The agent stops. What the model can put right at once, such as arguments, does not count.",
    )


class SuspiciousToolHandling(knext.EnumParameterOptions):
    warn = ("Warn", "The model gets the tools, and a warning says what was found.")
    leave_out = ("Leave out", "The model does not get them, and a warning says so.")
    fail = ("Fail", "The node fails.")


class ErrorHandling(knext.EnumParameterOptions):
    """What to do with an error of the agent. The names are KNIME's."""

    FAIL = ("Fail", "The node fails.")
    COLUMN = (
        "Error column",
        "The conversation so far is kept, and a row with the error in a column of its own ends it.",
    )


class ConversationForm(knext.EnumParameterOptions):
    auto = ("Find out", "Message cells where KNIME's AI extension is installed, otherwise text.")
    message = ("Message cells", "One column that KNIME's own agents can go on with.")
    plain = ("Text", "Columns of text: role, text, tool calls.")


def _conversation_columns(specs: list[Any]) -> list[str]:
    from .conversation_history import conversation_columns

    return [] if specs[HISTORY] is None else conversation_columns(specs[HISTORY])


def _prompt_columns(specs: list[Any]) -> list[str]:
    return text_columns(specs[DATA][0]) if specs[DATA] else []


developer_message = knext.MultilineStringParameter(
    "System message",
    "Instructions that the model follows before those of the user: its task, its tone, its limits. Put"
    " nothing here that a stranger wrote.",
    default_value=SYSTEM_MESSAGE,
    number_of_lines=6,
)

user_message = knext.MultilineStringParameter(
    "User message",
    "The question or task. With a *Prompt column* it stands before the text of each row, and may be"
    " empty. Empty also goes on with a conversation whose last message is the user's.",
    default_value="",
    number_of_lines=4,
)

prompt_column = knext.StringParameter(
    "Prompt column",
    "For one prompt per row: the column of the first *Data inputs* table that holds the prompts. Each row"
    " is a conversation of its own, and a row that fails is a row with an error. The table is then not"
    f" offered to tools; further tables are. Choose `{NO_COLUMN}` for a single prompt.",
    default_value=NO_COLUMN,
    choices=column_choices(NO_COLUMN, _prompt_columns),
)

conversation_column = knext.StringParameter(
    "Conversation column",
    "The column of the *Conversation history* that holds the messages: Message cells, or the text beside"
    f" a column *Role*. `{AUTO}` takes the last one that can.",
    default_value=AUTO,
    choices=column_choices(AUTO, _conversation_columns),
)

conversation_column_name = knext.StringParameter(
    "Conversation column name",
    "Name of the column with the messages, if no *Conversation history* is connected.",
    default_value="Conversation",
    is_advanced=True,
)

conversation_form = knext.EnumParameter(
    "Conversation as",
    "How the messages of the *Conversation* are written.",
    default_value=ConversationForm.auto.name,
    enum=ConversationForm,
    style=knext.EnumParameter.Style.VALUE_SWITCH,
    is_advanced=True,
)

answer_schema = knext.MultilineStringParameter(
    "Answer schema",
    "The form that the answer must have: a line such as `price: number, in euros` for each part, with one of"
    " the kinds `text`, `number`, `integer`, `boolean`, `date`, `moment`, `list`, or choices such as `low |"
    " high`; or a JSON schema of an object. Each part is a column of *Answers*. An answer that does not fit"
    " is asked for again; if it never fits, that is an error of its prompt. Empty for any text.",
    default_value="",
    number_of_lines=4,
    is_advanced=True,
)

answer_repairs = knext.IntParameter(
    "Attempts to repair an answer",
    "How many times an answer that does not fit the *Answer schema* is asked for again.",
    default_value=3,
    min_value=0,
    max_value=20,
    is_advanced=True,
)

recursion_limit = knext.IntParameter(
    "Iteration limit",
    "How many times the model may ask for tools, so that it does not go round in circles at your expense."
    " After that it may answer once more; further calls are not made.",
    default_value=25,
    min_value=1,
    max_value=1000,
    is_advanced=True,
)

recursion_limit_handling = knext.EnumParameter(
    "When a limit is reached",
    "What to do if the model still asks for tools then: after the *Iteration limit*, when the *Most tokens*"
    " are used up, or near the end of the *Time limit per prompt*.",
    default_value=LimitHandling.FAIL.name,
    enum=LimitHandling,
    style=knext.EnumParameter.Style.VALUE_SWITCH,
    is_advanced=True,
)

recursion_limit_prompt = knext.MultilineStringParameter(
    "Iteration limit prompt",
    "With what words the model is asked for its final response. They are not part of the *Conversation*.",
    default_value=LIMIT_PROMPT,
    number_of_lines=3,
    is_advanced=True,
)

on_tool_error = knext.EnumParameter(
    "If a tool fails",
    "What to do when a tool, its server or its workflow fails.",
    default_value=ToolErrorHandling.model.name,
    enum=ToolErrorHandling,
    style=knext.EnumParameter.Style.VALUE_SWITCH,
    is_advanced=True,
)

rules = knext.MultilineStringParameter(
    "Rules for calls",
    "Which tools may be called: one rule per line, and the first that fits decides, such as"
    " `deny delete_*`, `allow * @ https://crm.example/*`, `deny * if destructive`. Names and servers may"
    " hold `*`, and a name with blanks stands in quotes; conditions are `read-only`, `destructive`,"
    " `idempotent`, `open-world`, `workflow`, `mcp`, also with `not`, and `after-untrusted`: the model has"
    " read what a server wrote that is not trusted, in this run or in the *Conversation history*; and"
    " comparisons of arguments, such as `deny transfer_* if amount > 100`. With `ask` in place of `deny` a"
    " person decides, where there is one."
    " A call that is denied is not made, and the model is told. Empty allows all.",
    default_value="",
    number_of_lines=4,
    is_advanced=True,
)

secret_arguments = shared_parameters.secret_arguments()

trusted_servers = knext.StringParameter(
    "Trusted servers",
    "Hosts whose own words about their tools (read-only, destructive) count in *Rules for calls*, separated"
    " by commas. The tools of all others count as destructive.",
    default_value="",
    is_advanced=True,
)

suspicious_tools = knext.EnumParameter(
    "Suspicious tools",
    "What to do with tools of servers whose descriptions hold orders to the model, hidden text and the like."
    " The model sees no hidden characters, whatever you choose.",
    default_value=SuspiciousToolHandling.warn.name,
    enum=SuspiciousToolHandling,
    style=knext.EnumParameter.Style.VALUE_SWITCH,
    is_advanced=True,
)

longest_wait = knext.DoubleParameter(
    "Longest wait for the model (s)",
    "The model's service may ask to wait when requests come too fast. All prompts then wait together; if it"
    " asks for more seconds than this, they fail.",
    default_value=120.0,
    min_value=0.0,
    max_value=_LONGEST_RUN,
    is_advanced=True,
)

call_limit = knext.IntParameter(
    "Most tool calls",
    "How many tool calls one prompt may make in all; 0 for no limit. Those beyond it are denied, which the"
    " model is told. The same call that fails three times is not made again in any case.",
    default_value=0,
    min_value=0,
    is_advanced=True,
)

calls_per_tool = knext.StringParameter(
    "Most calls of a tool",
    "How many calls of single tools one prompt may make, such as `search_*: 5, delete_row: 1`.",
    default_value="",
    is_advanced=True,
)

token_budget = knext.IntParameter(
    "Most tokens",
    "How many tokens the model may read and write for one prompt; 0 for no limit. When they are used up, what"
    " is chosen for the iteration limit happens.",
    default_value=0,
    min_value=0,
    is_advanced=True,
)

input_budget = knext.IntParameter(
    "Most tokens read",
    "How many of them the model may read for one prompt; 0 for no limit.",
    default_value=0,
    min_value=0,
    is_advanced=True,
)

output_budget = knext.IntParameter(
    "Most tokens written",
    "How many of them the model may write for one prompt; 0 for no limit.",
    default_value=0,
    min_value=0,
    is_advanced=True,
)

prices = knext.StringParameter(
    "Prices of the model",
    "What a million tokens cost that the model reads, and writes, such as `1.25, 10`.",
    default_value="",
    is_advanced=True,
)

cost_budget = knext.DoubleParameter(
    "Highest cost",
    "What the model may cost for one prompt, by its prices; 0 for no limit.",
    default_value=0.0,
    min_value=0.0,
    is_advanced=True,
)

calls_per_turn = knext.IntParameter(
    "Most calls in one turn",
    "How many tool calls the model may ask for at once. Those beyond it are denied, which it is told.",
    default_value=128,
    min_value=1,
    is_advanced=True,
)

parallel_calls = knext.IntParameter(
    "Calls at a time",
    "How many tools that the model asks for in one turn may run at once. Workflows run one by one.",
    default_value=4,
    min_value=1,
    max_value=64,
    is_advanced=True,
)

prompt_concurrency = knext.IntParameter(
    "Prompts at a time",
    "With a *Prompt column*: how many rows are answered at once. The order of the rows stays. Raise it as"
    " far as the model's service allows; workflows run one by one all the same.",
    default_value=1,
    min_value=1,
    max_value=64,
    is_advanced=True,
)

resume = knext.BoolParameter(
    "Resume an interrupted run",
    "After a run that was canceled or killed, or in which prompts failed: the conversations that it"
    " finished are filled in, and the others go on after the model's last turn. Neither model nor tools are"
    " asked again for what is on record; a call that may have been carried out is not made, and the model is"
    " told so. Row, prompt, history and system message must be the same; the model may be another one. Tables"
    " that MCP tools gave are filled in, those of workflows are not. The same after a run that answered"
    " all, if its calls may have changed something and the workflow was opened anew since, as its tables may"
    " have been lost; a warning says so. Switch it off to ask everything again.",
    default_value=False,
    is_advanced=True,
)

repeat_unknown = knext.BoolParameter(
    "Repeat calls with unknown outcome",
    "A call that was on its way when the interrupted run ended may have been carried out. When resuming, the"
    " model is told so, unless its tool is declared read-only or idempotent. Switch this on to make it again"
    " instead.",
    default_value=False,
    is_advanced=True,
)

tool_budget = knext.IntParameter(
    "Tokens for tools",
    "How much of the model's context the definitions of the tools may take in each turn, about. If they"
    " need more, or are more than the 128 that OpenAI's service takes, the model gets a tool to search for"
    " tools, and then those that it found last.",
    default_value=20_000,
    min_value=0,
    max_value=10_000_000,
    is_advanced=True,
)

result_limit = knext.IntParameter(
    "Characters per result",
    "How much of one result the model gets at once. Of a longer one it sees beginning and end, and can"
    " read on. *Tool calls* has all of it.",
    default_value=20_000,
    min_value=200,
    max_value=10_000_000,
    is_advanced=True,
)

send_images = knext.BoolParameter(
    "Show images to the model",
    "Sends the images that tools return. Switch it off for models that take text only.",
    default_value=True,
    is_advanced=True,
)

time_limit = knext.DoubleParameter(
    "Time limit per prompt (s)",
    "How long the answer to one prompt may take in all, in seconds. 0 for no limit. With *Final response* the"
    " last fifth of it, and at most a minute, is kept for an answer from what is known by then.",
    default_value=0.0,
    min_value=0.0,
    max_value=_LONGEST_RUN,
    is_advanced=True,
)

data_message_prefix = knext.MultilineStringParameter(
    "Data message prefix",
    "What the model reads before the list of data that tools can take. The data themselves are not shown"
    " to it, only names, columns and types.",
    default_value=DATA_PREFIX,
    number_of_lines=3,
    is_advanced=True,
)

debug = knext.BoolParameter(
    "Debug mode",
    "Shows each workflow tool that runs as a metanode in the workflow, and keeps it if it fails.",
    default_value=False,
    is_advanced=True,
)


def _error_columns(specs: list[Any]) -> list[str]:
    return text_columns(specs[HISTORY])


@knext.parameter_group(label="Errors", is_advanced=True)
class ErrorSettings:
    """The settings for errors of the agent; the keys are KNIME's."""

    error_handling = knext.EnumParameter(
        "Error handling",
        "What an error does: a model that cannot be reached, an iteration limit, a time limit. With a *Prompt"
        " column* there always is an error column.",
        default_value=ErrorHandling.FAIL.name,
        enum=ErrorHandling,
        style=knext.EnumParameter.Style.VALUE_SWITCH,
    )
    use_existing_error_column = knext.BoolParameter(
        "Continue existing error column",
        "Writes errors into the error column of the *Conversation history*, and keeps those in it.",
        default_value=False,
    )
    error_column_name = knext.StringParameter(
        "Error column name", "Name of the new column with errors.", default_value="Errors"
    )
    error_column = knext.StringParameter(
        "Error column",
        "The column of the *Conversation history* that holds errors.",
        default_value=NO_COLUMN,
        choices=column_choices(NO_COLUMN, _error_columns),
    )
    _goes_on = knext.And(
        knext.OneOf(error_handling, [ErrorHandling.COLUMN.name]),
        knext.DialogContextCondition(shared_parameters.is_connected(HISTORY)),
    )
    use_existing_error_column.rule(_goes_on, knext.Effect.SHOW)
    error_column.rule(knext.And(_goes_on, knext.OneOf(use_existing_error_column, [True])), knext.Effect.SHOW)
    del _goes_on


def prompt_column_of(node: Any) -> str | None:
    """Reads the setting ``prompt_column``; None for a single prompt."""
    return chosen_column(node.prompt_column)


def layout_of(node: Any, history: Any | None) -> ConversationLayout:
    """Decides on the columns of *Conversation*.

    Raises `SettingInvalid` if there is no column for it, or two columns would have one name.
    """
    from .conversation_table import ConversationLayout, choose_message_form

    per_row = prompt_column_of(node) is not None
    column = history_column(node, history) or node.conversation_column_name.strip()
    if not column:
        raise SettingInvalid(
            "The conversation column has no name",
            setting="conversation_column_name",
            fix="Enter one under 'Conversation column name'",
        )
    error_column = None
    if per_row or node.errors.error_handling == ErrorHandling.COLUMN.name:
        error_column = (
            history_error_column(node, history) or node.errors.error_column_name.strip() or "Errors"
        )
    return ConversationLayout(
        form=choose_message_form(node.conversation_form),
        column=column,
        error_column=error_column,
        per_row=per_row,
    )


def answers_layout(node: Any, rows: Any | None) -> AnswersLayout:
    """Decides on the columns of *Answers*; `rows` is the schema of the table with the prompts, if any."""
    from ..answer_schema import AnswerSchema
    from .answers_table import AnswersLayout

    names = () if rows is None else tuple(column.name for column in rows)
    return AnswersLayout(inputs=names, answer=AnswerSchema.parse(node.answer_schema))


def history_column(node: Any, history: Any | None) -> str | None:
    """The column of the history with the messages, None without one; `SettingInvalid` if it has none."""
    from .conversation_history import conversation_columns, default_column

    if history is None:
        return None
    setting = node.conversation_column
    is_auto = setting in (None, "", AUTO)
    column = default_column(history) if is_auto else setting
    if column in conversation_columns(history):
        return column
    what = "has no conversation column" if is_auto else f"has no messages in '{setting}'"
    raise SettingInvalid(
        f"The Conversation history {what}",
        setting="conversation_column",
        fix="Connect the Conversation of an agent, or a table with columns of roles ('Role') and texts",
    )


def history_error_column(node: Any, history: Any | None) -> str | None:
    """Finds the column of the history with errors; None without a history, or if the settings use none."""
    errors = node.errors
    if history is None or not errors.use_existing_error_column:
        return None
    if errors.error_handling != ErrorHandling.COLUMN.name:
        return None
    names = text_columns(history)
    if errors.error_column in names:
        return errors.error_column
    raise SettingInvalid(
        "The Conversation history has no such error column",
        setting="error_column",
        fix=f"Choose one of {', '.join(names)}" if names else "Switch 'Continue existing error column' off",
    )


def check(node: Any, tools: Any | None, history: Any | None, data: list[Any]) -> None:
    """Checks the settings against the connected inputs, with `SettingInvalid`; makes no connection."""
    check_calls(node, tools)
    column = prompt_column_of(node)
    if column is not None:
        _check_prompt_column(column, data)
    elif not node.user_message.strip() and history is None:
        raise SettingInvalid(
            "There is no prompt",
            setting="user_message",
            fix="Enter a question or task under 'User message', or choose a prompt column",
        )


def check_calls(node: Any, tools: Any | None) -> None:
    """Checks the settings that say which calls an agent may make; raises `SettingInvalid`."""
    from ...types.columns import tool_column_names
    from ..toolbox.call_rules import CallLimits, CallRules

    if tools is not None and not tool_column_names(tools, node.tool_column):
        raise SettingInvalid(
            "The Tools table has no tool column",
            setting="tool_column",
            fix="Connect the Tools output of an MCP Tool Provider, a Workflow to Tool node, or both through"
            " Concatenate",
        )
    CallRules.parse(node.rules, node.trusted_servers)
    CallLimits.parse_per_tool(node.calls_per_tool)
    budget_of(node)


def budget_of(node: Any) -> TokenBudget:
    """What the model may cost for one prompt; raises `SettingInvalid` for a cost without prices."""
    from ..agent_events import TokenBudget

    read, written = TokenBudget.parse_prices(node.prices)
    if node.cost_budget and not (read or written):
        raise SettingInvalid(
            "A highest cost needs prices",
            setting="prices",
            fix="Enter what a million tokens cost under 'Prices of the model', or set the highest cost to 0",
        )
    return TokenBudget(
        input=node.input_budget or None,
        output=node.output_budget or None,
        total=node.token_budget or None,
        cost=node.cost_budget or None,
        input_price=read,
        output_price=written,
    )


def _check_prompt_column(column: str, data: list[Any]) -> None:
    if not data:
        raise SettingInvalid(
            f"The prompt column '{column}' is chosen, but there is no table of prompts",
            setting="prompt_column",
            fix="Add a 'Data inputs' port and connect the table, or choose <none>",
        )
    # The spec is missing while the node before has not been configured.
    if data[0] is not None and column not in text_columns(data[0]):
        raise SettingInvalid(
            f"The first table of the Data inputs has no text column '{column}'",
            setting="prompt_column",
            fix="Open the dialog and choose a column",
        )
