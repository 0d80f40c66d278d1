"""Run a command that ends with the process that started this one, even by SIGKILL: python child.py COMMAND ...

The parent holds the write end of our standard input. It puts us into a separate process group, which it signals as
a whole.
"""

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    # A handler, not SIG_IGN, which the command would inherit: it takes the signal itself, and we wait for it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_kill_after_parent, args=(command,), daemon=True).start()
    return command.wait()


def _kill_after_parent(command: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1024):
        pass
    command.kill()


if __name__ == "__main__":
    sys.exit(main())
