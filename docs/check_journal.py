"""Checks a journal without anything of knime-mcp: ``python check_journal.py RUN.jsonl HEAD_OR_KEY …``.

The verdict is the last line. Only signatures need a library, ``cryptography``. docs/audit.md has the format.
"""

import base64
import hashlib
import json
import pathlib
import re
import sys

NOT_HASHED = {"kind", "files", "image", "resumed_from", "key", "previous_hash", "hash", "chain"}
file, given = pathlib.Path(sys.argv[1]), sys.argv[2:]
heads = [
    re.fullmatch("(?=.*[0-9a-f]{64})(?:sha256:)?([0-9a-f]{64})?-?([0-9a-f]{64})?", text)
    for text in given
    if "+" not in text
]
keys = {}
for name, number, data in (text.split("+", 2) for text in given if "+" in text):
    keys[name, bytes.fromhex(number)] = base64.b64decode(data)[1:]
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
changed, cut, chains, covered = [], [], [], {}
last_calls, counts, ends = {}, {}, {}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def check_call(call):
    texts = {
        name: f"{value:.6f}" if isinstance(value, float) else str(value)
        for name, value in call.items()
        if name not in NOT_HASHED and value != ""
    }
    if (tool := json.loads(texts.get("tool", "{}"))).get("workflow_filestore") is not None:
        texts["tool"] = canonical(tool | {"workflow_filestore": None})  # KNIME changes it in a copy
    text = canonical(texts)
    before = call.get("previous_hash", "")
    run, number = call["run"], counts.get(call["run"], 0) + 1
    follows = number == 1 or before == last_calls[run]
    if (
        call["hash"] != "sha256:" + sha256(f"{before}\n{text}".encode())
        or call["call"] != number
        or not follows
    ):
        return f"call {call['call']} of run {run}"
    last_calls[run], counts[run] = call["hash"], number
    blobs = [block for block in json.loads(call.get("content", "[]")) if "size" in block]
    for name, block in zip(call.get("files", []), blobs, strict=False):
        path = next((path for path in (pathlib.Path(name), file.parent / name) if path.is_file()), None)
        if path is None:
            print("not there any more:", name)
        elif sha256(path.read_bytes()) != block["sha256"]:
            return f"the saved file {path}"
    return None


def base64_of(data):
    return base64.b64encode(data).decode()


def check_note(line, before, lines):
    text, _, signature = line["note"].partition("\n\n")
    at = text.rpartition("\n")[2]
    if text != f"knime-mcp/journal/2\n{lines}\n{base64_of(bytes.fromhex(before))}\n{at}":
        return f"the checkpoint in line {lines + 1}"
    # Nothing covers what stands in the last line beside a signature.
    if line.keys() != {"kind", "note", "chain"} | (set() if signature else {"time_stamp"}):
        return f"a field in line {lines + 1}"
    if not signature:
        token = line["time_stamp"]
        return None if token == base64_of(base64.b64decode(token)) else f"the time-stamp in line {lines + 1}"
    _, name, data = signature.split(" ")
    data = base64.b64decode(data)
    if signature != f"— {name} {base64_of(data)}\n":
        return f"the signature in line {lines + 1}"
    if (name, data[:4]) in keys:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        key = Ed25519PublicKey.from_public_bytes(keys[name, data[:4]])
        key.verify(data[4:], f"{text}\n".encode())  # raises an error
        covered[lines + 1] = f"signature of {name} of {at}"
    return None


lines = file.read_bytes().split(b"\n")
if lines.pop():
    cut.append("the last line is incomplete")
for number, line in enumerate(lines, start=1):
    before = chains[-1] if chains else ""
    text, _, end = line.rpartition(b',"chain":"')
    chains.append(sha256(before.encode() + b"\n" + text))
    if end != chains[-1].encode() + b'"}':
        changed.append(f"line {number}, or the one before it")
        chains[-1] = end[:64].decode(errors="replace")
    try:
        entry = json.loads(line)
        problem = None
        # Each line has one spelling: no name twice, no other order, blank or escape.
        if canonical({name: entry[name] for name in entry if name != "chain"})[:-1].encode() != text:
            changed.append(f"the spelling of line {number}")
        match entry["kind"]:
            case "start":
                ends.setdefault(entry["run"], None)
            case "call":
                problem = check_call(entry)
            case "checkpoint":
                problem = check_note(entry, before, number - 1)
            case "end":
                ends[entry["run"]] = (entry["calls"], entry["head"])
        changed += [problem] if problem else []
    except Exception as error:
        changed.append(f"line {number}: {error!r}")
    if any(chains[-1] in (head[1], head[2]) for head in heads if head):
        covered[number] = "a given head"
for run, end in ends.items():
    if end is None:
        cut.append(f"run {run} has no end")
    elif end[0] != counts.get(run, 0) or (end[0] and end[1] != last_calls[run]):
        changed.append(f"the calls of run {run} are not those that its end counts")
known = {text.removeprefix("sha256:") for text in last_calls.values()} | set(chains)
if any(head is None or not {head[1], head[2]} - {None} <= known for head in heads) or not ends:
    cut.append("a given head is not there, or there are no runs")
for problem in changed + cut:
    print(problem)
for line, by in covered.items():
    print(f"covered up to line {line}: {by}")
whole = max(covered, default=0) == len(lines)
print(
    "changed"
    if changed
    else "end missing"
    if cut
    else "unchanged"
    if whole
    else "complete in itself, but nobody vouches for it"
)
