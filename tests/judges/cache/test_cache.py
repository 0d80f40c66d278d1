"""The cache of verdicts: it answers only what its judge would have been asked in the same words."""

import asyncio
import hashlib
import json
import os
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.cache import CachedJudge, DiskStore, MemoryStore, VerdictStore
from judges.criteria.catalogue import load_catalogue
from judges.criteria.criterion import Criterion
from judges.judge import Judge, unscored_verdict
from judges.values.evaluation import JudgeVerdict, Reason, Samples, Status, Tokens
from judges.values.interaction import Case

CLARITY = load_catalogue("rag")["clarity"]
GROUNDEDNESS = load_catalogue("rag")["groundedness"]
FIELDS = {"question": "How long?", "answer": "30 days.", "contexts": ("Within 30 days.",), "history": ()}


def case(record: str = "a", **fields: Any) -> Case:
    return Case(id=record, fields={**FIELDS, **fields}, language="en")


class CountingJudge(Judge):
    """A judge that counts its calls; each verdict holds the number of the call."""

    name = "asked"

    def __init__(self, identity: str = "asked v1", *, fails: bool = False) -> None:
        self._identity = identity
        self._fails = fails
        self.times = 0

    @property
    def identity(self) -> str:
        return self._identity

    async def verdict(self, case: Case, criterion: Criterion, *, reverse: bool) -> JudgeVerdict:
        self.times += 1
        samples = Samples(requested=1, valid=1)
        if self._fails:
            return unscored_verdict(self.name, Reason.TIMEOUT, "too late", samples=Samples(requested=1, error=1))
        return JudgeVerdict(
            judge=self.name,
            status=Status.SCORED,
            score=0.5,
            explanation=f"time {self.times}",
            samples=samples,
            tokens=Tokens(prompt=10, completion=2),
            cost_usd=0.001,
        )


def judge_cases(judge: Judge, *asked: tuple[Case, Criterion]) -> list[JudgeVerdict]:
    async def all_of_them() -> list[JudgeVerdict]:
        return [await judge.judge(case, criterion) for case, criterion in asked]

    return asyncio.run(all_of_them())


def memory(**options: Any) -> MemoryStore:
    return MemoryStore(**{"entries": 100, "seconds": 60.0, **options})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestJudge:
    def test_the_same_texts_are_judged_once_and_cost_nothing_again(self) -> None:
        judge = CountingJudge()
        first, second = judge_cases(CachedJudge(judge, memory()), (case("a"), CLARITY), (case("b"), CLARITY))
        assert judge.times == 1
        assert (first.cached, first.cost_usd, first.tokens) == (False, 0.001, Tokens(prompt=10, completion=2))
        assert (second.cached, second.cost_usd, second.tokens) == (True, 0.0, None)
        assert (second.score, second.explanation) == (first.score, first.explanation)
        assert second.latency_ms < 1000

    @pytest.mark.parametrize(
        "other",
        [
            (case(answer="31 days."), CLARITY),
            (case(question="How long, then?"), CLARITY),
            (case(), GROUNDEDNESS),
            (case(), CLARITY.model_copy(update={"question": GROUNDEDNESS.question})),
            (Case(id="a", fields=FIELDS, language="ru"), CLARITY),
        ],
        ids=["answer", "context", "criterion", "wording of the criterion", "language"],
    )
    def test_any_change_of_the_prompt_is_a_cache_miss(self, other: tuple[Case, Criterion]) -> None:
        judge = CountingJudge()
        judge_cases(CachedJudge(judge, memory()), (case(), CLARITY), other)
        assert judge.times == 2

    def test_fields_that_the_criterion_does_not_show_do_not_matter(self) -> None:
        assert "contexts" not in (CLARITY.context or ())
        judge = CountingJudge()
        judge_cases(CachedJudge(judge, memory()), (case(), CLARITY), (case(contexts=("Other.",)), CLARITY))
        assert judge.times == 1

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("criterion", [CLARITY, GROUNDEDNESS], ids=["clarity", "groundedness"])
    def test_keys_stay_as_they_are_in_files_that_were_written_before(self, criterion: Criterion, reverse: bool) -> None:
        asked = case(answer='30 "days", ждите \ud800', note=("a", "b"))
        names = sorted({criterion.to_evaluate, *criterion.context} if criterion.context is not None else asked.fields)
        fields = {name: asked.fields[name] for name in names}
        parts = ["asked v1", criterion.model_dump_json(), fields, "en", reverse]
        expected = hashlib.sha256(json.dumps(parts).encode()).digest()
        judge = CachedJudge(CountingJudge(), memory())
        assert [judge._key(asked, criterion, reverse=reverse) for _ in range(2)] == [expected] * 2

    def test_the_order_of_options_is_part_of_the_key(self) -> None:
        judge = CountingJudge()
        cached = CachedJudge(judge, memory())

        async def both() -> None:
            await cached.judge(case(), CLARITY)
            await cached.judge(case(), CLARITY, reverse=True)

        asyncio.run(both())
        assert judge.times == 2

    def test_no_verdict_outlives_its_judge(self) -> None:
        store, old, new = memory(), CountingJudge("v1"), CountingJudge("v2")
        judge_cases(CachedJudge(old, store), (case(), CLARITY))
        judge_cases(CachedJudge(new, store), (case(), CLARITY))
        assert (old.times, new.times) == (1, 1)

    def test_a_failure_is_not_kept(self) -> None:
        judge = CountingJudge(fails=True)
        verdicts = judge_cases(CachedJudge(judge, memory()), (case(), CLARITY), (case(), CLARITY))
        assert judge.times == 2
        assert [verdict.cached for verdict in verdicts] == [False, False]

    def test_an_invalid_entry_in_the_store_is_judged_again(self) -> None:
        class Junk(MemoryStore):
            async def get(self, key: bytes) -> bytes | None:
                return b'{"judge": 7}'

        judge = CountingJudge()
        [verdict] = judge_cases(CachedJudge(judge, Junk(10, 60.0)), (case(), CLARITY))
        assert (judge.times, verdict.cached) == (1, False)

    def test_it_can_replace_its_judge(self) -> None:
        judge = CountingJudge()
        judge.family, judge.only = "llama", frozenset({"clarity"})
        cached = CachedJudge(judge, memory())
        assert (cached.name, cached.identity, cached.calls) == (judge.name, judge.identity, judge.calls)
        assert (cached.family, cached.only, cached.paused) == (judge.family, judge.only, None)
        assert cached.refusal(GROUNDEDNESS) == judge.refusal(GROUNDEDNESS)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 8)),
            st.tuples(st.just("get"), st.integers(0, 8)),
            st.tuples(st.just("wait"), st.integers(0, 30)),
        ),
        max_size=60,
    )
)
def test_memory_keeps_the_last_used_and_nothing_old(steps: list[tuple[str, int]]) -> None:
    """Compared with a plain list of the last uses."""

    async def play() -> None:
        clock = Clock()
        store, used = MemoryStore(3, 50.0, clock), dict[int, tuple[float, int]]()
        for number, (what, key) in enumerate(steps):
            if what == "wait":
                clock.now += key
            elif what == "put":
                used.pop(key, None)
                used[key] = clock.now, number
                await store.put(bytes([key]), str(number).encode())
                while len(used) > 3:
                    del used[next(iter(used))]
            else:
                stored, expected = await store.get(bytes([key])), used.pop(key, None)
                fresh = expected is not None and clock.now - expected[0] <= 50.0
                assert stored == (str(expected[1]).encode() if expected is not None and fresh else None)
                if expected is not None and fresh:
                    used[key] = expected
            assert len(store) <= 3

    asyncio.run(play())


