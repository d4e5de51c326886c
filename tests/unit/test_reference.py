"""The references say what the code says, and no page of the project leads to nowhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.anomalies import ANOMALIES
from chaos.faults import FAULTS
from chaos.reference import PAGES, Page, faults, fields
from chaos.reference.markdown import anchor, table
from chaos.reference.models import rows
from chaos.reference.shipped import scenarios, shows
from chaos.scenario.faults.consumer import ConsumerChurn
from chaos.scenario.faults.resources import DiskFill

ROOT = Path(__file__).parents[2]
FOLDERS = ("chaos", "checks", "dags", "docker", "tests", ".github")
MARKDOWN = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name):
    page = PAGES[name]
    fresh = page.file.is_file() and page.file.read_text(encoding="utf-8") == page.text()
    assert fresh, f"{page.path} is not what the code says; renew it: python -m chaos reference --write"


def test_every_kind_of_fault_is_told_with_its_heal_and_its_proof():
    models = faults.models()
    assert models.keys() == FAULTS.keys()
    for kind, model in models.items():
        assert "__doc__" in vars(model) and re.search(r"[Hh]eal|stay", faults.meaning(model)), kind
        assert len(faults.proof(kind)) > 10, f"the docstring of {FAULTS[kind].__name__} has no Proof: of its own"


def test_every_anomaly_and_every_fault_has_its_section():
    assert {f"### {kind}" for kind in FAULTS} <= set(PAGES["faults"].text().splitlines())
    assert {f"### {kind}" for kind in ANOMALIES} <= set(PAGES["checks"].text().splitlines())
    assert {f"## {name}" for name in scenarios()} <= set(PAGES["scenarios"].text().splitlines())


def test_a_check_names_the_scenarios_and_sides_that_must_show_it():
    assert "retry-duplicate/plain" in shows("duplicate_write")
    assert "retry-duplicate/idempotent" not in shows("duplicate_write")
    assert shows("corrupt_record") == []


def test_settings_are_told_with_unit_default_and_bounds():
    assert rows(ConsumerChurn)[-2:] == [
        ("`times`", "a whole number, 1 to 100", "`5`", "how often it leaves"),
        ("`every`", "a duration, such as `5s`", "`1s`", "how long it stays away, and then in the group"),
    ]
    assert rows(DiskFill)[-1] == ("`free`", "a size, such as `64MiB`", "`0B`", "bytes that are left")


def test_every_part_of_a_scenario_has_a_section():
    """A part that is told of in italics would be one that nothing leads to."""
    assert not re.findall(r"\| [^|]*\*[A-Z]\w+\*", fields.page())


def test_bars_and_line_breaks_do_not_break_a_table():
    assert table(["a"], [["x|y\nz"]]) == "| a |\n| --- |\n| x\\|y z |\n"
    assert table(["a"], []) == ""


def test_writing_tells_what_changed(tmp_path, monkeypatch):
    import chaos.reference as reference

    page = Page(str(tmp_path / "x.md"), lambda: "one\n\n\n\ntwo\n")
    monkeypatch.setattr(reference, "PAGES", {"x": page})
    assert reference.write() == [page.file]
    assert page.file.read_text().endswith("one\n\ntwo\n")
    assert reference.write() == []


@pytest.mark.parametrize(("given", "says"), [([], "--write"), (["faults", "--write"], "--write"), (["x"], "'x'")])
def test_the_command_refuses_what_it_cannot_do(given, says):
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "reference", *given], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def prose(text):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    titles = re.findall(r"^#{1,6} (.+)$", prose(page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {anchor(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)) for title in titles}


def lost(page):
    """The links of a page that lead to nowhere: to no file of the project, or to no heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and (file.suffix != ".md" or fragment not in anchors(file))):
            yield target


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert list(lost(page)) == []


def test_a_link_to_nowhere_is_seen(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("# A b\n[1](a.md#a-b) [2](#a-b) [3](b.md) [4](#b) [5](https://x/y)\n```\n[6](c.md)\n```\n")
    assert list(lost(page)) == ["b.md", "#b"]


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
