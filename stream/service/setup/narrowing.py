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
from stream.service.setup.validation import validate_draft

_SEATS = ("panel", "reserves")


def narrow_config(
    config: Config,
    *,
    criteria: Sequence[str] = (),
    judges: Sequence[str] = (),
    sections: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int | None = None,
    temperature: float | None = None,
) -> Config:
    """Keep only these criteria and judges, if any are named; raises ConfigError.

    `sections` holds the sections of judges that are not in the configuration, by the requested name.
    The safety criterion always stays: without its verdict no answer passes.
    """
    data = config.model_dump()
    # Validated again, a default would count as written, and may name a criterion that is not judged.
    if "floors" not in config.objectives.model_fields_set:
        del data["objectives"]["floors"]
    if "use" not in config.criteria.model_fields_set:
        del data["criteria"]["use"]
    if judges:
        _keep_judges(data, config, judges, sections or {})
    if criteria:
        _keep_criteria(data, config, criteria)
    for seats in _SEATS:
        for judge in data["judges"][seats]:
            wanted = {"seed": seed, "temperature": temperature}
            # A section that was not dumped lacks keys with a default.
            takes = {*judge, *(wanted if "model" in judge else ())}
            judge.update({key: value for key, value in wanted.items() if value is not None and key in takes})
    # Likewise the default panel, which may have a judge for none of these criteria.
    if not judges and not config.judges.is_panel_configured:
        del data["judges"]["panel"]
    return _validate(data)


def _keep_judges(
    data: dict[str, Any], config: Config, names: Sequence[str], sections: Mapping[str, Mapping[str, Any]]
) -> None:
    """Make the named judges the panel, without reserves."""
    configured = [judge.name for judge in (*config.judges.panel, *config.judges.reserves)]
    problems = [
        Problem(path=f"--judge {name}", message=_unknown_judge(name, configured))
        for name in names
        if name not in configured and name not in sections
    ]
    if problems:
        raise ConfigError(None, problems)
    section = data["judges"]
    panel = [judge for judge in (*section["panel"], *section["reserves"]) if judge["name"] in names]
    section["panel"] = panel + [dict(sections[name]) for name in dict.fromkeys(names) if name in sections]
    section["reserves"] = []
    _forget_absent(section)


def _unknown_judge(name: str, configured: Sequence[str]) -> str:
    return f"needs a model: write {name}/MODEL" if name in PROVIDERS else unknown("judge", name, configured)


def _keep_criteria(data: dict[str, Any], config: Config, names: Sequence[str]) -> None:
    """Keep the named criteria; drop settings of other criteria, and judges that are only for those."""
    own = read_criteria_files(config.criteria.files)
    before = criterion_origins(config.criteria.use, own)
    safety = before.get(config.composite.safety, config.composite.safety)
    # A published name means that criterion, even if other catalogues have one of the same name.
    origins = [before.get(name, name) for name in names]
    use = origins if safety in _origins_of(origins, own).values() else [*origins, safety]
    # A short name that several criteria had may be free now: settings of a criterion follow it to its new name.
    now = {origin: name for name, origin in _origins_of(use, own).items()}
    renamed = {name: now[origin] for name, origin in before.items() if origin in now}
    data["criteria"]["use"] = use
    composite = data["composite"]
    composite["safety"] = renamed.get(config.composite.safety, config.composite.safety)
    for key in ("weights", "thresholds", "target_options"):
        composite[key] = {renamed[name]: value for name, value in composite[key].items() if name in renamed}
    composite["unweighted"] = [
        renamed.get(name, name) for name in composite["unweighted"] if name in renamed or "." in name
    ]
    composite["required"] = [renamed[name] for name in composite["required"] if name in renamed]
    # Objectives are for the stream, and may name criteria that are not judged here.
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
        named = [(names[loc[0]] if loc and isinstance(loc[0], int) else "", message) for loc, message in error.found]
        problems = [Problem(path=f"--criteria {name}".strip(), message=message) for name, message in named]
        raise ConfigError(None, problems) from None


def _forget_absent(section: dict[str, Any]) -> None:
    """Drop settings of judges that are not there any more."""
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


def _validate(data: Mapping[str, Any]) -> Config:
    """Validate as a file is validated; API keys were accepted already."""
    draft = Draft(data=data)
    for seats in _SEATS:
        places = range(len(data["judges"].get(seats, ())))
        draft.from_environment |= {("judges", seats, place, "api_key") for place in places}
    config = validate_draft(draft)
    if config is None or draft.problems:
        raise ConfigError(None, draft.all_problems())
    return config
