"""The files that differ between the commits of an experiment of pairs, as git tells them."""

from __future__ import annotations

from pathlib import Path

from dlmon.comparison.sides import ChangedFile
from dlmon.session.code_changes import changed_files
from dlmon.sweep.plan import Plan
from dlmon.sweep.variants import AS_IT_LIES, COMMIT
from dlmon.system.git import GitError


def changed_by_pairs(plan: Plan) -> tuple[ChangedFile, ...] | None:
    """Return the files that differ between both sides; None if they aren't known."""
    script = plan.script
    if plan.pairs is None or script is None or script.commit_folder is None:
        return None
    base, new = (f"{combination.varied[COMMIT]}" for combination in plan.combinations)
    if base == AS_IT_LIES:
        base, new = new, base
    commit = script.commits.get(new)
    if base not in script.commits or (commit is None and new != AS_IT_LIES):
        return None
    try:
        return changed_files(Path(script.commit_folder), script.commits[base], commit)
    except GitError:
        return None
