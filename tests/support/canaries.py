"""Secrets that must be left nowhere: in every spelling, and in everything that a run leaves.

The spellings are written down here once more, so that a test does not ask the code that hides them.
"""

import base64
import html
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote

import pyarrow.parquet as pq

from .scripted_server import Reply, http, modern, notification, reply_event, rpc, stream, text, tool
from .scripted_server import event as sent_event

USER = "anna"
ARGUMENTS = ("by-name", "declared", "named", "deep")
"""Why arguments are secrets. The one that is named has to be told to be one: ``code``."""
_LOGIN = {
    "type": "object",
    "properties": {
        "password": {},
        "door": {"type": "string", "format": "password"},
        "code": {},
        "settings": {"type": "array"},
        "fail": {"type": "boolean"},
    },
}


def login_with(secrets: Mapping[str, str]) -> dict[str, object]:
    """Arguments for the tool of `debugging_server`, with a secret of each kind."""
    return {
        "password": secrets["by-name"],
        "door": secrets["declared"],
        "code": secrets["named"],
        "settings": [{"name": "X-Api-Key", "value": secrets["deep"]}],
    }


def canary(name: str) -> str:
    """A secret with signs that every encoding writes differently."""
    return f'Cn7/{name}+9x"K\\2=q'


def spellings(secret: str) -> dict[str, str]:
    """The encodings that count as the secret, by name."""
    data, user = secret.encode(), f"{USER}:{secret}".encode()
    return {
        "plain": secret,
        "url": quote(secret, safe=""),
        "small url": re.sub("%..", lambda code: code[0].lower(), quote(secret, safe="")),
        "form": quote_plus(secret),
        "url twice": quote(quote(secret, safe=""), safe=""),
        "json": json.dumps(secret)[1:-1],
        "json in json": json.dumps(json.dumps(secret))[3:-3],
        "base64": base64.b64encode(data).decode(),
        "base64 without padding": base64.b64encode(data).decode().rstrip("="),
        "base64 for URLs": base64.urlsafe_b64encode(data).decode(),
        "user and password": base64.b64encode(user).decode(),
        "user and password for URLs": base64.urlsafe_b64encode(user).decode().rstrip("="),
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "html": html.escape(secret),
    }


def debugging_server(secrets: Iterable[str]) -> dict[str, Reply]:
    """The script of a server that repeats those of the secrets that came with a request, wherever it can.

    In every spelling, in headers, progress, log messages, errors, results, and in what it says of its tool.
    """

    def came(request):
        sent = "\n".join([*request.headers.values(), unquote(request.target), request.body.decode()])
        here = [secret for secret in secrets if any(s in sent for s in spellings(secret).values())]
        return [f"<{spelled}>" for secret in here for spelled in spellings(secret).values()] or ["nothing"]

    def headers(entries):
        return {"X-Echo": quote(entries[0]), "Set-Cookie": f"echo={entries[1 % len(entries)]}"}

    def answer(request):
        entries = came(request)
        said = "\n".join(entries)
        if request.params["arguments"].get("fail"):
            challenge = f'Bearer error="{entries[1 % len(entries)]}"'
            return http(401, said, headers={"WWW-Authenticate": challenge, **headers(entries)})
        # Names of members stay, so they are not repeated; a value may be JSON text again.
        structured = {"said": entries, "json": json.dumps({"inner": entries}), "deep": [[{"x": said}]]}
        parts = [reply_event(text(said, structuredContent=structured, resultType="complete"))]
        token = request.params.get("_meta", {}).get("progressToken")
        if token is not None:
            report = notification("notifications/progress", progressToken=token, progress=1, message=said)
            log = notification("notifications/message", level="error", data=said)
            parts = [sent_event(report), sent_event(log), *parts]
        return stream(*parts, headers=headers(entries))(request)

    def listed(request):
        entries = came(request)
        hints = {"readOnlyHint": True}
        about = {"description": "\n".join(entries), "annotations": hints}
        tools = [tool("login", inputSchema=_LOGIN, **about)]
        return rpc({"tools": tools, "resultType": "complete"}, headers=headers(entries))(request)

    return modern(tools__list=listed, tools__call=answer)


def found(secrets: Mapping[str, str], *left: str) -> list[str]:
    """Which secrets, in which spelling, stand in what was left."""
    texts = "\0".join(left)
    return [
        f"{name}: {how}"
        for name, secret in secrets.items()
        for how, spelled in spellings(secret).items()
        if spelled in texts
    ]


def files_below(folder: Path) -> dict[str, str]:
    """All files as texts, also what stands compressed in archives and Parquet."""
    return {str(file.relative_to(folder)): _text_of(file) for file in folder.rglob("*") if file.is_file()}


def _text_of(file: Path) -> str:
    raw = file.read_bytes().decode("utf-8", "replace")
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            return raw + "".join(
                name + archive.read(name).decode("utf-8", "replace") for name in archive.namelist()
            )
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        cells = (str(cell) for column in table.columns for cell in column.to_pylist())
        return raw + "\0".join([str(table.schema.metadata), *cells])
    return raw


def processes() -> str:
    """The command lines of all processes of this machine."""
    seen: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            seen.append((process / "cmdline").read_bytes().decode("utf-8", "replace"))
        except OSError:  # it has ended
            continue
    return "\0".join(seen)
