"""`node_knowledge_retriever` on the catalogue and on Supabase, and `elasticsearch`, on loopback."""

import socket

import pytest

from knime_mcp.types.errors import SettingInvalid
from knime_node_knowledge.gateway.gateway import TTLCache
from tests.knowledge.gateway.outside import KEY, outside

RETRIEVER = "node_knowledge_retriever"


@pytest.fixture
def there():
    with outside() as server:
        yield server


def retrieve(running, *names, **more):
    status, body = running.call(RETRIEVER, node_names=list(names), **more)
    assert status == 200, body
    return body["result"]


@pytest.mark.requirement("W3")
def test_the_catalogue_answers_by_name_and_says_how_similar(gateway):
    asked = ("HTTP_REQUEST", "ACTION.HTTP_REQUEST", "http request", "OPENAI_NODE", "http requests", "qqqq")
    found = retrieve(gateway, *asked)
    assert list(found) == ["success", "results", "total_nodes", "processing_time_ms"]
    by_name = {entry["node_name"]: entry for entry in found["results"]}
    assert list(by_name) == list(asked)
    for entry in found["results"]:
        assert list(entry) == ["node_name", "knowledge", "metadata", "similarity_score"]
    for name in asked[:3]:
        assert by_name[name]["similarity_score"] == 1.0
        assert by_name[name]["metadata"] == {}
        assert "(ACTION, HTTP_REQUEST)" in by_name[name]["knowledge"]
    assert by_name["OPENAI_NODE"]["similarity_score"] == 0.9
    assert 0.3 <= by_name["http requests"]["similarity_score"] < 1
    assert (by_name["qqqq"]["knowledge"], by_name["qqqq"]["similarity_score"]) == ("", None)
    assert by_name["qqqq"]["metadata"]["error"]
    assert found["total_nodes"] == 5


def test_metadata_comes_when_it_is_asked_for(gateway):
    (entry,) = retrieve(gateway, "MERGE", include_metadata=True)["results"]
    assert entry["metadata"]["subtype"] == "MERGE"
    assert entry["metadata"]["origin"].startswith("spec pack workflow-engine")


def test_less_similar_than_the_threshold_is_not_found(start):
    running = start(node_knowledge_default_threshold=0.95)
    assert retrieve(running, "OPENAI_NODE")["total_nodes"] == 0
    assert retrieve(running, "OPENAI_CHATGPT")["total_nodes"] == 1


def supabase(start, there, **more):
    environment = {"NODE_KNOWLEDGE_SUPABASE_URL": there.url, "NODE_KNOWLEDGE_SUPABASE_KEY": KEY}
    return start(environment=environment | more)


@pytest.mark.requirement("W3", "N30")
@pytest.mark.parametrize(
    "names",
    [
        "NODE_KNOWLEDGE_SUPABASE_URL NODE_KNOWLEDGE_SUPABASE_KEY",
        "SUPABASE_URL SUPABASE_SECRET_KEY",
        "SUPABASE_URL SUPABASE_ANON_KEY",
    ],
)
def test_a_supabase_project_answers_where_one_is_configured(start, there, names):
    url, key = names.split()
    running = start(environment={url: there.url + "/", key: KEY})
    found = retrieve(running, "HTTP Request", "Merge", "zzzz", include_metadata=True)
    first, second, none = found["results"]
    assert first["knowledge"] == "Calls a URL and hands on the answer."
    assert (first["similarity_score"], second["similarity_score"]) == (1.0, 1.0)
    assert first["metadata"]["capabilities"] == ["http"]
    assert first["metadata"]["node_subtype"] == "HTTP_REQUEST"
    assert (none["knowledge"], none["similarity_score"]) == ("", None)
    assert found["total_nodes"] == 2
    bodies = sorted((asked for _, asked, _ in there.asked), key=lambda asked: asked["query_text"])
    assert bodies[0] == {
        "query_text": "HTTP Request",
        "match_threshold": 0.3,
        "match_count": 1,
        "node_type_filter": None,
    }


def test_the_sources_function_gets_an_embedding(start, there):
    there.embeddings_only = True
    running = supabase(start, there, NODE_KNOWLEDGE_EMBEDDINGS_URL=f"{there.url}/v1")
    (entry,) = retrieve(running, "HTTP Request")["results"]
    assert entry["similarity_score"] == pytest.approx(1.0)
    assert there.asked[0][:2] == (
        "/v1/embeddings",
        {"model": "text-embedding-ada-002", "input": "HTTP Request"},
    )


