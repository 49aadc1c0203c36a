"""The workflow engine's pack against the source documents: its list, its examples, its names of old."""

import pytest

from knime_node_knowledge.catalogue_file import packed, unpacked
from knime_node_knowledge.packs import own_packs
from knime_node_knowledge.sources.spec_packs import read_pack

#: The registry of the third version, line by line.
REGISTRY = {
    "TRIGGER": ["MANUAL", "WEBHOOK", "CRON", "GITHUB", "SLACK", "EMAIL"],
    "AI_AGENT": ["OPENAI_CHATGPT", "ANTHROPIC_CLAUDE", "GOOGLE_GEMINI"],
    "ACTION": ["HTTP_REQUEST", "DATA_TRANSFORMATION"],
    "EXTERNAL_ACTION": [
        *("SLACK", "GITHUB", "NOTION", "GOOGLE_CALENDAR", "FIRECRAWL", "DISCORD_ACTION", "TELEGRAM_ACTION"),
    ],
    "FLOW": ["IF", "LOOP", "MERGE", "FILTER", "SORT", "WAIT", "DELAY"],
    "HUMAN_IN_THE_LOOP": [
        *("SLACK_INTERACTION", "GMAIL_INTERACTION", "OUTLOOK_INTERACTION", "DISCORD_INTERACTION"),
        *("TELEGRAM_INTERACTION", "MANUAL_REVIEW"),
    ],
    "TOOL": [
        *("NOTION_MCP_TOOL", "GOOGLE_CALENDAR_MCP_TOOL", "SLACK_MCP_TOOL", "FIRECRAWL_MCP_TOOL"),
        "DISCORD_MCP_TOOL",
    ],
    "MEMORY": ["VECTOR_DATABASE", "CONVERSATION_BUFFER", "KEY_VALUE_STORE"],
}

#: What the first version's first example lists.
FIRST_VERSION = {
    "ACTION_NODE": [
        *("RUN_CODE", "HTTP_REQUEST", "PARSE_IMAGE", "WEB_SEARCH", "DATABASE_OPERATION", "FILE_OPERATION"),
        "DATA_TRANSFORMATION",
    ],
    "TRIGGER_NODE": [
        *("TRIGGER_MANUAL", "TRIGGER_CRON", "TRIGGER_WEBHOOK", "TRIGGER_CHAT", "TRIGGER_EMAIL"),
        *("TRIGGER_FORM", "TRIGGER_CALENDAR"),
    ],
    "AI_AGENT_NODE": ["GEMINI_NODE", "OPENAI_NODE", "CLAUDE_NODE"],
    "FLOW_NODE": ["IF", "FILTER", "LOOP", "MERGE", "SWITCH", "WAIT"],
    "TOOL_NODE": ["TOOL_GOOGLE_CALENDAR_MCP", "CALENDAR", "EMAIL", "HTTP"],
    "MEMORY_NODE": [
        *("MEMORY_VECTOR_STORE", "MEMORY_SIMPLE", "MEMORY_DOCUMENT", "MEMORY_BUFFER", "MEMORY_KNOWLEDGE"),
        "MEMORY_EMBEDDING",
    ],
    "HUMAN_LOOP_NODE": ["HUMAN_GMAIL", "HUMAN_SLACK", "HUMAN_DISCORD", "HUMAN_TELEGRAM", "HUMAN_APP"],
    "EXTERNAL_ACTION_NODE": [
        *("EXTERNAL_GITHUB", "EXTERNAL_GOOGLE_CALENDAR", "EXTERNAL_TRELLO", "EXTERNAL_EMAIL"),
        *("EXTERNAL_SLACK", "EXTERNAL_API_CALL", "EXTERNAL_WEBHOOK", "EXTERNAL_NOTIFICATION"),
    ],
}


@pytest.fixture(scope="module")
def pack():
    (path,) = [path for path in own_packs() if path.stem == "workflow-engine"]
    return read_pack(path)


@pytest.fixture(scope="module")
def nodes(pack):
    return {node.id: node for node in pack.nodes}


@pytest.mark.requirement("N3", "N4")
def test_the_pack_has_the_types_and_subtypes_of_the_registry_in_its_order(pack):
    found: dict[str, list[str]] = {}
    for node in pack.nodes:
        found.setdefault(node.node_type, []).append(node.subtype)
    assert found == REGISTRY
    assert list(found) == list(pack.types)
    assert sum(map(len, found.values())) == 39


