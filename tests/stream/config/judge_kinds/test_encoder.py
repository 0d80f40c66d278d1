"""The judge kind `encoder`: the default panel, paths, missing extras, and problems of a model by path."""

from pathlib import Path

import pytest

from judges.criteria.problems import InconsistentError
from judges.encoder import session
from judges.models.redaction import Redactor
from judges.panel import Panel
from judges.scripted import ScriptedJudge
from judges.values.interaction import Interaction
from stream.config.judge_kinds import encoder
from stream.config.judge_kinds.base import SharedParts
from stream.config.judge_kinds.encoder import EncoderJudgeConfig, default_encoder
from stream.config.judge_kinds.local import LocalJudgeConfig
from stream.config.model import Config
from stream.config.sections.judges import JudgesConfig
from stream.errors import StageError
from stream.service.setup.config_file import load
from stream.service.setup.evaluator import build_evaluator, criteria_by_judge, open_evaluator
from stream.service.setup.narrowing import narrow_config
from stream.service.setup.problems import ConfigError
from tests.parts.onnx_model import write_model

SHARED = SharedParts(redactor=Redactor((), {}), verdicts=None)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "models" / "words", {"dragons": (4.0,)})


@pytest.fixture
def shipped(model: Path, monkeypatch: pytest.MonkeyPatch, default_panel: None) -> Path:
    """A small model in place of the shipped one, in the default panel."""
    monkeypatch.setattr(encoder, "SHIPPED", model)
    return model


class TestDefaultPanel:
    @pytest.mark.usefixtures("shipped")
    def test_it_has_the_local_judge_and_the_shipped_model(self) -> None:
        config = Config()
        assert [judge.name for judge in config.judges.panel] == ["local", "encoder"]
        assert build_evaluator(config).info.judges == ("local", "encoder")
        assert criteria_by_judge(config)["encoder"] == ["groundedness"]

    @pytest.mark.usefixtures("shipped")
    def test_without_the_packages_it_is_the_local_judge_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session, "_PACKAGES", ("no_such_package",))
        assert default_encoder() == ()
        assert [judge.name for judge in Config().judges.panel] == ["local"]

    def test_without_its_files_it_is_the_local_judge_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(encoder, "SHIPPED", tmp_path)
        assert default_encoder() == ()

    @pytest.mark.usefixtures("shipped")
    def test_a_judge_with_nothing_to_judge_is_left_out_of_it(self) -> None:
        config = Config.model_validate({"criteria": {"use": ["rag.clarity", "rag.harmfulness"]}})
        assert build_evaluator(config).info.judges == ("local",)
        narrowed = narrow_config(Config(), criteria=["clarity"])
        assert build_evaluator(narrowed).info.judges == ("local",)
        assert build_evaluator(narrow_config(Config(), criteria=["groundedness"])).info.judges == ("local", "encoder")

    def test_to_configure_a_judge_with_nothing_to_judge_is_a_mistake(self, model: Path) -> None:
        panel = [{"kind": "local"}, {"kind": "encoder", "path": str(model)}]
        criteria = {"use": ["rag.clarity", "rag.harmfulness"]}
        with pytest.raises(InconsistentError, match=r"judges\.panel\[1\]: cannot judge any of the criteria"):
            build_evaluator(Config.model_validate({"judges": {"panel": panel}, "criteria": criteria}))


class TestCombination:
    def test_both_shipped_judges_must_find_a_fault(self) -> None:
        pair = (LocalJudgeConfig(), EncoderJudgeConfig())
        assert JudgesConfig(panel=pair).combine_rule == "max"
        assert JudgesConfig(panel=pair, combine="mean").combine_rule == "mean"
        assert JudgesConfig(panel=pair[:1]).combine_rule == "mean"
        assert JudgesConfig(panel=(LocalJudgeConfig(), EncoderJudgeConfig(path="other"))).combine_rule == "mean"

    @pytest.mark.parametrize(("local", "trained", "level"), [(0, 2, 2), (2, 0, 2), (1, 0, 1), (0, 1, 1), (0, 0, 0)])
    def test_the_level_is_the_better_of_the_two(self, local: int, trained: int, level: int) -> None:
        judges = [ScriptedJudge({"groundedness": local}, "local"), ScriptedJudge({"groundedness": trained}, "encoder")]
        fields = {"id": "1", "question": "Is it?", "answer": "It is.", "contexts": [{"text": "It may be."}]}
        row = Interaction.model_validate(fields)
        [finding] = Panel(judges=judges, combine="max").evaluate([row], "rag.groundedness")
        assert (finding.level, finding.score) == (level, level / 2)


class TestProblems:
    def test_all_problems_of_the_description_are_reported_at_the_path(self, model: Path) -> None:
        file = model / "model.yaml"
        file.write_text(file.read_text().replace("licence", "license").replace("tests/words", "a b"))
        with pytest.raises(InconsistentError) as error:
            EncoderJudgeConfig(path=str(model)).build(SHARED)
        assert [(loc, message.partition("model.yaml: ")[2]) for loc, message in error.value.found] == [
            (("path",), "name: must be letters, digits, '_', '.', '/' and '-'"),
            (("path",), "licence: is required"),
            (("path",), "license: unknown key; did you mean 'licence'?"),
        ]

    def test_a_path_is_relative_to_the_configuration_file(self, model: Path, tmp_path: Path) -> None:
        file = tmp_path / "streamjury.yaml"
        file.write_text("judges: {panel: [{kind: encoder, path: models/words}]}\ncriteria: {use: [rag.harmfulness]}\n")
        with pytest.raises(ConfigError) as error:
            load(file, {})
        assert "the model tests/words judges groundedness" in str(error.value)

    def test_a_model_that_cannot_be_loaded_stops_the_start(self, model: Path) -> None:
        (model / "model.onnx").write_bytes(b"another model")
        panel = [{"kind": "local"}, {"kind": "encoder", "path": str(model)}]
        with pytest.raises(StageError, match=r"cannot load a judge: .*model\.sha256: does not match model\.onnx"):
            open_evaluator(Config.model_validate({"judges": {"panel": panel}}))

    def test_a_missing_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert EncoderJudgeConfig().missing_extra() is None
        monkeypatch.setattr(session, "_PACKAGES", ("no_such_package",))
        assert "pip install 'streamjury[encoder]'" in str(EncoderJudgeConfig().missing_extra())
