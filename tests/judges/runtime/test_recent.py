"""Remembered results: computed once while in use, and limited in number."""

from judges.runtime.recent import RecentResults, ResultsByOwner


class Maker:
    def __init__(self) -> None:
        self.made: list[object] = []

    def __call__(self, *key: object) -> str:
        self.made.append(key)
        return f"of {key}"


def test_a_result_is_made_once() -> None:
    make = Maker()
    recent = RecentResults(make, size=len, most=10_000)
    assert [recent(text) for text in ("a", "b", "a")] == ["of ('a',)", "of ('b',)", "of ('a',)"]
    assert make.made == [("a",), ("b",)]


def test_a_full_memory_starts_again_empty() -> None:
    make = Maker()
    recent = RecentResults(make, size=len, most=10_000)
    for number in range(100):
        recent(f"{number:03}" * 500)
    assert len(recent._results) <= 10_000 // 1500
    assert recent("099" * 500) == make("099" * 500)


def test_many_short_keys_count_as_much_as_a_few_long_ones() -> None:
    recent = RecentResults(Maker(), size=len, most=10_000)
    for number in range(1_000):
        recent(str(number))
    assert len(recent._results) <= 50


def test_a_key_that_is_too_long_is_not_kept() -> None:
    recent = RecentResults(Maker(), size=len, most=10_000)
    recent("a" * 10_000)
    assert not recent._results


def test_results_of_an_owner_differ_by_the_settings_and_by_the_owner() -> None:
    make = Maker()
    recent: ResultsByOwner[list[int], str] = ResultsByOwner(make)
    one, equal = [1], [1]
    for owner in (one, equal, one):
        for setting in ("en", "ru"):
            recent(owner, setting)
    assert len(make.made) == 4


def test_results_of_owners_are_bounded() -> None:
    recent: ResultsByOwner[list[int], str] = ResultsByOwner(Maker(), most=8)
    for number in range(100):
        assert recent([number], "en") == f"of ([{number}], 'en')"
    assert len(recent._results) <= 8
