"""How many threads do something at once."""

import threading


class AtOnce:
    """A block that any number of threads may enter; it keeps the most that were in it at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._inside -= 1
