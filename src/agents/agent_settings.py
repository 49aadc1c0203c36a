"""The settings of the agents' nodes: their parameters, with descriptions for analysts, and their checks.

The keys that KNIME's Agent Prompter has mean the same here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import knime.extension as knext

from ..tools.node_settings import shared_parameters
from ..tools.node_settings.connection import NO_COLUMN, chosen_column
from ..tools.node_settings.shared_parameters import column_choices, text_columns
from ..types.errors import SettingInvalid
from .agent_events import SYSTEM_MESSAGE

if TYPE_CHECKING:
    from .prompter.conversation_table import AnswersLayout, ConversationLayout


TOOLS, HISTORY, DATA = 1, 2, 3

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

call_limit = knext.StringParameter(
    "Most tool calls",
    "How many tool calls one prompt may make, such as `20`, or of single tools, such as `search_*: 5,"
    " delete_row: 1`. Those beyond it are denied, which the model is told. Empty for no limit.",
    default_value="",
    is_advanced=True,
)

token_budget = knext.StringParameter(
    "Most tokens",
    "How many tokens the model may read and write for one prompt. When they are used up, what is chosen under"
    " *When a limit is reached* happens. Empty for no limit.",
    default_value="",
    is_advanced=True,
)

time_limit = knext.StringParameter(
    "Time limit per prompt (s)",
    "How many seconds the answer to one prompt may take in all. With *Final response* the last fifth of them,"
    " and at most a minute, is kept for an answer from what is known by then. Empty for no limit.",
    default_value="",
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

debug = knext.BoolParameter(
    "Debug mode",
    "Shows each workflow tool that runs as a metanode in the workflow, and keeps it if it fails.",
    default_value=False,
    is_advanced=True,
)


def prompt_column_of(node: Any) -> str | None:
    """Reads the setting ``prompt_column``; None for a single prompt."""
    return chosen_column(node.prompt_column)


def layout_of(node: Any, history: Any | None) -> ConversationLayout:
    """Decides on the columns of *Conversation*; errors of a history stay in its column *Errors*.

    Raises `SettingInvalid` if the history has no column of messages, or two columns would have one name.
    """
    from .prompter.conversation_table import ERRORS, ConversationLayout, message_form

    per_row = prompt_column_of(node) is not None
    has_errors = per_row or ERRORS in text_columns(history)
    return ConversationLayout(
        form=message_form(),
        column=history_column(history) or "Conversation",
        error_column=ERRORS if has_errors else None,
        per_row=per_row,
    )


def answers_layout(node: Any, rows: Any | None) -> AnswersLayout:
    """Decides on the columns of *Answers*; `rows` is the schema of the table with the prompts, if any."""
    from .answer_schema import AnswerSchema
    from .prompter.conversation_table import AnswersLayout

    names = () if rows is None else tuple(column.name for column in rows)
    return AnswersLayout(inputs=names, answer=AnswerSchema.parse(node.answer_schema))


def history_column(history: Any | None) -> str | None:
    """The column of the history with the messages, None without one; `SettingInvalid` if it has none."""
    from .prompter.conversation_table import default_column

    if history is None:
        return None
    column = default_column(history)
    if column is None:
        raise SettingInvalid(
            "The Conversation history has no conversation column",
            setting="user_message",
            fix="Connect the Conversation of an agent, or a table with columns of roles ('Role') and texts",
        )
    return column


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
    from ..types.columns import tool_column_names
    from .toolbox.call_rules import CallLimits, CallRules

    if tools is not None and not tool_column_names(tools, node.tool_column):
        raise SettingInvalid(
            "The Tools table has no tool column",
            setting="tool_column",
            fix="Connect the Tools output of an MCP Tool Provider, a Workflow to Tool node, or both through"
            " Concatenate",
        )
    CallRules.parse(node.rules, node.trusted_servers)
    CallLimits.parse(node.call_limit)
    token_limit_of(node)
    time_limit_of(node)


def token_limit_of(node: Any) -> int | None:
    """The most tokens of one prompt; `SettingInvalid` for what is no number."""
    tokens = _limit(node.token_budget, "token_budget", "Most tokens")
    return None if tokens is None else math.ceil(tokens)


def time_limit_of(node: Any) -> float | None:
    """The most seconds of one prompt; `SettingInvalid` for what is no number."""
    return _limit(node.time_limit, "time_limit", "Time limit per prompt (s)")


def _limit(text: str, setting: str, label: str) -> float | None:
    if not text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise SettingInvalid(
            f"'{label}' is no number above 0: {text.strip()[:100]!r}",
            setting=setting,
            fix="Enter a number, or nothing for no limit",
        )
    return number


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