@pytest.mark.requirement("W9", "V5")
def test_answers_are_kept_for_a_while(start, there):
    running = supabase(start, there)
    for _ in range(3):
        retrieve(running, "Merge", "Merge")
    assert len(there.asked) == 1
    metrics = running.gateway.metrics.exposed(healthy=True).decode()
    assert 'cache_lookups_total{cache="supabase",outcome="hit"} 2.0' in metrics
    off = supabase(start, there, GATEWAY_CACHE_SECONDS="0")
    for _ in range(2):
        retrieve(off, "Merge")
    assert len(there.asked) == 3


@pytest.mark.requirement("W6", "W7", "W11", "V6")
@pytest.mark.parametrize(
    ("answer", "status", "kind"),
    [
        ((503, {"code": "PGRST002", "message": "secret"}), 503, "SERVICE_ERROR"),
        ((429, {}), 503, "SERVICE_ERROR"),
        ((500, {"code": "XX000", "message": "secret"}), 500, "DATABASE_ERROR"),
        ((401, {"code": "PGRST301", "message": "secret"}), 500, "DATABASE_ERROR"),
        ((404, {"code": "PGRST202", "message": "secret"}), 500, "DATABASE_ERROR"),
        ((200, b"<html>secret"), 500, "DATABASE_ERROR"),
        ((200, {"message": "secret"}), 500, "DATABASE_ERROR"),
        ((200, [{"content": "secret"}]), 500, "DATABASE_ERROR"),
        ((200, [{"content": "secret", "similarity": "high"}]), 500, "DATABASE_ERROR"),
    ],
)
def test_what_supabase_gets_wrong_is_told_without_its_text(start, there, answer, status, kind):
    running = supabase(start, there)
    there.answer = answer
    found, body = running.call(RETRIEVER, node_names=["Merge"])
    assert (found, body["error_type"]) == (status, kind)
    assert "secret" not in str(body)
    assert KEY not in str(body)


def test_metadata_of_another_form_is_left_out(start, there):
    running = supabase(start, there)
    there.answer = (200, [{"title": "Merge", "content": "Merges.", "similarity": 1, "metadata": ["odd"]}])
    (entry,) = retrieve(running, "Merge", include_metadata=True)["results"]
    assert (entry["knowledge"], entry["metadata"]) == ("Merges.", {"title": "Merge"})


@pytest.mark.requirement("W7")
def test_a_service_that_is_not_there_is_503(start):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        running = start(
            environment={
                "SUPABASE_URL": url,
                "SUPABASE_SECRET_KEY": KEY,
                "ELASTICSEARCH_HOST": url,
                "ELASTICSEARCH_INDICES": "nodes",
            },
            elasticsearch_port=free.getsockname()[1],
        )
        status, body = running.call(RETRIEVER, node_names=["Merge"])
        assert (status, body["error_type"]) == (503, "SERVICE_ERROR")
        status, body = running.call("elasticsearch", index="nodes", query={"match_all": {}})
        assert (status, body["error_type"]) == (503, "SERVICE_ERROR")


@pytest.fixture
def searching(start, there):
    return start(
        environment={
            "ELASTICSEARCH_HOST": "127.0.0.1",
            "ELASTICSEARCH_PORT": str(there.server_port),
            "ELASTICSEARCH_INDICES": "nodes, nodes-2",
        }
    )


@pytest.mark.requirement("W4")
def test_elasticsearch_searches_an_allowed_index(searching, there):
    status, body = searching.call("elasticsearch", index="nodes", query={"match": {"title": "merge"}})
    assert status == 200
    assert body["result"]["hits"]["total"] == {"value": 2, "relation": "eq"}
    assert "_shards" not in body["result"]
    path, asked, _ = there.asked[-1]
    assert path.startswith("/nodes/_search")
    assert asked == {"query": {"match": {"title": "merge"}}, "size": 10, "timeout": "10s"}
    query = {"query": {"match_all": {}}, "size": 1, "_source": ["title"]}
    assert len(searching.call("elasticsearch", index="nodes", query=query)[1]["result"]["hits"]["hits"]) == 1
    assert there.asked[-1][1] == query | {"timeout": "10s"}


