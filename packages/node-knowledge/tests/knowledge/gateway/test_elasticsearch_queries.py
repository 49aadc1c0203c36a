"""What may be sent to Elasticsearch, against everything that its Query DSL knows besides."""

import copy

import pytest

from knime_node_knowledge.gateway.elasticsearch_queries import AllowedSearches
from knime_node_knowledge.gateway.gateway_errors import MCPError

MOST = 100
ALLOWED = AllowedSearches(MOST)
#: The kinds that no entry of the list has; each with a body that Elasticsearch takes.
QUERIES = {
    "script": {"script": {"source": "while(true){}"}},
    "script_score": {"query": {"match_all": {}}, "script": {"source": "1"}},
    "function_score": {"script_score": {"script": {"source": "1"}}},
    "terms_set": {"tags": {"terms": ["a"], "minimum_should_match_script": {"source": "params.num_terms"}}},
    "terms_set ": {"tags": {"terms": ["a"], "minimum_should_match_field": "n"}},
    "query_string": {"query": "/(a|b|c)*/ AND *:*", "max_determinized_states": 2_000_000_000},
    "wrapper": {"query": "eyJtYXRjaF9hbGwiOnt9fQ=="},
    "template": {"source": {"match_all": {}}},
    "more_like_this": {"like": [{"_index": "secrets", "_id": "1"}], "min_term_freq": 1},
    "percolate": {"field": "query", "index": "secrets", "id": "1"},
    "geo_shape": {"where": {"indexed_shape": {"index": "secrets", "id": "1", "path": "x"}}},
    "shape": {"where": {"indexed_shape": {"index": "secrets", "id": "1", "path": "x"}}},
    "has_child": {"type": "a", "query": {"match_all": {}}},
    "has_parent": {"parent_type": "a", "query": {"match_all": {}}},
    "parent_id": {"type": "a", "id": "1"},
    "intervals": {"a": {"match": {"query": "x", "filter": {"script": {"source": "1"}}}}},
    "distance_feature": {"field": "when", "pivot": "7d", "origin": "now"},
    "rank_feature": {"field": "a"},
    "pinned": {"ids": ["1"], "organic": {"match_all": {}}},
    "rule": {"organic": {"match_all": {}}, "ruleset_ids": ["a"], "match_criteria": {}},
    "semantic": {"field": "a", "query": "x"},
    "sparse_vector": {"field": "a", "inference_id": "b", "query": "x"},
    "text_expansion": {"a": {"model_id": "m", "model_text": "x"}},
    "weighted_tokens": {"a": {"tokens": {"x": 1}}},
    "knn": {"field": "a", "query_vector": [1], "k": 10_000, "num_candidates": 10_000},
    "span_multi": {"match": {"prefix": {"a": "b"}}},
    "span_near": {"clauses": [{"span_term": {"a": "b"}}], "slop": 2_000_000_000},
    "combined_fields": {"query": "x", "fields": ["a"]},
    "geo_distance": {"distance": "1km", "where": [0, 0]},
    "type": {"value": "_doc"},
    "common": {"a": {"query": "x"}},
}
AGGREGATIONS = {
    "scripted_metric": {"init_script": "1", "map_script": "1", "combine_script": "1", "reduce_script": "1"},
    "bucket_script": {"buckets_path": {}, "script": "1"},
    "bucket_selector": {"buckets_path": {}, "script": "1"},
    "moving_fn": {"buckets_path": "a", "window": 10, "script": "1"},
    "significant_terms": {"field": "a", "size": 1_000_000},
    "significant_text": {"field": "a", "filter_duplicate_text": True},
    "composite": {"size": 1_000_000, "sources": [{"a": {"terms": {"script": "1"}}}]},
    "multi_terms": {"terms": [{"field": "a"}, {"field": "b"}], "size": 1_000_000},
    "rare_terms": {"field": "a", "max_doc_count": 100, "precision": 0.00001},
    "adjacency_matrix": {"filters": {"a": {"match_all": {}}}},
    "auto_date_histogram": {"field": "a", "buckets": 1_000_000},
    "variable_width_histogram": {"field": "a", "buckets": 1_000_000},
    "geohash_grid": {"field": "a", "precision": 12, "size": 1_000_000},
    "geotile_grid": {"field": "a", "precision": 29, "size": 1_000_000},
    "geohex_grid": {"field": "a", "precision": 15, "size": 1_000_000},
    "ip_prefix": {"field": "a", "prefix_length": 32},
    "ip_range": {"field": "a", "ranges": [{"mask": "10.0.0.0/8"}]},
    "categorize_text": {"field": "a"},
    "frequent_item_sets": {"fields": [{"field": "a"}], "size": 1_000_000},
    "global": {},
    "sampler": {"shard_size": 1_000_000},
    "diversified_sampler": {"shard_size": 1_000_000, "script": {"source": "1"}},
    "random_sampler": {"probability": 1},
    "top_metrics": {"metrics": {"field": "a"}, "sort": {"a": "asc"}, "size": 1_000_000},
    "matrix_stats": {"fields": ["a"]},
    "weighted_avg": {"value": {"script": "1"}, "weight": {"field": "a"}},
    "percentile_ranks": {"field": "a", "values": [1], "script": "1"},
    "string_stats": {"field": "a"},
    "t_test": {"a": {"script": "1"}, "b": {"field": "b"}},
    "inference": {"model_id": "m", "buckets_path": {}},
    "parent": {"type": "a"},
    "children": {"type": "a"},
    "time_series": {},
}
#: Options that raise a limit, run a script, name something else, or come back without bound.
OPTIONS = {
    "match": {"a": {"query": "x", "max_expansions": 1_000_000}},
    "match_phrase_prefix": {"a": {"query": "x", "max_expansions": 1_000_000}},
    "match_phrase": {"a": {"query": "x x x x", "slop": 2_000_000_000}},
    "multi_match": {"query": "x", "fields": ["*"], "fuzzy_rewrite": "scoring_boolean"},
    "simple_query_string": {"query": "x~9", "fuzzy_max_expansions": 1_000_000},
    "prefix": {"a": {"value": "x", "rewrite": "scoring_boolean"}},
    "wildcard": {"a": {"value": "*x*", "rewrite": "top_terms_1000000"}},
    "regexp": {"a": {"value": "(a|b)*c", "max_determinized_states": 2_000_000_000}},
    "regexp ": {"a": {"value": "<0-1000000>", "flags": "ALL"}},
    "fuzzy": {"a": {"value": "x", "max_expansions": 1_000_000}},
    "terms": {"a": {"index": "secrets", "id": "1", "path": "x", "routing": "r"}},
    "terms ": {"a": [{"index": "secrets"}]},
    "range": {"a": {"gte": 1, "script": "1"}},
    "nested": {"path": "p", "query": {"match_all": {}}, "inner_hits": {"size": 1_000_000}},
    "ids": {"values": ["1"], "type": "secret"},
    "exists": {"field": "a", "index": "secrets"},
    "term": {"a": {"value": 1, "_name": "n"}},
    "bool": {"adjust_pure_negative": True},
    "constant_score": {"filter": {"script": {"script": "1"}}},
    "dis_max": {"queries": [{"match_all": {}}, {"percolate": {"field": "q", "document": {}}}]},
    "boosting": {"positive": {"match_all": {}}, "negative": {"wrapper": {"query": "e30="}}},
}
AGGREGATION_OPTIONS = {
    "terms": {"field": "a", "size": 1_000_000},
    "terms ": {"field": "a", "size": "1000000"},
    "terms  ": {"field": "a", "shard_size": 1_000_000},
    "terms   ": {"script": {"source": "1"}},
    "terms    ": {"field": "a", "execution_hint": "map"},
    "avg": {"script": {"source": "1"}},
    "cardinality": {"field": "a", "precision_threshold": 40_000},
    "percentiles": {"field": "a", "tdigest": {"compression": 1_000_000_000}},
    "percentiles ": {"field": "a", "hdr": {"number_of_significant_value_digits": 5}},
    "histogram": {"field": "a", "interval": 0},
    "histogram ": {"field": "a", "interval": "1e-300"},
    "histogram  ": {"field": "a", "interval": 1, "extended_bounds": {"min": 0, "max": 1_000_000_000}},
    "histogram   ": {"field": "a", "interval": 1, "hard_bounds": {"min": 0, "max": 1_000_000_000}},
    "date_histogram": {"field": "a", "fixed_interval": "1ms"},
    "date_histogram ": {"field": "a", "fixed_interval": "1s"},
    "date_histogram  ": {"field": "a", "calendar_interval": "1ms"},
    "date_histogram   ": {"field": "a", "fixed_interval": "1d", "extended_bounds": {"min": 0, "max": 9e15}},
    "date_histogram    ": {"field": "a", "interval": "1ms"},
    "top_hits": {"size": 1_000_000},
    "top_hits ": {"size": 1, "from": 1_000_000},
    "top_hits  ": {"size": 1, "from": "1000000"},
    "top_hits   ": {"script_fields": {"x": {"script": "1"}}},
    "top_hits    ": {"sort": [{"_script": {"script": "1", "type": "number"}}]},
    "top_hits     ": {"docvalue_fields": ["*"]},
    "filter": {"script": {"script": "1"}},
    "filters": {"filters": {"a": {"terms_set": {}}}},
    "filters ": {"filters": {str(number): {"match_all": {}} for number in range(MOST + 1)}},
    "range": {"field": "a", "ranges": [{"from": number} for number in range(MOST + 1)]},
    "range ": {"field": "a", "script": "1", "ranges": [{"to": 1}]},
}
PARTS = {
    "script_fields": {"x": {"script": {"source": "1"}}},
    "runtime_mappings": {"x": {"type": "long", "script": "emit(1)"}},
    "docvalue_fields": ["*"],
    "stored_fields": ["*"],
    "indices_boost": [{"secrets": 2}],
    "suggest": {"a": {"text": "x", "term": {"field": "a", "size": 1_000_000}}},
    "rescore": {"window_size": 1_000_000, "query": {"rescore_query": {"match_all": {}}}},
    "collapse": {"field": "a", "inner_hits": {"name": "n", "size": 1_000_000}},
    "knn": {"field": "a", "query_vector": [1], "k": 10, "num_candidates": 10_000},
    "retriever": {"standard": {"query": {"match_all": {}}}},
    "rank": {"rrf": {}},
    "pit": {"id": "x", "keep_alive": "30d"},
    "slice": {"id": 0, "max": 1_000_000},
    "search_after": [1],
    "post_filter": {"script": {"script": "1"}},
    "aggregations": {"a": {"global": {}}},
    "ext": {},
    "profile": True,
    "explain": True,
    "track_total_hits": True,
    "terminate_after": 1,
    "timeout": "1d",
    "version": True,
    "stats": ["x"],
    "size": 1_000_000,
    "from": -1,
    "size ": True,
    "size  ": "10",
    "from ": "9999999",
    "sort": [{"_script": {"type": "number", "script": {"source": "1"}}}],
    "sort ": [{"_geo_distance": {"where": [0, 0], "order": "asc"}}],
    "sort  ": [{"a": {"nested": {"path": "p", "filter": {"script": {"script": "1"}}}}}],
    "_source": {"includes": ["*"], "script": "1"},
    "fields": [{"field": "a", "include_unmapped": True, "script": "1"}],
    "highlight": {"fields": {"a": {"number_of_fragments": 1_000_000}}},
    "highlight ": {"fields": {"a": {"number_of_fragments": "1000000"}}},
    "highlight  ": {"fields": {"a": {"fragment_size": 2_000_000_000}}},
    "highlight   ": {"fields": {"a": {}}, "fragment_size": "2000000000"},
    "highlight    ": {"fields": {"a": {"matched_fields": ["*"]}}},
    "highlight     ": {"fields": {"a": {}}, "max_analyzed_offset": 2_000_000_000},
    "highlight      ": {"fields": {"a": {"phrase_limit": 2_000_000_000}}},
    "highlight       ": {"fields": {"a": {"options": {"return_offsets": True}}}},
}
PLACES = {
    "alone": lambda query: query,
    "in a body": lambda query: {"query": query},
    "in a list": lambda query: {"bool": {"should": [{"match_all": {}}, query]}},
    "alone in a clause": lambda query: {"bool": {"must_not": query}},
    "nested": lambda query: {"nested": {"path": "p", "query": {"constant_score": {"filter": query}}}},
    "best of": lambda query: {"dis_max": {"queries": [query]}},
    "boosted": lambda query: {"boosting": {"positive": query, "negative": query}},
    "in a filter": lambda query: {"aggs": {"a": {"filter": query}}},
    "in filters": lambda query: {"aggs": {"a": {"filters": {"filters": {"b": query}}}}},
    "below": lambda query: {"aggs": {"a": {"terms": {"field": "x"}, "aggs": {"b": {"filter": query}}}}},
}
AGGREGATION_PLACES = {
    "alone": lambda found: {"aggs": {"a": found}},
    "below": lambda found: {"aggs": {"a": {"terms": {"field": "x"}, "aggs": {"b": found}}}},
    "beside": lambda found: {"query": {"match_all": {}}, "aggs": {"a": {"avg": {"field": "x"}}, "b": found}},
}


