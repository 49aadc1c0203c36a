"""Which searches the tool ``elasticsearch`` passes on: a schema of queries and aggregations, and their sizes.

What is not in the schema is refused, also what later versions of Elasticsearch add. So no search runs a
script, reads another index (lookups of terms, shapes and documents), hides a query in another one, or raises
a limit of the server (``max_determinized_states``). Sizes are numbers, as Elasticsearch also takes a text for
one. How many buckets a histogram has only Elasticsearch knows; it refuses more than ``search.max_buckets``.
https://www.elastic.co/docs/reference/query-languages/query-dsl
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from knime_mcp.types.texts import pointer_text
from knime_mcp.yaml_text import as_list, as_mapping

from .gateway import does_not_fit

if TYPE_CHECKING:
    from collections.abc import Iterable

_Schema = dict[str, Any]
NAME: Final = "elasticsearch"
_DEFAULT_SIZE: Final = 10
_MOST_BUCKETS: Final = 10_000
_LAST_HIT: Final = 10_000  # as ``index.max_result_window``
_LARGEST_SLOP: Final = 100
_DEEPEST: Final = 100
_LARGEST_FRAGMENT: Final = 10_000

_PLAIN: Final = ["string", "number", "boolean", "null"]
_VALUE: Final[_Schema] = {"type": _PLAIN, "maxLength": 4_096}
_VALUES: Final[_Schema] = _VALUE | {"type": [*_PLAIN, "array"], "items": _VALUE, "maxItems": 1_000}
_QUERY: Final[_Schema] = {"$ref": "#/$defs/query"}


def _object(names: str = "", **special: _Schema) -> _Schema:
    """An object with these keys for plain values, and `special` ones, and no others."""
    properties = dict.fromkeys(names.split(), _VALUE) | special
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _up_to(most: int, least: int = 0) -> _Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def _map_of(schema: _Schema, most: int = 100) -> _Schema:
    return {"type": "object", "additionalProperties": schema, "maxProperties": most}


def _or_list(schema: _Schema, most: int = 1_000) -> _Schema:
    return {"if": {"type": "array"}, "then": {"items": schema, "maxItems": most}, "else": schema}


def _by_field(names: str, **special: _Schema) -> _Schema:
    """A field with options, or with a plain value instead of them, as in ``{"term": {"a": 1}}``."""
    return _map_of(_object(names, **special) | _VALUE | {"type": [*_PLAIN, "object"]})


_TEXT: Final = "query operator minimum_should_match fuzziness analyzer lenient boost"
_PHRASE: Final = _by_field("query analyzer boost", slop=_up_to(_LARGEST_SLOP))
_TERM: Final = "value case_insensitive boost"
_QUERIES: Final[_Schema] = {
    "match_all": _object("boost"),
    "match_none": _object(),
    "match": _by_field(_TEXT),
    "match_bool_prefix": _by_field(_TEXT),
    "match_phrase": _PHRASE,
    "match_phrase_prefix": _PHRASE,
    "multi_match": _object(f"{_TEXT} type tie_breaker", fields=_VALUES),
    "simple_query_string": _object("query default_operator analyzer lenient boost", fields=_VALUES),
    "term": _by_field(_TERM),
    "terms": _map_of(_VALUES),  # an object instead of a list would look the terms up in another index
    "prefix": _by_field(_TERM),
    "wildcard": _by_field(f"{_TERM} wildcard"),
    "regexp": _by_field(_TERM),
    "fuzzy": _by_field(f"{_TERM} fuzziness prefix_length transpositions"),
    "range": _by_field("gt gte lt lte format relation time_zone boost"),
    "exists": _object("field boost"),
    "ids": _object(values=_VALUES),
    "bool": _object(
        "minimum_should_match boost",
        **dict.fromkeys(("must", "should", "filter", "must_not"), _or_list(_QUERY)),
    ),
    "constant_score": _object("boost", filter=_QUERY),
    "dis_max": _object("tie_breaker boost", queries=_or_list(_QUERY)),
    "boosting": _object("negative_boost", positive=_QUERY, negative=_QUERY),
    "nested": _object("path score_mode ignore_unmapped", query=_QUERY),
}
_OPTIONAL: Final = {"type": [*_PLAIN, "object"]}
_SORT: Final = _or_list(_by_field("order mode missing unmapped_type format") | _OPTIONAL)
_SOURCE: Final = _or_list(_object(includes=_VALUES, excludes=_VALUES) | _VALUE | _OPTIONAL)


def _aggregations(most: int) -> _Schema:
    size = _up_to(most, 1)
    bounds = _or_list(_object("from to key"), most)
    ranges = _object("field keyed format missing time_zone", ranges=bounds)
    histogram = "field min_doc_count missing offset keyed format time_zone"
    listed = {"order": _or_list(_map_of(_VALUE)), "include": _VALUES, "exclude": _VALUES}
    metrics = ("avg", "sum", "min", "max", "value_count", "stats", "extended_stats", "cardinality", "missing")
    return {
        **dict.fromkeys(metrics, _object("field missing")),
        "percentiles": _object("field missing keyed", percents=_VALUES),
        "terms": _object("field missing min_doc_count", size=size, **listed),
        "histogram": _object(histogram, interval={"type": "number", "exclusiveMinimum": 0}),
        "date_histogram": _object(
            histogram,
            calendar_interval={"pattern": "^(1?[mhdwMqy]|minute|hour|day|week|month|quarter|year)$"} | _VALUE,
            fixed_interval={"pattern": "^[1-9][0-9]{0,5}[mhd]$"} | _VALUE,
        ),
        "range": ranges,
        "date_range": ranges,
        "filter": _QUERY,
        "filters": _object("other_bucket other_bucket_key", filters=_map_of(_QUERY, most)),
        "nested": _object("path"),
        "reverse_nested": _object("path"),
        "top_hits": _object("", size=size, sort=_SORT, _source=_SOURCE),
        "aggs": {"$ref": "#/$defs/aggs"},
    }


class AllowedSearches:
    """The searches of an index; `most` limits hits, and the buckets of each aggregation."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._aggregations = _aggregations(most)
        styles = "type order encoder require_field_match"
        marks = {
            "pre_tags": _VALUES,
            "post_tags": _VALUES,
            "number_of_fragments": _up_to(most),
            "fragment_size": _up_to(_LARGEST_FRAGMENT),
        }
        begin = {"from": _up_to(_LAST_HIT)}
        self._body = _object(
            "",
            query=_QUERY,
            size=_up_to(most),
            aggs={"$ref": "#/$defs/aggs"},
            sort=_SORT,
            _source=_SOURCE,
            fields=_or_list(_object("field format") | _VALUE | _OPTIONAL),
            highlight=_object(styles, fields=_map_of(_object(styles, **marks)), **marks),
            **begin,
        )
        one_of = {"additionalProperties": False, "type": "object", "minProperties": 1}
        aggregation = one_of | {"properties": self._aggregations, "maxProperties": 2}
        definitions = {
            "query": one_of | {"properties": _QUERIES, "maxProperties": 1},
            "aggs": _map_of(aggregation, 20),
        }
        self._validator = jsonschema_rs.validator_for(self._body | {"$defs": definitions})

    def body(self, query: dict[str, Any]) -> dict[str, Any]:
        """The body of a search, which may be given as its query alone; an error says what is not allowed."""
        keys: _Schema = self._body["properties"]
        is_body = not set(query).isdisjoint(keys)
        body: dict[str, Any] = dict(query) if is_body else {"query": query}
        if unknown := ", ".join(sorted(set(body) - set(keys)))[:200]:
            what = f"A search body may not have {unknown}. Allowed: {', '.join(sorted(keys))}."
            raise does_not_fit(NAME, "/query", what)
        # Before the schema, which refers to itself and is checked by recursion.
        if _levels(body) > _DEEPEST:
            raise does_not_fit(NAME, "/query", f"is nested deeper than {_DEEPEST} levels")
        try:
            found = next(iter(self._validator.iter_errors(body)), None)
        except ValueError:
            raise does_not_fit(NAME, "/query", "has a number that is too large") from None
        if found is not None:
            pointer = pointer_text(found.instance_path[0 if is_body else 1 :])
            kinds = f"queries: {', '.join(_QUERIES)}; aggregations: {', '.join(self._aggregations)}"
            what = f"{str(found.message)[:300]}. Allowed {kinds}."
            raise does_not_fit(NAME, f"/query{pointer}"[:400], what)
        body.setdefault("size", min(_DEFAULT_SIZE, self._most))
        if body["size"] + body.get("from", 0) > _LAST_HIT:
            raise does_not_fit(NAME, "/query/from", f"from and size reach to hit {_LAST_HIT} at most")
        if (buckets := _buckets(body.get("aggs", {}))) > _MOST_BUCKETS:
            what = f"{buckets} buckets are too many: {_MOST_BUCKETS} at most. Ask for smaller sizes."
            raise does_not_fit(NAME, "/query/aggs", what)
        return body


def _levels(value: Any) -> int:
    """How deeply a value is nested; counted level by level, as recursion would end at Python's own limit."""
    levels, inner = 0, [value]
    while inner := [part for value in inner for part in _parts(value)]:
        levels += 1
    return levels


def _parts(value: Any) -> Iterable[Any]:
    return as_mapping(value).values() or as_list(value)


def _buckets(aggregations: dict[str, Any]) -> int:
    """How many buckets and hits aggregations have at most, as far as the request says."""
    total = 0
    for entry in aggregations.values():
        own: int = entry["terms"].get("size", _DEFAULT_SIZE) if "terms" in entry else 1
        if "top_hits" in entry:
            # Elasticsearch's own default.
            own = entry["top_hits"].get("size", 3)
        for kind, parts in (("range", "ranges"), ("date_range", "ranges"), ("filters", "filters")):
            # Buckets within buckets multiply.
            own *= max(1, len(entry.get(kind, {}).get(parts, ())))
        total += own * (1 + _buckets(entry.get("aggs", {})))
    return total
