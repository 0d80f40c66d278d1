"""The contract of a store of verdicts: bytes by key, dropped when they are old or too many."""

from typing import Protocol


class VerdictStore(Protocol):
    """Never raises: an entry that cannot be read is absent, and one that cannot be written is dropped."""

    async def get(self, key: bytes) -> bytes | None: ...

    async def put(self, key: bytes, value: bytes) -> None: ...

    async def aclose(self) -> None: ...
