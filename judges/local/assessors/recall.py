"""Recall of the contexts: do they contain what a known correct answer says?"""

from dataclasses import replace

from judges.local.assessors import groundedness
from judges.local.case_reading import CaseReading
from judges.local.finding import Assessment, quote, say
from judges.values.spans import SpanVerdict


def assess(reading: CaseReading) -> Assessment:
    """Assess the reference as groundedness assesses an answer; `reading` reads the reference."""
    finding = groundedness.assess(reading)
    return replace(finding, explanation=_explain(reading, finding), spans=None)


def _explain(reading: CaseReading, finding: Assessment) -> str:
    if finding.level is None:
        return say(reading.language, en="The reference claims nothing.", ru="Эталон ничего не утверждает.")
    if finding.level == 2:
        return say(
            reading.language,
            en="The contexts contain the reference.",
            ru="В контекстах есть всё, что сказано в эталоне.",
        )
    missing = quote(_find_missing(reading, finding), reading.language)
    what = f": {missing}" if missing else ""
    return say(
        reading.language,
        en=f"The contexts lack a part of the reference{what}.",
        ru=f"В контекстах нет части эталона{what}.",
    )


def _find_missing(reading: CaseReading, finding: Assessment) -> list[str]:
    supported = (SpanVerdict.SUPPORTED, SpanVerdict.NO_CLAIM)
    text = reading.raw_answer
    return [text[span.start : span.end] for span in finding.spans or () if span.verdict not in supported]
