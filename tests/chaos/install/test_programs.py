"""Programs of users with their libraries: what is refused, how they start, and what a failed installation says."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

import chaos
from chaos.errors import ResolveError
from chaos.install import programs
from chaos.install.programs import build
from chaos.scenario.load import load
from chaos.scenario.shipped import shipped
from chaos.setup.apps import App

EXAMPLES = Path(chaos.__file__).parent / "examples"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))


def tool(folder, name, script):
    """Put a tool on the path, in front of the real one."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    folder = tmp_path / "tools"
    tool(folder, "node", "exit 0")
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    return folder


def program(tmp_path, name):
    path = tmp_path / name
    path.write_text("")
    return path


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "exactly one of command, program, image, connect, postgres, external"),
        ({"command": "x", "program": "x.py"}, "exactly one of command, program, image, connect, postgres, external"),
        ({"program": "x.rb"}, "x.rb has no suffix of .py, .js, .mjs, .go, .java; start it with command"),
        ({"program": "x"}, "x has no suffix of"),
        ({"program": "x.py", "libraries": ["aiokafka"]}, "write one such as aiokafka==0.14.0"),
        ({"program": "x.py", "libraries": ["--index-url=http://elsewhere"]}, "names no release of a library"),
        ({"program": "x.mjs", "libraries": ["kafkajs@latest"]}, "write one such as kafkajs@2.2.4"),
        (
            {"program": "x.go", "libraries": ["github.com/IBM/sarama@latest"]},
            "write one such as github.com/IBM/sarama@v",
        ),
        ({"program": "x.java", "libraries": ["kafka-clients:4.1.2"]}, "org.apache.kafka:kafka-clients:4.1.2"),
        ({"command": "x", "libraries": ["aiokafka==0.14.0"]}, "libraries: belong to a program"),
        ({"command": "x", "arguments": ["y"]}, "arguments: belong to a program or a container"),
    ],
)
def test_what_is_no_program_with_pinned_libraries_is_refused(fields, problem):
    with pytest.raises(ValidationError) as refused:
        App(name="billing", **fields)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("x.py", "faststream[kafka]==0.7.8"),
        ("x.js", "@platformatic/kafka@1.35.0"),
        ("x.go", "github.com/ThreeDotsLabs/watermill-kafka/v3@v3.0.6"),
        ("x.java", "org.springframework.kafka:spring-kafka:3.3.10"),
    ],
)
def test_pinned_libraries_are_accepted(name, library):
    assert App(name="billing", program=name, libraries=[library], arguments=["--fast"]).libraries == [library]


def test_a_missing_program_and_a_missing_toolchain_are_named(tmp_path, monkeypatch):
    program(tmp_path, "there.js")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = [
        problem
        for name in ("there.js", "away.py")
        for _, problem in App(name="billing", program=name).placed_in(tmp_path).missing()
    ]
    assert found == [
        "there.js needs node, and there is none on PATH; install Node.js",
        "there.js needs npm, and there is none on PATH; install Node.js",
        f"there is no file {tmp_path / 'away.py'}",
    ]


def test_a_program_in_python_without_libraries_runs_as_it_is(tmp_path):
    path = program(tmp_path, "x.py")
    built = build(path, [])
    assert (built.command, built.env) == ((sys.executable, str(path)), {})


def test_libraries_are_installed_once_and_beside_a_copy_of_each_program(tmp_path, tools):
    tool(tools, "npm", f'echo "$*" >> {tmp_path}/calls; mkdir node_modules; touch node_modules/kafkajs')
    first = build(program(tmp_path, "x.js"), ["kafkajs@2.2.4"])
    assert build(tmp_path / "x.js", ["kafkajs@2.2.4"]) == first
    assert (tmp_path / "calls").read_text().count("kafkajs@2.2.4") == 1
    node, copy = map(Path, first.command)
    assert (node.parent, copy.name) == (tools, "x.js")
    assert (copy.parent / "node_modules" / "kafkajs").exists()
    (tmp_path / "x.js").write_text("changed()")
    assert build(tmp_path / "x.js", ["kafkajs@2.2.4"]).command != first.command


def test_a_library_that_cannot_be_installed_is_one_line_and_leaves_nothing(tmp_path, tools):
    tool(tools, "npm", "echo 'npm error code E404' >&2; echo 'npm notice' >&2; exit 1")
    with pytest.raises(ResolveError) as failed:
        build(program(tmp_path, "x.js"), ["kafkajs@9.9.9"])
    assert str(failed.value) == "the libraries of x.js cannot be installed: npm error code E404"
    assert list((tmp_path / "cache" / "apps").glob("[!.]*")) == []


@pytest.fixture(scope="module")
def pairs():
    """Return the variants of each shipped scenario of an application, by its name: program and bounds of effects."""
    found = {}
    for name, path in shipped().items():
        for variant in load(path).variants or ():
            scenario = load(path, variant=variant)
            for app in (a for a in scenario.apps if a.program or a.command):
                program = Path(app.program or app.command[-1]).name
                found.setdefault(name, []).append((program, scenario.expect.effects))
    return found


TESTS = {"orders_test.go", "OrdersTest.java"}
"""The examples of tests that ask for a verdict."""


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in sorted(EXAMPLES.iterdir())
        if p.suffix in (".py", ".js", ".mjs", ".go", ".java") and p.name not in TESTS
    ],
)
def test_an_example_is_short_is_one_side_of_a_pair_and_knows_nothing_of_aftershock(path, pairs):
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    assert "aftershock" not in text.lower() and "chaos" not in text.lower()
    assert path.name in {program for sides in pairs.values() for program, _ in sides}


def test_the_wrong_side_of_a_pair_must_show_what_the_right_side_must_not(pairs):
    table = (EXAMPLES.parent / "scenarios" / "README.md").read_text()
    listed = {name: sides for name, sides in pairs.items() if f"| [{name}]({name}.yaml) |" in table}
    assert len(listed) >= 12
    for name, ((right, allowed), (wrong, demanded)) in listed.items():
        for effect, bound in demanded.items():
            shown = [kind for kind in ("missing", "duplicate", "wrong") if getattr(bound, kind).min]
            assert len(shown) == 1, name
            assert not getattr(allowed[effect], shown[0]).min, name
        assert f"| `{right}` | `{wrong}` |" in table


def test_a_connector_has_what_its_worker_lacks_and_not_what_it_provides(tmp_path, monkeypatch):
    worker = ["connect-api-4.3.1.jar", "jackson-core-2.19.0.jar", "slf4j-api-2.0.17.jar", "guava-33.jar"]
    own = ["sink-1.2.jar", "connect-api-3.9.0.jar", "jackson-core-2.16.jar", "jackson-jsr310-2.16.jar", "guava-31.jar"]
    for folder, names in (("worker", worker), ("own", own)):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).touch()
    monkeypatch.setenv("AFTERSHOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(programs, "kafka_jars", lambda *_: tmp_path / "worker")
    monkeypatch.setattr(programs, "_artifacts", lambda *_: [tmp_path / "own"])
    built = programs.build_worker("4.3.1", True, ["a:b:1"])
    kept = sorted(jar.name for jar in (Path(built.folder) / "own").iterdir())
    assert kept == ["guava-31.jar", "jackson-jsr310-2.16.jar", "sink-1.2.jar"]
