"""``knime-mcp audit``: verifies, shows and exports records of calls; the keys that sign them, and others'."""

from __future__ import annotations

import getpass
import platform
import re
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..audit.journal import keys_file, known_keys_file
from ..audit.signatures import PublicKey, SignatureError, SigningKey, add_key, known_keys, own_keys, trust_key
from ..audit.table_formats import WRITABLE, either
from ..audit.verdicts import Verdict
from ..system import others_may_read
from ..types.texts import counted, visible
from .command_errors import CommandError, ExitCode, UsageError, reports_errors
from .files import (
    check_output,
    check_page,
    check_table,
    is_same,
    json_record,
    reading_records,
    text_or_file,
    writing,
    writing_whole,
)
from .shared_options import RawCsvOption, RecordsArgument
from .terminal import complain, note, one_line, print_json, print_text, say, show_table, steps_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from ..audit.record import CallRecord
    from ..audit.verdicts import Verification


_FINDINGS_SHOWN = 20
_WORTH_A_BAR = 50  # megabytes
_CALLS_SHOWN = 1000


@reports_errors
def verify(
    file: RecordsArgument,
    head: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HEAD",
            help="A head that was kept elsewhere: what this command or KNIME's flow variable mcp_audit_head"
            " said of a run. May be given several times: all must hold.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY|@FILE",
            help="A public key whose signatures count, as audit key show prints it, instead of your own"
            " and those of audit trust. May be given several times.",
        ),
    ] = None,
    tsa_certificate: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.pem", help="The root certificate of a server for time-stamps you trust."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> ExitCode:
    """Verify that records of calls are complete and unchanged.

    Says written by NAME's key, unchanged; unchanged since you noted its head; complete in itself, but nobody
    vouches for it; rows missing; end missing; not verifiable; changed, and at which lines; or no journal. The
    exit code is 0 only if all is unchanged, 4 if nobody vouches for it, otherwise 1.

    Example: knime-mcp audit verify run.jsonl
    """
    from ..audit.signatures import PublicKey, SignatureError
    from ..audit.verdicts import Anchors
    from ..audit.verify import verify_file

    try:
        texts = [text_or_file(text, "--key")[0] for text in key or ()]
        keys = tuple(map(PublicKey.parse, texts)) if texts else None
        roots = tuple(path.read_bytes() for path in tsa_certificate or ())
        anchors = Anchors(heads=tuple(head or ()), keys=keys, roots=roots)
        with reading_records(), _progress(file) as progress:
            verified = verify_file(file, head=anchors, on_progress=progress)
    except SignatureError as error:
        raise CommandError(f"{error}.") from None
    if as_json:
        print_json(_as_json(verified))
        return _exit_code(verified)
    style = {Verdict.INTACT: "bold green", Verdict.UNANCHORED: "bold yellow"}
    say(f"{file.name}: {verified.in_words}", style.get(verified.verdict, "bold red"))
    for run in verified.runs:
        calls = counted(run.count, "call")
        say(f"run {run.run or '(without id)'}: {calls}{f', {run.outcome}' if run.outcome else ''}")
        if run.anchor:
            say(f"  head {run.anchor}", "dim")
    for cover in verified.coverage[:_FINDINGS_SHOWN]:
        say(f"lines {cover.lines}: {f'covered by {cover.by}' if cover.by else 'nobody vouches for them'}")
    _complain_of(verified)
    for text in verified.notes:
        note(text)
    return _exit_code(verified)


