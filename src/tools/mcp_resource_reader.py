"""The node *MCP Resource Reader*: lists the resources of a server, and reads them, one or one per row."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import knime.extension as knext

from ..types.errors import InputInvalid, MCPError, ProtocolError, SettingInvalid
from . import server_reading
from .node_settings import connection, shared_parameters
from .node_settings.connection import NO_COLUMN, chosen_column
from .node_settings.shared_parameters import column_choices, text_columns

if TYPE_CHECKING:
    from ..client.protocol.offers import ResourceDefinition
    from ..client.protocol.tools import ContentBlock

DIGEST: Final = "SHA-256"
_LISTED: Final = ("URI", "Kind", "Name", "Title", "Description", "Media type", "Variables")
_PARAMETERS: Final = 0


class _Content(NamedTuple):
    """A row of *Contents*."""

    row: str | None
    uri: str
    media_type: str | None = None
    text: str | None = None
    file: str | None = None
    size: int | None = None
    digest: str | None = None
    error: str | None = None

    @property
    def image(self) -> str | None:
        return self.file if (self.media_type or "").startswith("image/") else None

    @property
    def json(self) -> str | None:
        """The text, if it is JSON and nothing else."""
        from ..client.protocol.messages import decode

        try:
            return None if self.text is None or decode(self.text) is None else self.text
        except MCPError:
            return None


def _columns(with_json: bool) -> list[tuple[str, str, Any]]:
    """Name, attribute of the content, and KNIME's type of each column of *Contents*."""
    from .caller.calls_report import image_type, json_type

    if with_json and json_type() is None:
        raise SettingInvalid(
            "This KNIME has no JSON cells",
            setting="json_cells",
            fix="Install the KNIME JSON-Processing extension, or switch off 'Text as JSON cells'",
        )
    text, image = knext.string(), image_type()
    return [
        (server_reading.INPUT_ROW, "row", text),
        ("URI", "uri", text),
        ("Media type", "media_type", text),
        ("Text", "text", text),
        *([("JSON", "json", json_type())] if with_json else []),
        *([("Image", "image", image)] if image is not None else []),
        ("File", "file", text),
        ("Size", "size", knext.int64()),
        (DIGEST, "digest", text),
        ("Error", "error", text),
    ]


def _contents_table(contents: list[_Content], with_json: bool) -> Any:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for name, attribute, _ in _columns(with_json):
        columns[name] = _cells(attribute, [getattr(content, attribute) for content in contents])
    return knext.Table.from_pyarrow(pa.table(columns), row_ids="generate")


def _cells(attribute: str, values: list[Any]) -> Any:
    import pyarrow as pa

    from .caller.calls_report import image_cells, json_cells

    match attribute:
        case "json":
            return json_cells(values)
        case "image":
            return image_cells(values)
        case _:
            return pa.array(values, pa.int64() if attribute == "size" else pa.string())


