from datetime import UTC, datetime

import pytest

from knime_mcp.client.refusals import Challenge, parse_challenges, parse_retry_after

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("header", "challenges"),
    [
        (None, []),
        ("", []),
        ("Bearer", [Challenge("Bearer", {})]),
        (
            'Bearer resource_metadata="https://h/x", scope="a b", error=invalid_token',
            [
                Challenge(
                    "Bearer", {"resource_metadata": "https://h/x", "scope": "a b", "error": "invalid_token"}
                )
            ],
        ),
        ('Basic realm="a \\"b\\", c"', [Challenge("Basic", {"realm": 'a "b", c'})]),
        (
            'Basic realm="x", Bearer scope=s , Negotiate abc==',
            [
                Challenge("Basic", {"realm": "x"}),
                Challenge("Bearer", {"scope": "s"}),
                Challenge("Negotiate", {}),
            ],
        ),
    ],
)
def test_each_challenge_of_a_header_is_read_with_its_parameters(header, challenges):
    assert parse_challenges(header) == challenges


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        (" 120 ", 120.0),
        ("0.5", 0.5),
        ("Sat, 21 Nov 2026 08:00:10 GMT", 10.0),
        ("Sat, 21 Nov 2026 07:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, seconds):
    assert parse_retry_after(value, datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)) == seconds
