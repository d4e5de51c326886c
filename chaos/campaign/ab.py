"""A/B comparison of one scenario: unchanged, and with changed settings, as two variants with the same seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from chaos.campaign.subject import Raw, Request, Subject, dump, load_subject, raw_of
from chaos.drive import stages, variants
from chaos.errors import UsageError
from chaos.lab.lab import run_variants
from chaos.lab.progress import ProgressListener
from chaos.run.directory import Run, new_folder, write_atomically
from chaos.scenario.load import parse

UNCHANGED, CHANGED = "as-it-was", "with-the-change"


def ab(request: Request, listener: ProgressListener) -> Run:
    """Run both sides with the same seeds, `request.repeat` times each, and return their run for the comparison.

    Raises `UsageError` or `ScenarioError` for changes that are invalid or change nothing.
    """
    if not request.overrides:
        raise UsageError("ab needs --set: what the two sides differ in, such as producers.shop.config.acks=all")
    subject = load_subject(request.source, request.variant, seed=request.seed)
    check_changes(subject, request.overrides)
    whole = prepare(subject, request.overrides, new_folder(request.runs_dir, f"ab-{subject.name}"), request.repeat or 1)
    listener.say(f"run directory: {whole.run.path}")
    run_variants(whole, lambda event: listener.run_event(request.source, event), listener.say, request.spark_master)
    return whole.run


def check_changes(subject: Subject, changes: Sequence[str]) -> None:
    """Raise `UsageError` or `ScenarioError` for a setting that does not exist, or if nothing changes."""
    changed = subject.set(*changes)
    if changed.scenario == subject.scenario:
        raise UsageError(f"--set {' '.join(changes)} changes nothing: {subject.source} already has these values")
    parse(dump(_with_sides(subject, changes)), subject.source)  # refuses what a variant may not set


def prepare(subject: Subject, changes: Sequence[str], folder: Path, repeat: int = 1) -> variants.VariantRuns:
    """Make the run directories of both sides after `check_changes`; nothing is started."""
    file = folder / f"{subject.name}.yaml"
    write_atomically(file, dump(_with_sides(subject, changes)))
    request = stages.ScenarioRequest(str(file), seed=subject.seed)
    return variants.prepare(request, folder, f"{subject.name}-ab", repeat)


def _with_sides(subject: Subject, changes: Sequence[str]) -> Raw:
    raw = raw_of(subject.scenario)
    values = {path.strip(): yaml.safe_load(text) for path, _, text in (change.partition("=") for change in changes)}
    raw["variants"] = {UNCHANGED: {}, CHANGED: {"set": values}}
    return raw
