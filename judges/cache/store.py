"""The contract of a store of verdicts: bytes by key, forgotten when they are old or too many."""

from typing import Protocol


class VerdictStore(Protocol):
    """Never raises: what cannot be read is not there, and what cannot be written is not kept."""

    async def get(self, key: bytes) -> bytes | None: ...

    async def put(self, key: bytes, value: bytes) -> None: ...

    async def aclose(self) -> None: ...