@knext.node(
    name="MCP Resource Reader",
    node_type=knext.NodeType.SOURCE,
    icon_path="icons/resources.png",
    category="/community/mcp",
    id="mcp_resource_reader",
    after="mcp_tool_caller",
    keywords=["MCP", "Model Context Protocol", "resource", "template", "file", "document", "read", "server"],
)
@knext.input_table(
    "Parameters",
    "Optional: one resource per row, by a column with URIs, or by columns named like the variables of a"
    f" template. A column *{DIGEST}*, as *Contents* has it, says how the resource was when somebody saw it.",
    optional=True,
)
@shared_parameters.credential_port("the server.")
@knext.output_table(
    "Contents",
    "One row per content that was read: text, or a file in the workflow's data area, pictures also as image."
    " *Input row* is the RowID of the row of *Parameters*, for *Joiner*. Empty if nothing is to be read.",
)
@knext.output_table(
    "Resources",
    "What the server lists: its resources, and its templates, whose *Variables* a row has to fill in.",
)
class MCPResourceReader:
    """Lists and reads the resources of an MCP server: documents, files, records, pictures.

    A server offers resources by their URIs, and templates of URIs with variables, such as
    `weather://{city}/today`.

    **How to use it**

    - Enter the *Server URL* and execute: *Resources* has what there is.
    - To read one, enter its URI under *Resource*.
    - To read many, connect a table to *Parameters* and choose the column with the URIs, or enter a template:
      its variables are filled in from the columns with their names.

    **What comes out**

    Text is a String; *Text as JSON cells* adds a column for *JSON Path*. What is no text is saved as a file
    in the workflow's data area. Nothing that a server calls a program or a web page keeps that ending.

    **What is not offered**

    Subscriptions: a workflow reads a resource when it is executed.

    **Proof of what happened**

    Each answer is a line in a journal in the workflow's data area, with its SHA-256; the last hash of the
    journal is handed on as flow variable `mcp_audit_head`.
    """

    server_url = shared_parameters.server_url()
    credentials = shared_parameters.credentials()
    connection_options = shared_parameters.connection_options()

    uri = knext.StringParameter(
        "Resource",
        "URI of the resource to read, as *Resources* has it, or a template such as `weather://{city}/today`"
        " with columns of *Parameters* for its variables. Empty only lists what there is.",
        default_value="",
    )
    uri_column = knext.StringParameter(
        "Column with URIs",
        f"Which column of *Parameters* holds the URIs to read. Choose `{NO_COLUMN}` to fill in a template.",
        default_value=NO_COLUMN,
        choices=column_choices(NO_COLUMN, lambda specs: text_columns(specs[_PARAMETERS])),
    )
    if_changed = server_reading.if_changed(
        f"What to do when a content's SHA-256 is not that in the column *{DIGEST}* of *Parameters*."
    )
    on_error = shared_parameters.on_error("If one fails", "What to do when something cannot be read.")
    json_cells = knext.BoolParameter(
        "Text as JSON cells",
        "Adds a column *JSON* of KNIME's JSON type with the texts that are JSON.",
        default_value=False,
        is_advanced=True,
    )

    shared_parameters.headings(
        Connection=[server_url],
        Resources=[uri],
        Errors=[on_error],
        Output=[json_cells],
    )
    uri_column.rule(
        knext.DialogContextCondition(shared_parameters.is_connected(_PARAMETERS)), knext.Effect.SHOW
    )

    def configure(self, ctx: Any, parameters: Any, credential: Any) -> Any:  # noqa: ARG002
        try:
            server_reading.check_connection(self, ctx)
            column = chosen_column(self.uri_column)
            if column is not None and column not in [each.name for each in parameters or ()]:
                raise SettingInvalid(
                    f"The Parameters table has no column '{column}'" if parameters else "There is no table",
                    setting="uri_column",
                    fix="Connect a table with URIs to Parameters and choose their column, or choose <none>",
                )
            contents = [knext.Column(kind, name) for name, _, kind in _columns(self.json_cells)]
            resources = [knext.Column(knext.string(), name) for name in _LISTED]
            return knext.Schema.from_columns(contents), knext.Schema.from_columns(resources)
        except MCPError as error:
            raise connection.as_setting_error(error) from None

    def execute(self, ctx: Any, parameters: Any, credential: Any) -> tuple[Any, Any]:
        wanted = self._wanted(parameters)
        contents: list[_Content] = []
        with server_reading.Reading(self, ctx, credential, "resource") as reading:
            listed = reading.client.list_resources(is_canceled=ctx.is_canceled)
            for done, (row, uri, digest) in enumerate(wanted):
                reading.progress(done, len(wanted))
                contents += _read(reading, row, uri, digest, ctx.is_canceled)
        if not listed and not wanted:
            reading.warnings.append("The server lists no resources.")
        reading.tell(len(wanted))
        return _contents_table(contents, self.json_cells), _listed_table(listed)

    def _wanted(self, parameters: Any) -> list[tuple[str | None, str, str]]:
        """RowID, URI and expected digest of each resource to read."""
        from ..client.protocol.offers import expanded, variables_of

        template, column = self.uri.strip(), chosen_column(self.uri_column)
        if parameters is None:
            if missing := variables_of(template):
                raise SettingInvalid(
                    f"'{template}' is a template, whose variables have no values: {', '.join(missing)}",
                    setting="uri",
                    fix="Connect a table to Parameters with columns of these names, or enter a whole URI",
                )
            return [(None, template, "")] if template else []
        rows = server_reading.texts_of_rows(parameters)
        if column is not None:
            return [(row, cells.get(column) or "", cells.get(DIGEST) or "") for row, cells in rows]
        if not template:
            return []
        return [(row, expanded(template, cells), cells.get(DIGEST) or "") for row, cells in rows]


def _read(
    reading: server_reading.Reading, row: str | None, uri: str, digest: str, is_canceled: Any
) -> list[_Content]:
    from ..client.protocol.offers import contents_of

    if not uri:
        error = InputInvalid("The row has no URI", row=row, fix="Fill in the cell, or remove the row")
        reading.failed(error)
        return [_Content(row, "", error=str(error))]
    raw, problem = reading.ask(uri, row, lambda: reading.client.read_resource(uri, is_canceled=is_canceled))
    if problem is not None:
        return [_Content(row, uri, error=str(problem))]
    contents = [_content(reading, row, uri, block) for block in contents_of(raw)]
    if not contents:
        reading.warnings.append(f"{uri} has no content.")
    for content in contents:
        error = reading.changed(uri, digest, content.digest or "", row)
        if error is not None:
            # A resource is taken as a whole or not at all.
            return [_Content(row, uri, digest=content.digest, error=str(error))]
    return contents


def _content(reading: server_reading.Reading, row: str | None, uri: str, block: ContentBlock) -> _Content:
    from ..client.protocol.tools import EmbeddedResource

    match block:
        case EmbeddedResource(uri=own, mime_type=media_type, text=str(text)):
            # The digest is that of the content in UTF-8, whether it came as text or as bytes.
            data = text.encode()
            return _Content(row, own or uri, media_type, text, None, len(data), sha256(data).hexdigest())
        case EmbeddedResource(uri=own, mime_type=media_type, blob=bytes(data)):
            path = reading.save(data, media_type or "")
            return _Content(row, own or uri, media_type, None, path, len(data), sha256(data).hexdigest())
        case _:
            error = ProtocolError("The server sent a content that is neither text nor base64", row=row)
            reading.failed(error)
            return _Content(row, uri, error=str(error))


def _listed_row(definition: ResourceDefinition) -> tuple[str | None, ...]:
    from ..client.protocol.offers import variables_of

    variables = ", ".join(variables_of(definition.uri)) if definition.is_template else ""
    return (
        definition.uri,
        "template" if definition.is_template else "resource",
        definition.name,
        definition.title,
        definition.description,
        definition.mime_type,
        variables or None,
    )


def _listed_table(listed: list[ResourceDefinition]) -> Any:
    import pyarrow as pa

    from ..types.columns import arrow_columns

    table = pa.table(arrow_columns([(name, "string") for name in _LISTED], list(map(_listed_row, listed))))
    return knext.Table.from_pyarrow(table, row_ids="generate")