class TestDisk:
    def using(self, path: Path, work: Callable[[DiskStore], Awaitable[Any]], **options: Any) -> Any:
        async def inside() -> Any:
            store = DiskStore(path, **{"entries": 1000, "seconds": 60.0, **options})
            try:
                return await work(store)
            finally:
                await store.aclose()

        return asyncio.run(inside())

    def test_it_outlives_the_process(self, tmp_path: Path) -> None:
        path, judge = tmp_path / "verdicts.db", CountingJudge()

        async def once(store: VerdictStore) -> JudgeVerdict:
            return await CachedJudge(judge, store).judge(case(), CLARITY)

        first, second = self.using(path, once), self.using(path, once)
        assert (judge.times, first.cached, second.cached) == (1, False, True)

    def test_old_entries_have_expired(self, tmp_path: Path) -> None:
        clock = Clock()

        async def later(store: VerdictStore) -> tuple[bytes | None, bytes | None]:
            await store.put(b"k", b"v")
            clock.now += 59
            young = await store.get(b"k")
            clock.now += 2
            return young, await store.get(b"k")

        assert self.using(tmp_path / "verdicts.db", later, clock=clock) == (b"v", None)

    def test_it_stays_about_as_large_as_it_may(self, tmp_path: Path) -> None:
        path, clock = tmp_path / "verdicts.db", Clock()

        async def many(store: VerdictStore) -> None:
            for number in range(1000):
                clock.now += 0.01
                await store.put(str(number).encode(), b"v")

        self.using(path, many, entries=100, clock=clock)
        with sqlite3.connect(path) as file:
            keys = [int(key) for (key,) in file.execute("SELECT key FROM verdicts ORDER BY at")]
        assert keys == list(range(keys[0], 1000))
        assert 100 <= len(keys) < 100 + 256

    def test_two_processes_may_share_it(self, tmp_path: Path) -> None:
        path = tmp_path / "verdicts.db"

        async def together(one: VerdictStore) -> bytes | None:
            other = DiskStore(path, 1000, 60.0)
            await asyncio.gather(*(store.put(bytes([n]), b"v") for n in range(100) for store in (one, other)))
            await other.aclose()
            return await one.get(bytes([99]))

        assert self.using(path, together) == b"v"

    def test_an_invalid_file_is_named_at_the_start(self, tmp_path: Path) -> None:
        path = tmp_path / "verdicts.db"
        path.write_bytes(os.urandom(4096))
        with pytest.raises(OSError, match=r"cannot use .*verdicts\.db as a verdict cache"):
            DiskStore(path, 10, 60.0)

    def test_a_file_that_breaks_later_only_disables_the_cache(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path, judge = tmp_path / "verdicts.db", CountingJudge()

        async def broken(store: VerdictStore) -> list[JudgeVerdict]:
            with sqlite3.connect(path) as file:
                file.execute("DROP TABLE verdicts")
            cached = CachedJudge(judge, store)
            return [await cached.judge(case(), CLARITY) for _ in range(2)]

        verdicts = self.using(path, broken)
        assert [verdict.status for verdict in verdicts] == [Status.SCORED, Status.SCORED]
        assert judge.times == 2
        assert len(caplog.records) == 1
