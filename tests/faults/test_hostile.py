"""Some random hostile replies; ``python -m tests.faults.hostile 1000`` makes many more."""

from tests.faults.hostile import try_many


def test_random_hostile_replies_give_a_result_or_an_error_of_ours_in_bounded_memory():
    def check(recipe, found):
        assert found["outcome"] == "result" or found["outcome"].startswith("KMCP-"), (recipe, found)
        assert found["outcome"] != "KMCP-OTHER", (recipe, found)
        assert found["more"] < 400, (recipe, found)

    try_many(15, check)
