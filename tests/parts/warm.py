"""Imported last by the process of which stages are copies: does once what each of them would do as it starts."""

import gc

from stream.service.setup.config_file import load
from tests.parts.local_judge import LOCAL_JUDGE

# Reads the catalogue and the words of the local judge, and keeps them.
load(None, LOCAL_JUDGE)
# No garbage collection of a copy looks at what it shares with the others.
gc.collect()
gc.freeze()
