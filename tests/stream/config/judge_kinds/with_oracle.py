"""The command line with one more judge kind, registered like every other kind."""

from stream.config import judge_kinds
from tests.stream.config.judge_kinds.oracle_kind import OracleJudgeConfig

# The line that a new kind adds. Judging processes import the command that starts them, and so this module, which
# registers the kind there as well.
judge_kinds.JUDGE_KINDS = (*judge_kinds.JUDGE_KINDS, OracleJudgeConfig)

if __name__ == "__main__":
    from stream.cli.main import main

    main()