BUCKETS = {"terms": {"field": "a", "size": 100}}
NESTED = {"match_all": {}}
for _ in range(200):
    NESTED = {"bool": {"must": [NESTED], "wrapper": {}}}
EVERYTHING = {
    "query": {
        "bool": {
            "must": {"multi_match": {"query": "join", "fields": ["title^2", "text"], "type": "best_fields"}},
            "filter": [
                {"term": {"kind": "node"}},
                {"terms": {"tag": ["a", "b"], "boost": 2}},
                {"range": {"year": {"gte": 2020, "lt": 2027}}},
                {"nested": {"path": "ports", "query": {"exists": {"field": "ports.type"}}}},
                {"constant_score": {"filter": {"wildcard": {"name": {"value": "Row*"}}}}},
            ],
            "must_not": [{"ids": {"values": ["1"]}}, {"regexp": {"name": "x.*y"}}],
            "minimum_should_match": "50%",
        }
    },
    "from": 10,
    "size": 20,
    "sort": ["_score", {"year": {"order": "desc", "missing": "_last"}}, {"name": "asc"}],
    "_source": {"includes": ["title", "ports.*"]},
    "fields": ["title", {"field": "when", "format": "yyyy"}],
    "highlight": {
        "fields": {"title": {"number_of_fragments": 3}},
        "pre_tags": ["<b>"],
        "post_tags": ["</b>"],
    },
    "aggs": {
        "kinds": {
            "terms": {"field": "kind", "size": 20, "order": [{"_count": "desc"}, {"_key": "asc"}]},
            "aggs": {"best": {"top_hits": {"size": 1, "sort": [{"year": "desc"}], "_source": "title"}}},
        },
        "years": {"date_histogram": {"field": "when", "calendar_interval": "year"}},
        "prices": {"range": {"field": "price", "ranges": [{"to": 10}, {"from": 10}]}},
        "mine": {"filters": {"filters": {"joiners": {"match": {"title": {"query": "join"}}}}}},
        "mean": {"avg": {"field": "price"}},
    },
}


@pytest.mark.requirement("W4")
def test_elasticsearch_gets_whatever_is_allowed_as_it_was_sent(searching, there):
    status, body = searching.call("elasticsearch", index="nodes", query=EVERYTHING)
    assert status == 200, body
    assert there.asked[-1][1] == EVERYTHING | {"timeout": "10s"}


def test_what_elasticsearch_may_not_be_asked_is_said_with_its_place_and_what_may(searching):
    query = {"bool": {"filter": [{"term": {"a": 1}}, {"script": {"script": "1"}}]}}
    _, body = searching.call("elasticsearch", index="nodes", query=query)
    assert body["details"]["pointer"] == "/query/bool/filter/1"
    assert "'script' was unexpected" in body["error"]
    assert "Allowed queries: match_all, match_none, match, " in body["error"]
    assert "aggregations: avg, sum, " in body["error"]


