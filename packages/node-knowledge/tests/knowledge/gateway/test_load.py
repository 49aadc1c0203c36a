"""What brief requests cost: no thread, because under load threads make each other wait."""

import threading

import pytest

V1 = "/api/v1/mcp"
NAMES = ["CSV Reader"] * 6


def workers():
    return {thread for thread in threading.enumerate() if "worker" in thread.name}


def invoke(name, **arguments):
    return "POST", f"{V1}/invoke", {"name": name, "arguments": arguments}


BRIEF = [
    ("GET", "/api/v1/public/health", None),
    ("GET", f"{V1}/health", None),
    ("GET", f"{V1}/tools", None),
    ("GET", f"{V1}/tools/search_nodes", None),
    invoke("search_nodes", query="excel", include_details=True),
    invoke("get_node_details", nodes=[{"id": "FLOW.IF"}] * 10),
    invoke("find_compatible", node={"id": "FLOW.IF"}),
    invoke("check_configuration", node={"id": "FLOW.IF"}, settings={}),
    invoke("node_knowledge_retriever", node_names=NAMES[:5]),
]
LONG = [
    invoke("get_node_details", nodes=[{"id": "FLOW.IF"}] * 11),
    invoke("node_knowledge_retriever", node_names=NAMES),
]


def new_workers(running, method, path, body):
    before = workers()
    with running.client() as client:
        assert client.request(method, path, json=body).status_code == 200
    return workers() - before


@pytest.mark.parametrize(("method", "path", "body"), BRIEF)
def test_what_is_brief_takes_no_thread(start, method, path, body):
    assert not new_workers(start(), method, path, body)


@pytest.mark.parametrize(("method", "path", "body"), LONG)
def test_what_takes_long_does_not_keep_others_waiting(start, method, path, body):
    assert new_workers(start(), method, path, body)
