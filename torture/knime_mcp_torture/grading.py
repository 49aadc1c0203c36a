"""What a client made of a scenario, as one of a few verdicts."""

from collections import Counter
from dataclasses import dataclass

from .scenario import Outcome, Scenario

OK, INFORMAL, FAILED, MEMORY, HANG, CRASH = "ok", "informal", "failed", "memory", "hang", "crash"
MEANING = {
    OK: "what the rule asks for",
    INFORMAL: "right, but the next call in the session suffered",
    FAILED: "something else, such as a result where there was none, or a request to a foreign server",
    MEMORY: "right, but with more memory than a client may take",
    HANG: "no end within the suite's patience: the client's clock did not hold",
    CRASH: "the program ended",
}


@dataclass(frozen=True)
class Verdict:
    scenario: Scenario
    kind: str
    why: str
    outcome: Outcome


def grade(scenario: Scenario, outcome: Outcome, *, foreign_requests: int) -> Verdict:
    kind, why = _judged(scenario, outcome, foreign_requests)
    return Verdict(scenario, kind, why, outcome)


def _judged(scenario: Scenario, outcome: Outcome, foreign_requests: int) -> tuple[str, str]:
    if outcome.end:
        return outcome.end, MEANING[outcome.end]
    if foreign_requests:
        return FAILED, f"asked the other server {foreign_requests} times"
    if why := _wrong(scenario, outcome):
        return FAILED, why
    if outcome.memory > scenario.memory:
        return MEMORY, f"took {outcome.memory} MiB more"
    if scenario.then and (len(outcome.calls) < 2 or outcome.calls[1].get("text") != "good"):
        return INFORMAL, f"the next call: {outcome.calls[1] if len(outcome.calls) > 1 else 'not made'}"[:300]
    return OK, ""


def _wrong(scenario: Scenario, outcome: Outcome) -> str | None:
    """Why it is not what was expected; None if it is."""
    connected, listed = outcome.connect.get("ok") is True, outcome.tools is not None
    call = outcome.calls[0] if outcome.calls else None
    match scenario.expects:
        case "refuses":
            return "connected and listed" if connected and listed else None
        case "lists":
            if outcome.tools is not None and tuple(outcome.tools) == scenario.value:
                return None
            return f"listed {outcome.tools}"[:300]
        case "ends":
            return None
        case _ if not connected:
            return f"did not connect: {outcome.connect.get('error')}"
        case _ if call is None:
            return "made no call"
        case "fails":
            return None if "error" in call or call["is_error"] else f"gave the result {call['text']!r}"[:300]
        case _:
            if "error" in call:
                return f"gave the error {call['error']}"[:300]
            if scenario.value is not None and call["text"] != scenario.value:
                return f"gave the result {call['text']!r}"[:300]
            return None


def score(verdicts: list[Verdict]) -> Counter[str]:
    return Counter(verdict.kind for verdict in verdicts)