@contextmanager
def _progress(file: Path) -> Generator[Callable[[int], None] | None]:
    """Shows how many megabytes of a large file were checked."""
    from ..audit.journal_lines import journal_parts

    total = sum(part.stat().st_size for part in journal_parts(file).values()) if file.is_file() else 0
    total //= 1_000_000
    if total < _WORTH_A_BAR:
        yield None
        return
    with steps_progress() as told:
        yield lambda done: told(("MB", done // 1_000_000, total))


def _as_json(verified: Verification) -> dict[str, Any]:
    return {
        "verdict": verified.verdict.value,
        "in_words": verified.in_words,
        "runs": [
            {"run": run.run, "calls": run.count, "head": run.anchor, "outcome": run.outcome}
            for run in verified.runs
        ],
        "covered": [
            {"first": cover.first, "last": cover.last, "by": cover.by or None} for cover in verified.coverage
        ],
        "findings": [
            {"verdict": finding.verdict.value, "run": finding.run, "text": finding.text}
            for finding in verified.findings
        ],
        "notes": list(verified.notes),
    }


def _exit_code(verified: Verification) -> ExitCode:
    codes = {Verdict.INTACT: ExitCode.OK, Verdict.UNANCHORED: ExitCode.NOBODY_VOUCHES}
    return codes.get(verified.verdict, ExitCode.FAILED)


def _complain_of(verification: Verification) -> None:
    for finding in verification.findings[:_FINDINGS_SHOWN]:
        complain(f"{finding.verdict.value}: {finding.text}")
    if len(verification.findings) > _FINDINGS_SHOWN:
        complain(
            f"… and {counted(len(verification.findings) - _FINDINGS_SHOWN, 'more finding')};"
            " audit verify --json names all of them."
        )


@reports_errors
def show_records(
    file: RecordsArgument,
    html: Annotated[
        Path | None,
        typer.Option(metavar="OUT.html", help="Write a page with all details instead, for a browser."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Write the table Tool calls into a {either(*WRITABLE)} file instead."
        ),
    ] = None,
    raw_csv: RawCsvOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records as a JSON array.")] = False,
) -> ExitCode:
    """Show records of calls as a timeline.

    Says, too, what is missing or was changed. The exit code is 1 if something was changed.

    Example: knime-mcp audit show run.jsonl --html run.html
    """
    check_table(out)
    check_page(html)
    # Opened for writing, it would be empty before it is read.
    if out is not None and is_same(out, file):
        raise UsageError(f"{out} is the file to show. Write into another one.")
    from ..audit.calls_table import ordered_calls, write_calls
    from ..audit.verify import verify_file

    with reading_records():
        with _progress(file) as progress:
            verified = verify_file(file, on_progress=progress)
        if html is not None:
            from ..tools.views.journal_page import RunPages

            pages = RunPages(file, html.name)
            with steps_progress() if len(pages) > 1 else nullcontext() as told:
                for number in range(1, len(pages) + 1):
                    with writing_whole(html.with_name(pages.name(number))) as part:
                        part.write_text(pages.page(number, verified), encoding="utf-8")
                    if told is not None:
                        told(("pages", number, len(pages)))
            more = f" and {counted(len(pages) - 1, 'more page')}" if len(pages) > 1 else ""
            note(f"Wrote {html}{more}")
        if out is not None:
            with writing_whole(out) as part:
                count = write_calls(ordered_calls(file), part, raw_csv=raw_csv)
            note(f"Wrote {counted(count, 'call')} to {out}")
        if as_json:
            print_json(
                json_record(record) | ({"altered": True} if verified.is_altered(record) else {})
                for record in ordered_calls(file)
            )
        elif html is None and out is None:
            _show_timeline(ordered_calls(file), verified)
    for text in verified.unfinished:
        note(text)
    _complain_of(verified)
    return ExitCode.FAILED if verified.is_false else ExitCode.OK


@reports_errors
def export(
    file: RecordsArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT.knwf", help="The workflow to write.")],
    question: Annotated[
        str, typer.Option(metavar="TEXT", help="What the agent was asked, to show above the calls.")
    ] = "",
    answer: Annotated[
        str, typer.Option(metavar="TEXT", help="What the agent answered, to show below the calls.")
    ] = "",
) -> ExitCode:
    """Export calls as a KNIME workflow.

    One configured MCP Tool Caller per call of an MCP tool, in recorded order. Credentials are in it by name;
    secret arguments are placeholders. KNIME makes the calls again when it executes the workflow. Of more
    than 1,000 calls, the others are in OUT-2.knwf, OUT-3.knwf and so on.

    Example: knime-mcp audit export run.jsonl run.knwf
    """
    if out.suffix.lower() != ".knwf":
        raise UsageError(f"{out} should end in .knwf, as it is a KNIME workflow.")
    check_output(out)
    from ..audit.calls_table import ordered_calls
    from ..audit.verify import verify_file
    from ..tools.audit_workflow import save_audit_workflow

    with reading_records():
        verified = verify_file(file)
        if not any(run.count for run in verified.runs):
            raise CommandError(f"{file} holds no calls to export.")
        with writing(out):
            exported = save_audit_workflow(ordered_calls(file), out, question=question, answer=answer)
    note(f"Wrote {out}: {exported.text()}")
    if verified.verdict is Verdict.ALTERED:
        _complain_of(verified)
        return ExitCode.FAILED
    return ExitCode.OK


def _show_timeline(records: Iterable[CallRecord], verified: Verification) -> None:
    count = sum(run.count for run in verified.runs)
    if not count:
        note("There are no calls in this file.")
    for run, calls in groupby(islice(records, _CALLS_SHOWN), key=attrgetter("run")):
        rows = (
            (
                str(record.call or ""),
                _time(record),
                "" if record.duration is None else f"{record.duration:.3f} s",
                record.input_row or "",
                " ".join(filter(None, (record.tool_type, record.tool_name))),
                f"changed (says {record.status})" if verified.is_altered(record) else record.status.value,
                one_line(record.arguments, 60),
                one_line(record.result or record.error, 80),
            )
            for record in calls
        )
        columns = ("call", "at (UTC)", "took", "row", "tool", "status", "arguments", "result")
        show_table(f"Run {run}" if run else "Calls", columns, rows)
    if count > _CALLS_SHOWN:
        note(f"{counted(count - _CALLS_SHOWN, 'more call')} not shown. All: --json, or --out FILE")


def _time(record: CallRecord) -> str:
    moment = record.moment
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


_NameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The name of the key in signatures; by default user and machine."),
]
_KeyringOption = Annotated[
    bool, typer.Option("--keyring", help="Keep the private part in the system's keyring, not in the file.")
]


@reports_errors
def new(name: _NameOption = None, keyring: _KeyringOption = False) -> ExitCode:
    """Make the first key: from now on, journals of this user are signed.

    Prints the public key. Give it to those who are to check your journals.

    Example: knime-mcp audit key new
    """
    if _own():
        raise CommandError(f"There is a key already, in {keys_file()}. Another one: audit key rotate.")
    return _add(name, keyring=keyring)


@reports_errors
def show() -> ExitCode:
    """Print the public keys, the newest last, which is the one that signs.

    Example: knime-mcp audit key show
    """
    keys = _own()
    if not keys:
        raise CommandError(f"There is no key in {keys_file()}. Make one: audit key new.")
    for key in keys:
        print_text(str(key.public))
        place = "in the keyring" if key.private is None else f"in {keys_file()}"
        note(f"made {key.made}, {place}")
    if others_may_read(keys_file()):
        note(f"Others may read {keys_file()}, so nothing is signed: chmod 600 {keys_file()}")
    return ExitCode.OK


@reports_errors
def rotate(name: _NameOption = None, keyring: _KeyringOption = False) -> ExitCode:
    """Make another key, which signs from now on. What older keys signed can still be checked.

    Example: knime-mcp audit key rotate
    """
    if not _own():
        raise CommandError(f"There is no key in {keys_file()}. Make one: audit key new.")
    return _add(name, keyring=keyring)


@reports_errors
def trust(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY|@FILE", help="A public key, as audit key show prints it where it was made."
        ),
    ] = None,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Whose key it is, in your words.")] = "",
) -> ExitCode:
    """Remember whose a public key is: journals that it signed are then written by NAME's key.

    Take the key from that person, not from whoever gave you the journal. Without KEY: all that you know.

    Example: knime-mcp audit trust @ada.txt --as Ada
    """
    file, name = known_keys_file(), " ".join(visible(name).split())
    if key is not None and not name:
        raise UsageError("Whose key is it? Say it with --as NAME.")
    try:
        if key is None:
            known = known_keys(file)
            if not known:
                say("You know no key yet: knime-mcp audit trust KEY --as NAME")
                return ExitCode.OK
            show_table(None, ("whose", "key"), [(whose, str(each)) for each, whose in known.items()])
            note(f"They stand in {file}: one that you no longer trust, take out there")
            return ExitCode.OK
        public, earlier = PublicKey.parse(text_or_file(key, "KEY")[0]), known_keys(file)
        trust_key(file, public, name)
    except SignatureError as error:
        raise CommandError(f"{error}.") from None
    if (before := earlier.get(public, name)) != name:
        note(f"Until now it was {before}'s")
    if name in [whose for each, whose in earlier.items() if each != public]:
        note(f"{name} has another key, too: knime-mcp audit trust lists them")
    say(f"What {public.label} signed counts as written by {name}'s key from now on.")
    note(f"It stands in {file}")
    return ExitCode.OK


def _own() -> list[SigningKey]:
    try:
        return own_keys(keys_file())
    except SignatureError as error:
        raise CommandError(f"{error}.") from None


def _add(name: str | None, *, keyring: bool) -> ExitCode:
    # A name in a signed note has neither spaces nor a plus: https://c2sp.org/signed-note
    named = re.sub(r"[\s+]+", "-", name or f"{getpass.getuser()}@{platform.node()}")
    try:
        key = add_key(keys_file(), named, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", keyring=keyring)
    except SignatureError as error:
        raise CommandError(f"{error}.") from None
    print_text(str(key))
    note(f"Journals are signed from now on. The keys are listed in {keys_file()}: nobody else may read it")
    return ExitCode.OK
