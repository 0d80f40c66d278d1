"""Narrows a configuration for one run: some of its criteria and judges, and other parameters of the models."""

from collections.abc import Mapping, Sequence
from typing import Any

from judges.criteria.criterion import Criterion
from judges.criteria.problems import InconsistentError, Problem, unknown
from stream.config.criteria import choose_criteria, criterion_origins
from stream.config.model import Config
from stream.service.setup.criteria_files import read_criteria_files
from stream.service.setup.draft import Draft
from stream.service.setup.judge_reference import PROVIDERS
from stream.service.setup.problems import ConfigError
from stream.service.setup.validation import validated

_SEATS = ("panel", "reserves")


def narrowed(
    config: Config,
    *,
    criteria: Sequence[str] = (),
    judges: Sequence[str] = (),
    sections: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int | None = None,
    temperature: float | None = None,
) -> Config:
    """The configuration with only these criteria and judges, where any are named; raises ConfigError.

    `sections` holds those of the judges that are not in the configuration, by the name they were asked for with.
    The criterion that decides about safety stays in any case: without its verdict no answer passes.
    """
    data = config.model_dump()
    # Validated again, a default would count as written, and may name a criterion that is not judged.
    if "floors" not in config.objectives.model_fields_set:
        del data["objectives"]["floors"]
    if judges:
        _keep_judges(data, config, judges, sections or {})
    if criteria:
        _keep_criteria(data, config, criteria)
    for seats in _SEATS:
        for judge in data["judges"][seats]:
            wanted = {"seed": seed, "temperature": temperature}
            # A section that was not dumped leaves out what has a default.
            takes = {*judge, *(wanted if "model" in judge else ())}
            judge.update({key: value for key, value in wanted.items() if value is not None and key in takes})
    return _checked(data)


def _keep_judges(
    data: dict[str, Any], config: Config, names: Sequence[str], sections: Mapping[str, Mapping[str, Any]]
) -> None:
    """Those named are the panel; nobody stands in for them."""
    known = [judge.name for judge in (*config.judges.panel, *config.judges.reserves)]
    strangers = [
        Problem(path=f"--judge {each}", message=_unknown_judge(each, known))
        for each in names
        if each not in known and each not in sections
    ]
    if strangers:
        raise ConfigError(None, strangers)
    section = data["judges"]
    kept = [each for each in (*section["panel"], *section["reserves"]) if each["name"] in names]
    section["panel"] = kept + [dict(sections[each]) for each in dict.fromkeys(names) if each in sections]
    section["reserves"] = []
    _forget_absent(section)


def _unknown_judge(name: str, known: Sequence[str]) -> str:
    return f"needs a model: write {name}/MODEL" if name in PROVIDERS else unknown("judge", name, known)


def _keep_criteria(data: dict[str, Any], config: Config, names: Sequence[str]) -> None:
    """Those named; what the configuration says about others is left out, and who was kept for those is."""
    own = read_criteria_files(config.criteria.files)
    before = criterion_origins(config.criteria.use, own)
    safety = before.get(config.composite.safety, config.composite.safety)
    # A name by which a result is published means that criterion, even where other catalogues have one of that name.
    origins = [before.get(name, name) for name in names]
    use = origins if safety in _origins_of(origins, own).values() else [*origins, safety]
    # A short name that several had may be free now: what is said about a criterion follows it to its new name.
    now = {origin: name for name, origin in _origins_of(use, own).items()}
    renamed = {name: now[origin] for name, origin in before.items() if origin in now}
    data["criteria"]["use"] = use
    composite = data["composite"]
    composite["safety"] = renamed.get(config.composite.safety, config.composite.safety)
    for key in ("weights", "thresholds", "target_options"):
        composite[key] = {renamed[name]: value for name, value in composite[key].items() if name in renamed}
    composite["required"] = [renamed[name] for name in composite["required"] if name in renamed]
    # They are about the stream, and may be about criteria that are not judged here.
    data["objectives"] = {}
    section = data["judges"]
    for seats in _SEATS:
        for judge in section[seats]:
            if judge.get("criteria"):
                judge["criteria"] = [renamed[name] for name in judge["criteria"] if name in renamed]
        section[seats] = [judge for judge in section[seats] if judge.get("criteria") != []]
    _forget_absent(section)


def _origins_of(names: Sequence[str], own: Mapping[str, Criterion]) -> Mapping[str, str]:
    try:
        choose_criteria(names, own)
        return criterion_origins(names, own)
    except InconsistentError as error:
        found = [(names[loc[0]] if loc and isinstance(loc[0], int) else "", message) for loc, message in error.found]
        problems = [Problem(path=f"--criteria {name}".strip(), message=message) for name, message in found]
        raise ConfigError(None, problems) from None


def _forget_absent(section: dict[str, Any]) -> None:
    """Leaves out what is said about judges that are not there any more."""
    panel = [judge["name"] for judge in section["panel"]]
    seated = [*panel, *(judge["name"] for judge in section["reserves"])]
    section["weights"] = {name: weight for name, weight in section["weights"].items() if name in seated}
    if section["quorum"] is not None:
        section["quorum"] = min(section["quorum"], len(panel)) or None
    cascade = section["cascade"]
    if cascade is not None:
        cascade["first"] = [name for name in cascade["first"] if name in panel]
        if len(cascade["first"]) in (0, len(panel)):
            section["cascade"] = None


def _checked(data: Mapping[str, Any]) -> Config:
    """Validates as a file is validated; keys have been let in already."""
    draft = Draft(data=data)
    for seats in _SEATS:
        places = range(len(data["judges"][seats]))
        draft.from_environment |= {("judges", seats, place, "api_key") for place in places}
    config = validated(draft)
    if config is None or draft.problems:
        raise ConfigError(None, draft.all_problems())
    return config
