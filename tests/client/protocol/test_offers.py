import pytest

from knime_mcp.client.protocol.offers import (
    PromptDefinition,
    ResourceDefinition,
    contents_of,
    expanded,
    messages_of_prompt,
    variables_of,
)
from knime_mcp.client.protocol.tools import EmbeddedResource, TextContent, UnknownContent

pytestmark = pytest.mark.quick


VALUES = {"var": "value", "hello": "Hello World!", "path": "/foo/bar", "x": "1024", "y": "768", "empty": ""}


# The examples of RFC 6570, section 1.2 and 3.2, as far as their values are texts.
@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{+hello}", "Hello%20World!"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("X{#hello}", "X#Hello%20World!"),
        ("map?{x,y}", "map?1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("X{.var}", "X.value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{var:3}", "val"),
        ("{?x,gone}", "?x=1024"),
        ("a{?gone}", "a"),
        ("plain", "plain"),
    ],
)
def test_templates_are_expanded_as_the_rfc_says(template, uri):
    assert expanded(template, VALUES) == uri


def test_the_variables_of_a_template():
    assert variables_of("a://{x}/{+path*}{?x,y:3}") == ["x", "path", "y"]


def test_definitions_are_read_whatever_they_hold():
    assert ResourceDefinition.from_raw({"uri": 5, "size": "big", "name": None}).uri in ("", "5")
    template = ResourceDefinition.from_raw(
        {"uriTemplate": "a://{x}", "mimeType": "text/plain"}, is_template=True
    )
    assert (template.uri, template.mime_type, template.is_template) == ("a://{x}", "text/plain", True)
    odd = PromptDefinition.from_raw({"name": "p", "arguments": [None, {"name": "a", "required": "yes"}, {}]})
    assert [tuple(argument) for argument in odd.arguments] == [("a", None, False)]


def test_a_prompt_has_another_digest_if_it_says_something_else():
    prompt = {"name": "p", "description": "d", "arguments": [{"name": "a", "required": True}]}
    digest = PromptDefinition.from_raw(prompt).digest
    assert PromptDefinition.from_raw({**prompt, "title": "shown"}).digest == digest
    assert PromptDefinition.from_raw({**prompt, "description": "other"}).digest != digest
    assert PromptDefinition.from_raw({**prompt, "arguments": [{"name": "a"}]}).digest != digest


def test_answers_are_read_whatever_they_hold():
    assert contents_of({}) == ()
    (one,) = contents_of({"contents": {"uri": "a:b", "text": "x"}})
    assert one == EmbeddedResource("a:b", text="x")
    assert isinstance(contents_of({"contents": [{"uri": "a:b", "blob": "no base64!"}]})[0], UnknownContent)
    assert messages_of_prompt({"messages": "no"}) == ()
    raw = {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "a"}, "b"]}, None]}
    assert [tuple(message) for message in messages_of_prompt(raw)][:2] == [
        ("assistant", TextContent("a")),
        ("assistant", TextContent("b")),
    ]


def test_a_length_of_thousands_of_digits_is_none():
    assert expanded("a://{x:" + "9" * 5000 + "}", {"x": "whole"}) == "a://whole"
