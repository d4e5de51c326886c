"""The reference pages match the code, and every link and command on any page is valid."""

import re
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from chaos.anomalies import ANOMALIES
from chaos.cli import app
from chaos.cli.scenarios import PageName, reference
from chaos.errors import UsageError
from chaos.faults import FAULTS
from chaos.faults.consumers import ConsumerChurnSpec
from chaos.faults.resources import DiskFillSpec
from chaos.reference import PAGES, Page, faults
from chaos.reference.fields import models, rows
from chaos.reference.markdown import anchor, table
from chaos.reference.scenarios import scenarios, shows
from chaos.scenario.load import parse

ROOT = Path(__file__).parents[3]
FOLDERS = ("chaos", "checks", "dags", "docker", "tests", ".github")
MARKDOWN = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])


@pytest.mark.parametrize("name", PAGES)
def test_a_page_matches_the_code(name):
    page = PAGES[name]
    current = page.file.is_file() and page.file.read_text(encoding="utf-8") == page.text()
    assert current, f"{page.path} differs from the code; run: python -m chaos reference --write"


def test_every_fault_documents_its_heal_and_its_proof():
    found = models()
    assert found.keys() == FAULTS.keys()
    for kind, model in found.items():
        assert "__doc__" in vars(model) and re.search(r"[Hh]eal|stay", faults.meaning(model)), kind
        assert len(faults.proof(kind)) > 10, f"the docstring of {FAULTS[kind].__name__} has no Proof"


def lines(name):
    return set(PAGES[name].file.read_text(encoding="utf-8").splitlines())


def test_every_anomaly_and_every_fault_has_its_section():
    assert {f"### {kind}" for kind in FAULTS} <= lines("faults")
    assert {f"### {kind}" for kind in ANOMALIES} <= lines("checks")
    assert {f"## {name}" for name in scenarios()} <= lines("scenarios")


def test_a_check_names_the_scenarios_and_sides_that_must_show_it():
    assert "retry-duplicate/plain" in shows("duplicate_write")
    assert "retry-duplicate/idempotent" not in shows("duplicate_write")
    assert shows("corrupt_record") == []


def test_settings_have_unit_default_and_bounds():
    assert rows(ConsumerChurnSpec)[-2:] == [
        ("`times`", "a whole number, 1 to 100", "`5`", "how often it leaves"),
        ("`every`", "a duration, such as `5s`", "`1s`", "time that it stays away, and then in the group"),
    ]
    assert rows(DiskFillSpec)[-1] == ("`free`", "a size, such as `64MiB`", "`0B`", "bytes that are left")


def test_every_part_of_a_scenario_has_a_section():
    """A part in italics has no section to link to."""
    assert not re.findall(r"\| [^|]*\*[A-Z]\w+\*", PAGES["fields"].file.read_text(encoding="utf-8"))


def test_bars_and_line_breaks_do_not_break_a_table():
    assert table(["a"], [["x|y\nz"]]) == "| a |\n| --- |\n| x\\|y z |\n"
    assert table(["a"], []) == ""


def test_write_returns_the_changed_pages(tmp_path, monkeypatch):
    import chaos.reference as pages

    page = Page(str(tmp_path / "x.md"), lambda: "one\n\n\n\ntwo\n")
    monkeypatch.setattr(pages, "PAGES", {"x": page})
    assert pages.write() == [page.file]
    assert page.file.read_text().endswith("one\n\ntwo\n")
    assert pages.write() == []


def test_write_needs_a_checkout(tmp_path, monkeypatch):
    import chaos.reference as pages

    monkeypatch.setattr(pages, "PROJECT", tmp_path)
    with pytest.raises(UsageError, match=r"needs a checkout .* is an installed package; print a page"):
        pages.write()


@pytest.mark.parametrize(("of", "write"), [(None, False), (PageName.faults, True)])
def test_the_command_takes_either_a_page_or_write(of, write):
    with pytest.raises(UsageError, match="--write"):
        reference(of, write)


def test_the_command_prints_a_page(capsys):
    reference(PageName.fields, False)
    assert set(capsys.readouterr().out.splitlines()) == lines("fields")


def prose(text):
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    titles = re.findall(r"^#{1,6} (.+)$", prose(page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    return {anchor(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)) for title in titles}


def broken_links(page):
    """Yield the links of a page without a target: no file of the project, or no heading of a page."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and (file.suffix != ".md" or fragment not in anchors(file))):
            yield target


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page):
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("# A b\n[1](a.md#a-b) [2](#a-b) [3](b.md) [4](#b) [5](https://x/y)\n```\n[6](c.md)\n```\n")
    assert list(broken_links(page)) == ["b.md", "#b"]


def blocks(page):
    """Return the code blocks of a page as (language, text)."""
    return re.findall(r"^ *```(\w*)\n(.*?)^ *```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def code_lines(page):
    """Return the lines of code of a page: code blocks, and inline code."""
    lines = [line for _, block in blocks(page) for line in block.splitlines()]
    return [*lines, *re.findall(r"`([^`\n]+)`", prose(page.read_text(encoding="utf-8")))]


@cache
def commands():
    return typer.main.get_command(app)


@cache
def make_targets():
    return re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)


def unknown(line):
    """Return the commands and options in a line that do not exist, for `python -m chaos` and `make`."""
    parts = line.partition(" #")[0].replace("…", "").split()
    if parts[:1] == ["make"]:
        return [target for target in parts[1:2] if target not in make_targets()]
    if parts[:3] != ["python", "-m", "chaos"]:
        return []
    command, rest = commands(), parts[3:]
    while rest and rest[0] in getattr(command, "commands", {}):
        _, command, rest = command.resolve_command(command.make_context("chaos", [], resilient_parsing=True), rest)
    if isinstance(command, typer.main.TyperGroup) and rest and not rest[0].startswith("-"):
        return rest[:1]
    options = {option for param in command.params for option in param.opts} | {"--help"}
    own = list(takewhile(lambda part: part != "--", rest))  # what comes after it belongs to another program
    return [option for option in own if option.startswith("--") and option.partition("=")[0] not in options]


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page):
    assert {line: missing for line in code_lines(page) if (missing := unknown(line))} == {}


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("python -m chaos rum leader-kill", ["rum"]),
        ("python -m chaos run leader-kill --sed 7  # --what", ["--sed"]),
        ("python -m chaos history import runs --histori x", ["--histori"]),
        ("python -m chaos run leader-kill --seed 7", []),
        ("python -m chaos client-check --onli producer -- ./mine --any", ["--onli"]),
        ("make demos", ["demos"]),
    ],
)
def test_an_unknown_command_is_found(line, missing):
    assert unknown(line) == missing


def test_the_scenarios_on_the_pages_are_valid():
    scenarios_on_pages = [
        (page, text) for page in MARKDOWN for _, text in blocks(page) if re.search("^producers:", text, re.MULTILINE)
    ]
    assert scenarios_on_pages
    for page, text in scenarios_on_pages:
        parse(text, str(page))


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100