def refused(body):
    before = copy.deepcopy(body)
    with pytest.raises(MCPError) as caught:
        ALLOWED.body(body)
    assert caught.value.status == 400
    assert body == before
    assert len(caught.value.user_message) < 3_000


@pytest.mark.requirement("W4")
def test_no_other_query_and_no_other_option_passes_anywhere(subtests):
    for kind in [*QUERIES, *OPTIONS]:
        with subtests.test(kind=kind):
            for place in PLACES.values():
                refused(place({kind.strip(): (QUERIES | OPTIONS)[kind]}))


def test_no_other_aggregation_and_no_larger_one_passes_anywhere(subtests):
    for kind in [*AGGREGATIONS, *AGGREGATION_OPTIONS]:
        with subtests.test(kind=kind):
            for place in AGGREGATION_PLACES.values():
                refused(place({kind.strip(): (AGGREGATIONS | AGGREGATION_OPTIONS)[kind]}))


def test_no_other_part_of_a_body_passes(subtests):
    for part in PARTS:
        with subtests.test(part=part):
            refused({"query": {"match_all": {}}, part.strip(): PARTS[part]})


@pytest.mark.parametrize("aggregation", ["aggs", "terms", "filters", "range"])
def test_sizes_multiply(aggregation):
    level = {
        "terms": {"terms": {"field": "a", "size": MOST}},
        "aggs": {"terms": {"field": "a", "size": MOST}},
        "filters": {"filters": {"filters": {str(n): {"match_all": {}} for n in range(MOST)}}},
        "range": {"range": {"field": "a", "ranges": [{"from": n} for n in range(MOST)]}},
    }[aggregation]
    body = {"aggs": {"a": level | {"aggs": {"b": level | {"aggs": {"c": level}}}}}}
    refused(body)
    assert ALLOWED.body({"aggs": {"a": level}})["aggs"] == {"a": level}


def test_a_body_nested_too_deeply_is_refused():
    deep = {"match_all": {}}
    for _ in range(200):
        deep = {"bool": {"must": [deep]}}
    with pytest.raises(MCPError, match="do not fit"):
        ALLOWED.body(deep)


def test_kinds_are_compared_letter_by_letter():
    for kind in (
        "Match_all",
        "match_all ",
        "MATCH_ALL",
        "match\u200b_all",
        "matchAll",
        "match_аll",
        "",
        "_all",
    ):
        refused({"bool": {"must": {kind: {}}}})


@pytest.mark.parametrize("option", ["script", "max_expansions", "rewrite", "inner_hits", "_name", "index"])
def test_no_query_has_an_option_of_another(option):
    for kind in ("match_all", "match_none", "exists", "ids", "bool", "dis_max", "nested"):
        refused({kind: {option: {"source": "1"}}})
        refused({kind: {option: "1"}})
