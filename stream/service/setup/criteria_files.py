"""The user's criteria files: reads them, and selects the criteria that a configuration chooses."""

from collections.abc import Mapping, Sequence

from judges.criteria.catalogue import CriteriaError, load_criteria
from judges.criteria.criterion import Criterion
from judges.criteria.problems import InconsistentError, Loc
from stream.config.criteria import choose_criteria
from stream.config.sections.criteria import CriteriaConfig


def load_chosen_criteria(config: CriteriaConfig) -> Mapping[str, Criterion]:
    """Load the criteria to judge, including the user's files; raises InconsistentError with all problems."""
    return choose_criteria(config.use, read_criteria_files(config.files))


def read_criteria_files(files: Sequence[str]) -> Mapping[str, Criterion]:
    """Read the criteria of the user's files; raises InconsistentError with all problems, each at its file."""
    own: dict[str, Criterion] = {}
    origin: dict[str, str] = {}
    problems: list[tuple[Loc, str]] = []
    for number, file in enumerate(files):
        try:
            criteria = load_criteria(file)
        except CriteriaError as error:
            problems += [((number,), f"{file}: {problem}") for problem in error.problems]
            continue
        for name in criteria:
            if name in own:
                problems.append(((number,), f"{file}: {origin[name]} also defines a criterion named {name!r}"))
        origin |= dict.fromkeys(criteria, file)
        own |= criteria
    if problems:
        raise InconsistentError(problems)
    return own
