"""JUnit XML for CI servers: of a run, one test case for its verdict, each expectation and each fault.

Inconclusive is an error, never a skip, because CI servers show skipped tests as green. Expectations that are not
applicable are no test cases, so that no server counts them; a property lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from chaos.anomalies import ANOMALIES
from chaos.run.campaign import Campaign, Comparison
from chaos.run.result import EFFECTS, NOT_APPLICABLE, Expectation, Result, Verdict

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS: dict[Verdict, str] = {"fail": "failure", "inconclusive": "error"}


@dataclass(frozen=True)
class JunitCase:
    """One test case. part: last part of its class name; message: the explanation of the verdict."""

    part: str
    name: str
    verdict: Verdict
    message: str
    seconds: float = 0.0


def junit(result: Result) -> str:
    """Return the XML text of a run."""
    properties = {"seed": str(result.seed), "command": result.command, **result.versions}
    if left_out := [f"{e.name} ({e.why})" for e in result.expectations if not e.applies]:
        properties[NOT_APPLICABLE] = "; ".join(left_out)
    seconds = max(0, result.ended_us - result.began_us) / 1_000_000
    name = Path(result.scenario).name.removesuffix(".yaml").removesuffix(".yml")  # the same on every machine
    return to_xml([junit_suite(f"aftershock.{name}", seconds, properties, _cases(result, seconds))])


def junit_suite(name: str, seconds: float, properties: Mapping[str, str], cases: Iterable[JunitCase]) -> ET.Element:
    """Return a test suite with its properties, test cases and counts."""
    suite = ET.Element("testsuite", name=clean(name), time=f"{seconds:.3f}")
    parent = ET.SubElement(suite, "properties")
    for key, value in properties.items():
        ET.SubElement(parent, "property", name=clean(key), value=clean(value))
    for case in cases:
        classname, message = clean(f"{name}.{case.part}"), clean(case.message)
        element = ET.SubElement(
            suite, "testcase", classname=classname, name=clean(case.name), time=f"{case.seconds:.3f}"
        )
        if tag := _TAGS.get(case.verdict):
            ET.SubElement(element, tag, message=message, type=case.verdict).text = message
        else:
            ET.SubElement(element, "system-out").text = message
    for key, path in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
        suite.set(key, str(len(suite.findall(path))))
    return suite


def of_campaign(name: str, result: Campaign, cases: Sequence[JunitCase]) -> str:
    """Return a test case for a campaign, and these for its parts, as XML text."""
    whole = JunitCase(name.partition(".")[0], result.title, result.verdict, result.sentence)
    properties = {"seed": str(result.seed), "command": result.command, "repeat": str(result.repeat)}
    seconds = sum(case.seconds for case in cases)
    return to_xml([junit_suite(f"aftershock.{name}", seconds, properties, [whole, *cases])])


def merged(folder: Path, comparison: Comparison) -> str:
    """Return the test suites of all runs of an A/B folder as XML text, each with the name of its variant."""
    suites = []
    for side in comparison.sides:
        for run in side.runs:
            number = run.removeprefix(f"{folder.name}-{side.name}").replace("-", ".")
            for suite in ET.fromstring((folder / run / "junit.xml").read_text(encoding="utf-8")):
                suite.set("name", f"{suite.get('name')}.{side.name}{number}")
                suites.append(suite)
    return to_xml(suites)


def to_xml(suites: Iterable[ET.Element]) -> str:
    """Return test suites as the text of one file."""
    root = ET.Element("testsuites")
    root.extend(suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _cases(result: Result, seconds: float) -> Iterator[JunitCase]:
    yield JunitCase("verdict", result.title, result.verdict, result.sentence, seconds)
    for e in result.expectations:
        if e.verdict == NOT_APPLICABLE:
            continue
        name = f"{e.name} [{e.scope}]" if e.scope and e.scope not in e.name else e.name
        yield JunitCase("expectations", name, e.verdict, explained(result, e))
    for fault in result.faults:
        missing = fault.shortcoming
        verdict: Verdict = "inconclusive" if missing else "pass"
        name = f"{fault.name}: {fault.kind} at {fault.target}"
        yield JunitCase("faults", name, verdict, missing or fault.proof_text)


def explained(result: Result, e: Expectation) -> str:
    """Return what an expectation expected and what was seen as sentences: with its meaning and story if it failed."""
    failed = e.verdict == "fail"
    meaning = ANOMALIES[e.check].meaning if failed and e.check in ANOMALIES else ""
    details = "; ".join(filter(None, (meaning, e.why.rstrip("."))))
    own = [effect for effect in result.effects if (EFFECTS, effect.name) == (e.check, e.scope)]
    stories = [story.sentence.rstrip(".") for effect in own for story in effect.stories if story.kind == e.split]
    first = f" {stories[0]}." if failed and stories else ""
    return f"Expected {e.expected}, seen {e.seen}{details and f': {details}'}.{first}"


def clean(text: str) -> str:
    """Return the text without characters that XML forbids."""
    return _NOT_XML.sub("", text)
