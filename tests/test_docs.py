"""The pages' examples: every block of Python runs, one after the other, against an endpoint on the loopback."""

import json
import re
from pathlib import Path

import pytest

from judges import Judge, PairwiseJudge, Panel, load_criteria
from tests.parts.judge_endpoint import Body, JudgeEndpoint, Response, chat_response, verdict_response

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def files_of_criteria(page: Path) -> list[str]:
    return [code for code in blocks(page, "yaml") if code.startswith("criteria:\n  - name")]


def obliging(body: Body) -> Response:
    """The best that the request's schema allows, or what a model that takes none was trained to say."""
    if "response_format" not in body:
        return chat_response("Feedback: It is. [RESULT] 5" if "[RESULT]" in str(body["messages"]) else "No")
    schema = body["response_format"]["json_schema"]["schema"]
    verdict = schema["properties"]["verdict"]
    if verdict.get("type") == "number":
        return chat_response(json.dumps({"explanation": "So it is.", "verdict": verdict["maximum"]}))
    return verdict_response(next(label for label in verdict["enum"] if label != "not_applicable"))


@pytest.mark.parametrize("page", ["docs/judges.md", "README.md"])
def test_every_example_of_the_library_runs_and_prints_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ROOT / page
    monkeypatch.chdir(tmp_path)
    for code in files_of_criteria(file)[:1]:
        (tmp_path / "my-criteria.yaml").write_text(code, encoding="utf-8")
    assert blocks(file, "python")
    promised = [line.partition("  # ")[2] for code in blocks(file, "python") for line in code.splitlines()]
    with JudgeEndpoint(obliging) as endpoint:
        namespace: dict[str, object] = {"__name__": "example"}
        for code in blocks(file, "python"):
            exec(compile(code.replace("http://localhost:8000/v1", endpoint.base_url), page, "exec"), namespace)
        for value in namespace.values():
            if isinstance(value, Judge | Panel | PairwiseJudge):
                value.close()
    printed = capsys.readouterr().out.splitlines()
    assert page != "README.md" or {promise for promise in promised if promise} <= set(printed)


def test_the_files_of_criteria_on_the_page_can_be_read_and_show_every_scale(tmp_path: Path) -> None:
    kinds = set()
    for code in files_of_criteria(ROOT / "docs/judges.md"):
        (tmp_path / "criteria.yaml").write_text(code, encoding="utf-8")
        kinds |= {criterion.scale.kind for criterion in load_criteria(tmp_path / "criteria.yaml").values()}
    assert kinds == {"levels", "binary", "range", "options"}


def test_the_judge_of_your_own_fits_in_twenty_lines() -> None:
    [code] = [code for code in blocks(ROOT / "docs/judges.md", "python") if "(Judge):" in code]
    body = code[code.index("class ") : code.index("\n\n\n[short]")]
    assert len(body.splitlines()) <= 20
