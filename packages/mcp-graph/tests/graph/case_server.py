"""Deterministic stdio MCP server for graph acceptance tests. Standard library only.

Speaks newline-delimited JSON-RPC 2.0; answers initialize, ping, tools/list, tools/call.
Each tool exercises one shape of CallToolResult.
"""

import json
import sys
import time

COUNTER = 0
STR = {"type": "string"}
NUM = {"type": "number"}
OBJ = {"type": "object"}
TOOLS = {
    "add": "structuredContent {sum} AND a different text block (structuredContent must win)",
    "echo_args": "structuredContent {received: <arguments>}",
    "json_text": "text block holding JSON text (argument `json` is sent verbatim), no structuredContent",
    "plain_text": "text block holding argument `text`, no structuredContent",
    "two_texts": "two text blocks, only the first is used",
    "empty_text": "a text block whose text is ''",
    "no_content": "content: []",
    "image": "first block is an image block (no text key)",
    "fail": "isError true with text argument `message`",
    "rpc_error": "JSON-RPC error -32602 with argument `message`",
    "sleep_ms": "sleeps `ms`, then structuredContent {slept: ms}",
    "counter": "structuredContent {n} counting calls in this process",
    "lookup": "structuredContent {id, name, price}; isError for unknown id",
}
CATALOG = {1: ("apple", 3), 2: ("pear", 5), 3: ("plum", 8)}


def call(name, a):
    global COUNTER

    def t(s):
        return {"type": "text", "text": s}

    if name == "add":
        return {"content": [t("text that must be ignored")], "structuredContent": {"sum": a["a"] + a["b"]}}
    if name == "echo_args":
        return {"content": [t(json.dumps({"received": a}))], "structuredContent": {"received": a}}
    if name == "json_text":
        return {"content": [t(a["json"])]}
    if name == "plain_text":
        return {"content": [t(a["text"])]}
    if name == "two_texts":
        return {"content": [t("first"), t("second")]}
    if name == "empty_text":
        return {"content": [t("")]}
    if name == "no_content":
        return {"content": []}
    if name == "image":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if name == "fail":
        return {"content": [t(a.get("message", "boom"))], "isError": True}
    if name == "sleep_ms":
        time.sleep(a["ms"] / 1000)
        return {"content": [t("ok")], "structuredContent": {"slept": a["ms"]}}
    if name == "counter":
        COUNTER += 1
        return {"content": [t(str(COUNTER))], "structuredContent": {"n": COUNTER}}
    if name == "lookup":
        row = CATALOG.get(a.get("id"))
        if row is None:
            return {"content": [t("no such id: {}".format(json.dumps(a.get("id"))))], "isError": True}
        r = {"id": a["id"], "name": row[0], "price": row[1]}
        return {"content": [t(json.dumps(r))], "structuredContent": r}
    return {"content": [t("unknown tool " + name)], "isError": True}


def main():
    for line in sys.stdin:
        line = line.strip()
        if not line:
            continue
        m = json.loads(line)
        if "id" not in m or "method" not in m:
            continue
        out = {"jsonrpc": "2.0", "id": m["id"]}
        p = m.get("params") or {}
        if m["method"] == "initialize":
            out["result"] = {
                "protocolVersion": p.get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fixture", "version": "1.0.0"},
            }
        elif m["method"] == "ping":
            out["result"] = {}
        elif m["method"] == "tools/list":
            out["result"] = {
                "tools": [
                    {"name": n, "description": d, "inputSchema": {"type": "object"}} for n, d in TOOLS.items()
                ]
            }
        elif m["method"] == "tools/call":
            if p.get("name") == "rpc_error":
                out["error"] = {"code": -32602, "message": (p.get("arguments") or {}).get("message", "bad")}
            else:
                try:
                    out["result"] = call(p.get("name"), p.get("arguments") or {})
                except Exception as e:  # a fixture bug must be visible, not fatal
                    out["error"] = {"code": -32603, "message": f"fixture: {e!r}"}
        else:
            out["error"] = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps(out) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