def field(spec):
    """A field as the source's reply shows it."""
    shown = {"type": spec.type, "description": spec.description, "required": spec.required}
    extras = {
        "default": spec.default_value,
        "options": list(spec.enum_values),
        "min": spec.min,
        "max": spec.max,
    }
    return shown | {key: value for key, value in extras.items() if value not in (None, [])}


@pytest.mark.requirement("N6", "N8")
def test_the_sources_example_of_a_node_is_a_golden_example(nodes):
    node = nodes["AI_AGENT.OPENAI_CHATGPT"]
    assert node.version == "1.0.0"
    assert node.short_description == "OpenAI ChatGPT AI agent for conversational AI tasks"
    settings = {spec.name: field(spec) for spec in node.configurations}
    assert settings["model_version"] == {
        "type": "string",
        "default": "gpt-4",
        "description": "OpenAI model version",
        "required": True,
        "options": ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo"],
    }
    assert settings["temperature"] == {
        "type": "float",
        "default": 0.7,
        "description": "Sampling temperature",
        "required": False,
        "min": 0.0,
        "max": 2.0,
    }
    assert settings["system_prompt"] == {
        "type": "string",
        "default": "",
        "description": "System prompt to guide AI behavior",
        "required": False,
    }
    assert node.parameters == node.configurations
    assert [field(spec) for spec in node.input_params] == [
        {"type": "string", "required": True, "description": "User message to AI"}
    ]
    assert [(spec.name, spec.type, spec.description) for spec in node.output_params] == [
        ("output", "string", "AI response text")
    ]
    assert (node.input_ports, node.output_ports) == ((), ())
    assert node.tags == ("ai", "llm", "openai", "chat")
    # Further settings have no default: the defaults of the example are all there are, but for system_prompt.
    defaults = {spec.name: spec.default_value for spec in node.configurations if spec.has_default}
    assert defaults == {"model_version": "gpt-4", "temperature": 0.7, "system_prompt": ""}


@pytest.mark.requirement("N2")
def test_a_person_in_the_loop_needs_no_further_node_to_be_understood(nodes):
    for subtype in REGISTRY["HUMAN_IN_THE_LOOP"]:
        node = nodes[f"HUMAN_IN_THE_LOOP.{subtype}"]
        assert [port.name for port in node.output_ports] == ["confirmed", "rejected", "unrelated", "timeout"]
        assert "No IF or AI_AGENT node is needed" in node.description
        (answer,) = [spec for spec in node.output_params if spec.name == "classification"]
        assert answer.enum_values == ("confirmed", "rejected", "unrelated", "timeout")


def test_only_agents_have_attached_nodes(pack):
    for node in pack.nodes:
        assert (node.attached_nodes is not None) == (node.node_type == "AI_AGENT"), node.id


@pytest.mark.requirement("V1")
def test_every_name_of_the_first_version_is_known(pack, nodes):
    types = {old.node_type: old.instead for old in pack.old_names if old.subtype is None}
    old_names = {(old.node_type, old.subtype): old for old in pack.old_names if old.subtype is not None}
    for old_type, subtypes in FIRST_VERSION.items():
        (new_type,) = types[old_type]
        assert new_type in REGISTRY
        for subtype in subtypes:
            if f"{new_type}.{subtype}" in nodes:
                continue
            old = old_names.pop((old_type, subtype))
            assert old.instead, subtype
            assert old.exact or old.note, subtype
            assert all(node_id in nodes for node_id in old.instead)
    assert not old_names


def test_every_example_uses_settings_that_exist_and_gives_those_that_are_required(pack):
    for node in pack.nodes:
        needed = {spec.name for spec in node.configurations if spec.required and not spec.has_default}
        for example in node.examples:
            given = set(example["configurations"])
            assert needed <= given, (node.id, example["name"], needed - given)


def test_a_credential_is_named_and_never_written_down(pack):
    for node in pack.nodes:
        for spec in node.configurations:
            if spec.type in ("credential", "password"):
                assert spec.secret, (node.id, spec.name)
                assert not spec.default_value, (node.id, spec.name)


def test_every_node_can_be_stored(pack):
    for node in pack.nodes:
        assert unpacked(packed(node)) == node
