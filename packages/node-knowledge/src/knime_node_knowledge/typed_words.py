"""The words of a query or phrase where what matters is a kind of thing, and not the thing itself.

*Bestellungen über 500 Euro*, *age < 18* and *invoices between 100 and 200* ask for the same: a comparison.
What is compared, and with which value, tells nothing. `typed_words` puts one word for the kind in its place,
in upper case, so that no word of a language is the same. Phrases (`sources.phrase_tables`) and queries are
read alike.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from .query_words import unaccented

COMPARED: Final = "LIMIT"  # with a number or a text
DATED: Final = "SINCE"  # with a date
OLDER: Final = "AGE"  # with a length of time
COMPUTED: Final = "ARITHMETIC"
RANKED: Final = "BEST"  # so many of the largest, smallest, best
DECIDED: Final = "OTHERWISE"  # one value if something holds, and another one if not
SHARED: Final = "SHARES"  # 80/20

_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = "#0?"  # a zero stays one, as it is also what gaps are filled with
_DATE: Final = "@"
_LONGEST: Final = 400
"""Longer texts are not read: nobody asks so, and every shape is tried everywhere."""


def _any(*lists: str) -> str:
    """A pattern for any of the words in lists, which ``;`` separates."""
    words = (word.replace(" ", r"\s") for listed in lists for word in listed.split("; "))
    return f"(?:{'|'.join(words)})"


_MONTH: Final = _any(
    "january; february; march; april; may; june; july; august; september; october; november; december",
    "januar; februar; marz; mai; juni; juli; oktober; dezember",
    "janvier; fevrier; mars; avril; juin; juillet; aout; septembre; octobre; novembre; decembre",
    "enero; febrero; marzo; abril; mayo; junio; julio; agosto; septiembre; octubre; noviembre; diciembre",
    "jan; feb; apr; jun; jul; aug; sep; oct; nov; dec",
)
_DAY_OF: Final = r"\d{1,2}(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?"
_IN_WORDS: Final = _any(
    "two; three; four; five; six; seven; eight; nine; ten; twelve; fifteen; twenty; fifty; hundred; thousand",
    "zwei; drei; vier; funf; sechs; sieben; acht; neun; zehn; zwolf; zwanzig; hundert; tausend",
    "deux; trois; quatre; cinq; sept; huit; neuf; dix; douze; vingt; cent; mille",
    "dos; tres; cuatro; cinco; seis; siete; ocho; nueve; diez; doce; veinte; cien; mil",
)
_UNIT: Final = _any(
    "euros?; eur; dollars?; usd; chf; francs?; franken; pounds?; gbp; dolares; pesos; cents?; percent",
    "prozent; pourcent; points?; punkte?; puntos; k; m; million(?:s|en|es)?; mio; millones",
)
_TIME: Final = _any(
    "seconds?; minutes?; hours?; days?; weeks?; months?; quarters?; years?; h; min; sec",
    "sekunden?; minuten?; stunden?; tag(?:e|en)?; wochen?; monat(?:e|en)?; jahr(?:e|en)?",
    "secondes?; heures?; jours?; semaines?; mois; ans?; annees?",
    "segundos?; minutos?; horas?; dias?; semanas?; mes(?:es)?; anos?",
)
_COMPARES: Final = _any(
    "(?:not |no )?(?:more|less|fewer|[a-z]{2,}er) than(?: or equal to)?; at least; at most; exceed(?:s|ing)?",
    "up to; (?:nicht )?(?:mehr|weniger|[a-z]{2,}er) als; mindestens; hochstens; maximal; minimal; bis zu",
    "(?:plus|moins) (?:de|que); (?:plus|moins) [a-z]+ que; au moins; au plus; (?:sup|inf)erieure?s? a",
    "au dessus de; en dessous de; au dela de; depass(?:e|ent|ant); jusqu.a; (?:mas|menos) (?:de|que)",
    "(?:mas|menos) [a-z]+ que; al menos; como (?:minimo|maximo)",
    "(?:mayor|menor|superior|inferior)(?:es)? (?:de|que|a)",
    "por encima de; por debajo de; equals?(?: to)?; gleich; egale?s? a; igual(?:es)? a",
)
_OVER: Final = _any(
    "over; above; under; below; beyond; uber; unter; oberhalb von; unterhalb von; sur; sobre; ab"
)
"""Before a length of time these say how long something takes: *average over 7 days*."""

_WHEN: Final = _any(
    "on or after; before; after; since; until; from; by; vor; nach; seit; bis; ab; von; avant; apres; depuis",
    "jusqu en; a partir d[eu]; antes de; despues de; desde; hasta; later than; earlier than; as of",
)
_ARTICLE: Final = r"(?:(?:the|dem|den|der|le|el|du)\s)?"
_AND: Final = rf"(?:\s{_UNIT})?\s(?:to|and|et|au|y|und|bis|a|al)\s{_ARTICLE}"
_MORE: Final = _any(
    "more; less; older; younger; above; below; over; under; mehr; weniger; alter; junger",
    "plus; moins; mas; menos",
)
_NO_SUPERLATIVE: Final = _any(
    "test; rest; west; nest; guest; quest; request; forest; interest; harvest; contest; invest; roster",
    "listen?; kosten?; posten?; kisten?; kasten; testen; muster; cluster; register; poster; raster; fenster",
)
_BEST: Final = rf"(?!{_NO_SUPERLATIVE}\b)" + _any(
    "[a-z]{3,}est; [a-z]{3,}ste[nrs]?; best(?: [a-z]+ing)?; worst; (?:most|least) [a-z]+; meist[a-z]*",
    "(?:[a-z]+ ){0,2}(?:meilleure?s?|pires?|plus [a-z]+)",
    "(?:[a-z]+ ){0,2}(?:mejores|peores|mas [a-z]+|con (?:mas|menos|mayor|menor))",
)
_ELSE: Final = _any(
    "otherwise; else; the rest; the others; all others; sonst; ansonsten; der rest; die anderen; sinon",
    "les autres; si no; los demas",
)
_NO_FACTOR: Final = _any("are; is; in; of; to; the; a; per; as")
_THEN: Final = _any("then; dann; alors; entonces")
_NAMED: Final = _any(
    "flag; mark; label; called; counts? as; classif(?:y|ied) as; kennzeichnen?; markieren?; nennen?",
    "gilt als; gelten als; marquer; etiqueter; marcar; etiquetar; set to; auf #0? setzen",
)


def _compiled(*shapes: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((put, re.compile(pattern)) for put, pattern in shapes)


_LITERALS: Final = _compiled(
    (_DATE, r"\b\d{4}-\d\d?(?:-\d\d?)?(?:t\d[\d:.]*z?)?(?!\w)"),
    (_DATE, r"\b\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d\d)(?!\w)"),
    (_DATE, rf"\b(?:{_DAY_OF})?{_MONTH}\s(?:\d{{1,2}},?\s)?(?:de\s)?\d{{4}}\b|\b{_DAY_OF}{_MONTH}\b"),
    (rf"\1{_DATE}", rf"(\b{_WHEN}\s)(?:19|20)\d\d\b"),
    (f" {SHARED} ", r"\b\d0\s?[/:]\s?\d0\b"),
    (" # # ", r"(?<![\w.,-])\d+-\d+(?![\w-])"),  # from and to: bins, ages, pages
    (" #0 ", r"(?<![\w.,])0(?![\w.,:/])"),
    (" # ", rf"(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?!\w)|\b{_IN_WORDS}\b"),
    (r" \g<0> ", r"<>|[<>!]=?|==?|[≤≥≠*()]"),
    (" ", r"[€$£%]"),
)
_SHAPES: Final = _compiled(
    (DATED, rf"\b(?:between|zwischen|entre)\s{_ARTICLE}@{_AND}@"),
    (DATED, rf"(?:\b{_WHEN}|[<>]=?|[≤≥])\s{_ARTICLE}@(?:{_AND}@)?"),
    (COMPARED, rf"\b(?:between|zwischen|entre)\s{_NUMBER}{_AND}{_NUMBER}(?:\s(?:{_UNIT}|{_TIME})\b)*"),
    (OLDER, rf"\b{_COMPARES}\s{_NUMBER}\s{_TIME}\b"),
    (COMPARED, rf"\b(?:{_COMPARES}|{_OVER}(?!\s{_NUMBER}\s{_TIME}\b))\s{_NUMBER}(?:\s{_UNIT}\b)*"),
    (COMPARED, rf"{_NUMBER}\s(?:(?:and|or|und|oder|et|ou|o|y)\s{_MORE}\b|\+(?=\s[a-z]))"),
    (COMPARED, rf"(?:[<>]=?|[≤≥≠]|!=|<>|==?)(?:\s{_NUMBER})?|\blike\s(?=['\"])|\bequals?\b"),
    (COMPARED, r"\b(?:gleich|egale?s?\sa|igual(?:es)?\sa)\b"),
    (RANKED, rf"\b(?:top|bottom|best|worst)\s{_NUMBER}|{_NUMBER}\s(?:[a-z]+\s)?{_BEST}\b"),
    (COMPUTED, r"(?<=[\w)#]\s)[*/+-]\s(?=[\w(#])(?!or\b)|\b(?:minus|divided\sby|multiplied\sby)\b"),
    (COMPUTED, r"\b(?:geteilt\sdurch|multipliziert\smit|(?:divis|multipli)ee?s?\spar)\b"),
    (COMPUTED, r"\b(?:dividid|multiplicad)[oa]s?\s(?:por|entre)\b"),
    (COMPUTED, r"(?<=[a-z]\s)(?:menos|moins)\s(?!de\b|que\b)"),
    (COMPUTED, rf"(?<=[a-z]\s)(?<!many\s)(?<!noch\s)(?:times|mal)\s(?=[a-z#])(?!{_NO_FACTOR}\b)"),
)
_CONDITION: Final = re.compile(
    "|".join(
        (
            rf"\b(?:if|when|wenn|falls|si)\b.*\b(?:{_ELSE}|{_THEN})\b",
            rf"\b{_NAMED}\b.*\b(?:{COMPARED}|{OLDER})\b",
            rf"\b(?:{COMPARED}|{OLDER})\b.*\b(?:{_NAMED}|{_ELSE}|{_THEN})\b",
        )
    )
)


@lru_cache(maxsize=20_000)
def typed_words(text: str) -> tuple[str, ...]:
    """The folded words of a text, with one in upper case for each kind; empty if it has no kind."""
    if len(text) > _LONGEST:
        return ()
    read = unaccented(text).casefold().replace("_", " ")
    # In their order: a date has numbers in it, which would be taken for numbers otherwise.
    for put, shape in _LITERALS:
        read = shape.sub(put, read)
    read = " ".join(read.split())
    for kind, shape in _SHAPES:
        read = shape.sub(f" {kind} ", read) if shape.search(read) else read
    read = " ".join(read.split())
    if _CONDITION.search(read):
        read = f"{read} {DECIDED}"
    words = tuple(_WORD.findall(read))
    return words if any(word.isupper() for word in words) else ()
