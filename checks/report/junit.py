"""The result as JUnit XML, for a CI server: one test case for the verdict, each expectation and each fault.

Inconclusive is an error, never a skip: CI servers show skipped as green.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from chaos.run.result import FaultOutcome, Result, Verdict
from checks.evidence.faults import missing_proof

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS: dict[Verdict, str] = {"fail": "failure", "inconclusive": "error"}


def junit(result: Result) -> str:
    """The XML text."""
    seconds = f"{max(0, result.ended_us - result.began_us) / 1_000_000:.3f}"
    suite = ET.Element("testsuite", name=clean(f"aftershock.{result.scenario}"), time=seconds)
    properties = ET.SubElement(suite, "properties")
    for name, value in {"seed": str(result.seed), "command": result.command, **result.versions}.items():
        ET.SubElement(properties, "property", name=clean(name), value=clean(value))
    _case(suite, result, "verdict", result.title, result.verdict, result.sentence, seconds)
    for e in result.expectations:
        name = f"{e.name} [{e.scope}]" if e.scope and e.scope not in e.name else e.name
        said = f"expected {e.expected}, seen {e.seen}. {e.why}".strip()
        _case(suite, result, "expectations", name, e.verdict, said)
    for fault in result.faults:
        _fault(suite, result, fault)
    for tag, attribute in (("failure", "failures"), ("error", "errors")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in suite.iter("testcase"))))
    suite.set("tests", str(sum(1 for _ in suite.iter("testcase"))))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _fault(suite: ET.Element, result: Result, fault: FaultOutcome) -> None:
    missing = missing_proof(fault)
    said = missing or fault.proof
    _case(
        suite,
        result,
        "faults",
        f"{fault.name}: {fault.kind} at {fault.target}",
        "inconclusive" if missing else "pass",
        said,
    )


def _case(
    suite: ET.Element, result: Result, part: str, name: str, verdict: Verdict, said: str, seconds: str = "0"
) -> None:
    classname = clean(f"aftershock.{result.scenario}.{part}")
    case = ET.SubElement(suite, "testcase", classname=classname, name=clean(name), time=seconds)
    if tag := _TAGS.get(verdict):
        ET.SubElement(case, tag, message=clean(said), type=verdict).text = clean(said)
    else:
        ET.SubElement(case, "system-out").text = clean(said)


def clean(text: str) -> str:
    """Text without the characters that XML cannot carry."""
    return _NOT_XML.sub("", text)
