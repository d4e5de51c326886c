"""The verdict of a test: what `assert_passed` shows if it is no pass."""

from __future__ import annotations

from pathlib import Path

from chaos.run.result import Result


class Verdict:
    """The result of a run. scenario: the file with the scenario; report: the page; read: whether the test looked."""

    def __init__(self, result: Result, scenario: Path, report: Path) -> None:
        self._result, self.scenario, self.report, self.read = result, scenario, report, False

    @property
    def result(self) -> Result:
        """All of the result, as in `result.json`."""
        self.read = True
        return self._result

    @property
    def verdict(self) -> str:
        """pass, fail or inconclusive."""
        return self.result.verdict

    @property
    def sentence(self) -> str:
        """The run in plain words."""
        return self.result.sentence

    def describe(self) -> str:
        """Return verdict, sentence, what did not hold, the story of each effect, and how to run it again."""
        result = self.result
        lines = [f"{result.verdict.upper()}: {result.sentence}"]
        for e in result.expectations:
            if e.verdict in ("fail", "inconclusive") and not e.follows:
                lines.append(f"  {e.name}: expected {e.expected}, seen {e.seen} {e.why}".rstrip())
        for story in (story for effect in result.effects for story in effect.stories):
            lines.append(f"  {story.sentence}")
            if story.prevents:
                lines.append(f"    what prevents it: {story.prevents}")
        lines += [f"  ! {problem}" for problem in result.problems]
        lines += [f"report: {self.report}", f"run again: python -m chaos run {self.scenario} --seed {result.seed}"]
        return "\n".join(lines)

    def assert_passed(self) -> None:
        """Raise `AssertionError` with the description unless the verdict is pass: inconclusive proves nothing."""
        __tracebackhide__ = True
        if self.result.verdict != "pass":
            raise AssertionError(self.describe())

    def __str__(self) -> str:
        return self.describe()