@pytest.mark.requirement("W4")
def test_elasticsearch_reaches_no_further(subtests, searching, there):
    for index, query in [
        ("secrets", {"match_all": {}}),
        ("nodes,secrets", {"match_all": {}}),
        ("*", {"match_all": {}}),
        ("nodes", "match_all"),
        ("nodes", {"query": {"match_all": {}}, "size": 101}),
        ("nodes", {"query": {"match_all": {}}, "size": "1"}),
        ("nodes", {"query": {"match_all": {}}, "runtime_mappings": {}}),
        ("nodes", {"bool": {"filter": [{"script": {"script": "1"}}]}}),
        ("nodes", {"script_score": {"query": {"match_all": {}}}}),
        ("nodes", {"terms": {"user": {"index": "secrets", "id": "2", "path": "x"}}}),
        ("nodes", {"wrapper": {"query": "eyJ9"}}),
        ("nodes", {"more_like_this": {"like": [{"_index": "secrets", "_id": "1"}]}}),
        ("nodes", {"terms_set": {"tags": {"terms": ["a"], "minimum_should_match_script": {"source": "1"}}}}),
        ("nodes", {"regexp": {"name": {"value": "(a|b)*", "max_determinized_states": 2_000_000_000}}}),
        ("nodes", {"query_string": {"query": "/(a|b)*/"}}),
        ("nodes", {"geo_shape": {"where": {"indexed_shape": {"index": "secrets", "id": "1", "path": "x"}}}}),
        ("nodes", {"function_score": {"query": {"match_all": {}}}}),
        ("nodes", {"match": {"title": "a"}, "match_all": {}}),
        ("nodes", {"bool": {"must": {"terms": {"a": list(range(1_001))}}}}),
        ("nodes", {"aggs": {"many": {"terms": {"field": "a", "size": 1_000_000}}}}),
        ("nodes", {"aggs": {"a": {"terms": {"field": "a", "size": 100, "shard_size": 1_000_000}}}}),
        ("nodes", {"aggs": {"a": {"scripted_metric": {"map_script": "1"}}}}),
        ("nodes", {"aggs": {"a": {"terms": {"script": {"source": "1"}}}}}),
        ("nodes", {"aggs": {"a": {"global": {}}}}),
        ("nodes", {"aggs": {"a": BUCKETS | {"aggs": {"b": BUCKETS | {"aggs": {"c": BUCKETS}}}}}}),
        ("nodes", {"aggs": {"a": {"filters": {"filters": {"x": {"wrapper": {"query": "eyJ9"}}}}}}}),
        ("nodes", {"query": {"match_all": {}}, "sort": [{"_script": {"script": "1", "type": "number"}}]}),
        ("nodes", {"query": {"match_all": {}}, "from": 9_999, "size": 2}),
        ("nodes", {"highlight": {"fields": {"a": {"highlight_query": {"match_all": {}}}}}}),
        ("nodes", {"highlight": {"fields": {}, "number_of_fragments": 1_000_000}}),
        ("nodes", NESTED),
    ]:
        with subtests.test(index=index, query=query):
            status, body = searching.call("elasticsearch", index=index, query=query)
            assert (status, body["error_type"]) == (400, "PARAMETER_ERROR")
            assert there.asked == []


def test_a_query_that_elasticsearch_refuses_is_the_callers_error(searching, there):
    refusal = {"error": {"type": "parsing_exception", "reason": "secret"}, "status": 400}
    there.answer = (400, refusal)
    status, body = searching.call("elasticsearch", index="nodes", query={"range": {"no-date": {"gte": "x"}}})
    assert (status, body["error_type"]) == (400, "PARAMETER_ERROR")
    assert "parsing_exception" in body["error"]
    assert "secret" not in str(body)
    there.answer = (403, {"error": {"type": "security_exception", "reason": "secret"}, "status": 403})
    assert searching.call("elasticsearch", index="nodes", query={"match_all": {}})[0] == 500


@pytest.mark.parametrize(
    "host", ["http://127.0.0.1/nodes/es/", "http://127.0.0.1:{port}/nodes/es", "127.0.0.1/nodes/es"]
)
def test_elasticsearch_may_be_below_a_path(start, there, host):
    running = start(
        environment={
            "ELASTICSEARCH_HOST": host.format(port=there.server_port),
            "ELASTICSEARCH_PORT": str(there.server_port) if "{port}" not in host else "1",
            "ELASTICSEARCH_INDICES": "nodes",
        }
    )
    assert running.call("elasticsearch", index="nodes", query={"match_all": {}})[0] == 200
    assert there.asked[-1][0].startswith("/nodes/es/nodes/_search")


@pytest.mark.parametrize("host", ["es://here", "host:secret", "https://[::1"])
def test_a_host_of_elasticsearch_that_is_none_is_said(start, host):
    with pytest.raises(SettingInvalid, match="ELASTICSEARCH_HOST is neither") as caught:
        start(environment={"ELASTICSEARCH_HOST": host, "ELASTICSEARCH_INDICES": "nodes"})
    assert host not in str(caught.value)


@pytest.mark.requirement("V5", "W9")
def test_a_cache_keeps_answers_and_forgets_the_old_and_the_unused():
    now = [0.0]
    cache = TTLCache(seconds=10, most=2, now=lambda: now[0])
    answers = iter(range(100))

    def ask(key):
        if cache.get(key) is None:
            cache.put(key, next(answers))
        return cache.get(key)

    assert [ask("a"), ask("b"), ask("a")] == [0, 1, 0]
    now[0] = 10.0
    assert [ask("a"), ask("b")] == [2, 3]
    assert [ask("a"), ask("c"), ask("a"), ask("b")] == [2, 4, 2, 5]
