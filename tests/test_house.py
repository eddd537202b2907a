"""The house rules: what imports what, the size of modules, plain statements, names, docstrings, and where tests lie.

Each rule lists its offenders; `LIMITS` holds how many there may be. A limit is lowered as the code improves, and never
raised. The exceptions of a rule are a list with names and reasons.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "sciagent": "",
    "verifiers/sciagent_verifiers": "verifiers",
    "simulators/sciagent_simulators": "simulators",
    "bench/sciagent_bench": "bench",
}
"""Folder of a package, and the folder below `tests` that holds its tests."""
LIMITS = {
    "circles of imports": 0,
    "modules over 700 lines": 0,
    "modules below 60 lines with one importer": 0,
    "statements that assign two things": 0,
    "comprehensions in calls in conditional expressions": 0,
    "comprehensions with two for": 86,
    "public class names used twice": 0,
    "docstrings that begin with Of": 0,
    "functions with a complexity over 15": 6,
    "signatures with mappings of Any beyond the borders": 12,
    "lines with fmt: skip": 59,
    "modules over 100 lines without a test file": 5,
}
"""How many offenders each rule allows."""
IMPORTS_THAT_MAY_CLOSE_A_CIRCLE: set[tuple[str, str]] = set()
"""Pairs of importer and imported module."""
IMPORT_SHARE = 0.085
"""Largest share of import lines in all lines of the product without its benchmarks."""
FOLDERS_OF_PARTS = (
    "sciagent/scheduling/rules",
    "sciagent/rewards/credit",
    "sciagent/training/exports/formats",
    "sciagent/training/exports/loaders",
    "verifiers/sciagent_verifiers",
    "simulators/sciagent_simulators/programs",
    "bench/sciagent_bench/rivals",
)
"""Folders whose modules are one of a kind each, so that a small one may have one importer: the list of its kind."""
SMALL_MODULES = {
    "sciagent/agent/serving/process_guard.py": "started with -m in the server's process",
    "sciagent/agent/tools/bound_mcp_server_output.py": "started with -m between the client and a server of tools",
}
"""Small modules that may have one importer, each with the reason."""
TWO_THINGS_ASSIGNED: set[str] = set()
"""Statements that may assign two things, as `path: statement`."""
BORDERS: dict[str, tuple[str, ...]] = {
    "rows and JSON columns of the ledger": (
        "sciagent/store",
        "sciagent/campaign/core/verdicts_and_places.py",
        "sciagent/campaign/core/create_and_open.py",
        "sciagent/campaign/core/record_results_and_place.py",
        "sciagent/campaign/pricing/auditing.py",
        "sciagent/campaign/proposing/source_contract_and_scripts.py",
        "sciagent/campaign/proposing/write_turns.py",
        "sciagent/rewards/reward_law.py",
        "sciagent/scheduling/law/stacked_laws_with_and_without_structure.py",
        "sciagent/scheduling/rules/priced.py",
    ),
    "YAML of campaign files, and the errors of pydantic": (
        "sciagent/campaign/file",
        "sciagent/inputs",
        "sciagent/domain/display_units.py",
        "sciagent/domain/derived_properties.py",
        "sciagent/rewards/reward_term_contract.py",
        "sciagent/rewards/reward_spec.py",
        "sciagent/training/evaluation/campaign_runs.py",
        "sciagent/training/settings.py",
    ),
    "the spec of a campaign, as the ledger keeps it": (
        "sciagent/report/analysis/rung_spending_comparisons_and_worth.py",
        "sciagent/report/analysis/distributions_and_front.py",
        "sciagent/report/parts/rung_and_judge_agreement.py",
        "sciagent/report/parts/best_candidate_cards_and_table.py",
        "sciagent/report/parts/wording.py",
    ),
    "texts that people typed into forms, sheets and commands": (
        "sciagent/lab/record_answers.py",
        "sciagent/lab/pages/posted_results.py",
        "sciagent/lab/pages/typed_form_and_attachments.py",
        "sciagent/lab/typed_answers.py",
    ),
    "the description of the HTTP API as JSON": ("sciagent/web/openapi_document.py",),
    "settings of verifiers, as files and commands state them": (
        "sciagent/api/calc_and_answer_tables.py",
        "sciagent/campaign/core/calibrate_to_imported_values.py",
        "sciagent/campaign/people/verify_calculate_and_add.py",
        "sciagent/verification/verifier_contract.py",
        "sciagent/verification/setting_files.py",
        "sciagent/verification/verifier_registry.py",
        "sciagent/verification/route_finder_plugins_and_route_checks.py",
        "verifiers/sciagent_verifiers/fast/brics_routes.py",
        "verifiers/sciagent_verifiers/fast/reference_index_and_novelty_base.py",
        "verifiers/sciagent_verifiers/high_fidelity/density_functional_base.py",
        "verifiers/sciagent_verifiers/programs/orca_and_gaussian_scf.py",
        "verifiers/sciagent_verifiers/simulation/judge_rubric_votes_and_requests.py",
        "verifiers/sciagent_verifiers/simulation/lm_judge.py",
    ),
    "settings of training, as options and stages state them": (
        "sciagent/cli/dataset.py",
        "sciagent/cli/options_from_settings.py",
        "sciagent/training/recipes/run_stage.py",
    ),
    "payloads of candidates": ("sciagent/chemistry", "sciagent/domain/candidate_and_its_names_in_files.py"),
    "JSON answers of commands": (
        "bench/sciagent_bench",
        "sciagent/api/displayed_answers.py",
        "sciagent/api/best_table.py",
        "sciagent/api/campaign.py",
        "sciagent/cli/show_campaigns.py",
        "sciagent/cli/verifiers_and_calc.py",
        "sciagent/report/status_best_trace.py",
        "sciagent/report/candidate_history.py",
        "sciagent/verification/declarations_and_availability.py",
    ),
    "messages, tools and calls of language models": (
        "sciagent/agent",
        "sciagent/campaign/proposing/mcp_episode.py",
        "sciagent/campaign/proposing/campaign_workbench.py",
        "sciagent/domain/proposer_interfaces.py",
        "sciagent/training/environment",
        "sciagent/training/rollouts",
    ),
    "columns of Parquet and of ASE databases": (
        "sciagent/report/export/parquet_tables.py",
        "sciagent/report/export/structure_files.py",
        "sciagent/report/parts/export_rows.py",
        "sciagent/training/verified_hindsight_and_pair_rows.py",
        "sciagent/training/dataset_building.py",
        "sciagent/training/dataset_columns.py",
        "sciagent/training/exports",
        "sciagent/training/learner/learner_rows_and_rendered_conversations.py",
    ),
    "messages between processes": (
        "sciagent/execution/celery/broker_address_and_work_tokens.py",
        "sciagent/training/evaluation/evaluation_worker.py",
        "sciagent/verification/sandbox",
        "simulators/sciagent_simulators/periodic",
        "simulators/sciagent_simulators/programs/foreign_script.py",
    ),
    "JSON files in the folder of a training run": (
        "sciagent/training/stopping_guards.py",
        "sciagent/training/learner/training_run.py",
        "sciagent/training/learner/run_state.py",
        "sciagent/training/live/live_run.py",
        "sciagent/training/recipes/recipe_run.py",
        "sciagent/training/recipes/recipe_folder_and_stop.py",
    ),
    "state and weights of models, as torch holds them": (
        "sciagent/training/learner/training_step.py",
        "sciagent/training/live/ray_rollout_actors.py",
        "sciagent/training/live/sampling_engines.py",
    ),
    "what programs and models of others take and return": (
        "simulators/sciagent_simulators/potentials",
        "simulators/sciagent_simulators/programs/xtb_and_crest.py",
    ),
    "diagnostics of evidence, which each verifier fills freely": (
        "simulators/sciagent_simulators/conformer_search_and_averages.py",
        "simulators/sciagent_simulators/low_conformers_and_search_spread.py",
        "simulators/sciagent_simulators/programs/program_scf.py",
        "simulators/sciagent_simulators/pyscf_engine_composites_and_spin_checks.py",
        "simulators/sciagent_simulators/pyscf_excitations.py",
        "simulators/sciagent_simulators/pyscf_relax.py",
        "simulators/sciagent_simulators/scf_recovery.py",
        "simulators/sciagent_simulators/starting_geometry.py",
        "verifiers/sciagent_verifiers/verifier_bases.py",
        "verifiers/sciagent_verifiers/conformer_ensemble_base.py",
        "verifiers/sciagent_verifiers/fast/crystal_xrd.py",
        "verifiers/sciagent_verifiers/high_fidelity/gpaw_bands.py",
        "verifiers/sciagent_verifiers/programs/program_verifiers.py",
        "verifiers/sciagent_verifiers/simulation/force_field_base.py",
        "verifiers/sciagent_verifiers/simulation/tight_binding_base_and_second_opinion.py",
        "verifiers/sciagent_verifiers/thermochemistry_settings_and_values.py",
    ),
}
"""Modules and folders in which a mapping with string keys comes from outside or goes there, by what lies beyond."""


@dataclass(frozen=True)
class Module:
    """One parsed module of the product."""

    path: Path
    """Relative to the repository."""
    name: str
    """Its name for Python, with dots."""
    lines: list[str]
    nodes: list[ast.AST]
    """Every node of its tree."""
    test: Path
    """Where its tests lie: the mirrored path; the plug-ins' packages are mirrored without their folders of tiers."""


Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOSE = re.compile(r"\b(dict|Mapping)\[str, Any\]")


@functools.cache
def modules() -> list[Module]:
    parsed = []
    for package, tests in PACKAGES.items():
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            folder = Path() if tests else path.parent.relative_to(ROOT / package)
            test = ROOT / "tests" / tests / folder / f"test_{path.stem.lstrip('_')}.py"
            parts = path.relative_to((ROOT / package).parent).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            nodes = list(ast.walk(ast.parse(text)))
            parsed.append(Module(path.relative_to(ROOT), name, text.splitlines(), nodes, test))
    return parsed


@functools.cache
def import_graph() -> grimp.ImportGraph:
    """The imports of all modules, also those for type checkers and those in functions."""
    names = [Path(package).name for package in PACKAGES]
    return grimp.build_graph(*names, include_external_packages=False, cache_dir=None)


def circles(imports: Mapping[str, Set[str]]) -> list[list[str]]:
    """Returns the groups of modules that reach each other, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = len(number)
        lowest[module] = number[module]
        path.append(module)
        for imported in imports[module]:
            if imported not in number:
                visit(imported)
            if imported in path:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == number[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1:
                groups.append(group)

    for module in sorted(imports):
        if module not in number:
            visit(module)
    return groups


def complexity(function: ast.AST) -> int:
    """McCabe's number as radon counts it: branches, loops, handlers, `and`/`or`, conditions, comprehensions."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.Try)):
            total += bool(node.orelse) + (not isinstance(node, ast.Try))
        elif isinstance(node, (ast.If, ast.IfExp, ast.ExceptHandler, ast.Assert, ast.match_case)):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


def functions() -> Iterator[tuple[Module, Function]]:
    for module in modules():
        for node in module.nodes:
            if isinstance(node, Function):
                yield module, node


def long_modules() -> list[str]:
    return [f"{module.path}: {len(module.lines)} lines" for module in modules() if len(module.lines) > 700]


def repeated_classes() -> list[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(module.path))
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]


def docstrings_of() -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{module.path}:{getattr(node, 'lineno', 1)}"
        for module in modules()
        for node in module.nodes
        if isinstance(node, documented) and re.match(r"Of\b", ast.get_docstring(node) or "")
    ]


def complex_functions() -> list[str]:
    counted = [(complexity(function), module, function) for module, function in functions()]
    return [
        f"{module.path}:{f.lineno} {f.name}: {n}" for n, module, f in sorted(counted, key=lambda c: -c[0]) if n > 15
    ]


def is_at_a_border(path: Path) -> bool:
    return any(path.is_relative_to(border) for borders in BORDERS.values() for border in borders)


def loose_signatures() -> list[str]:
    offenders = []
    for module, function in functions():
        if is_at_a_border(module.path):
            continue
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        annotations = [argument.annotation for argument in every if argument] + [function.returns]
        if any(annotation and LOOSE.search(ast.unparse(annotation)) for annotation in annotations):
            offenders.append(f"{module.path}:{function.lineno} {function.name}")
    return offenders


def skipped_lines() -> list[str]:
    return [f"{m.path}:{n}" for m in modules() for n, line in enumerate(m.lines, 1) if "# fmt: skip" in line]


def untested_modules() -> list[str]:
    """A module is tested by `test_<module>.py`, or by one or more `test_<module>_*.py`."""
    offenders = []
    for module in modules():
        if len(module.lines) <= 100 or module.test.exists():
            continue
        if not any(module.test.parent.glob(f"{module.test.stem}_*.py")):
            offenders.append(f"{module.path} needs {module.test.relative_to(ROOT)}")
    return offenders


def circles_of_imports() -> list[str]:
    graph = import_graph()
    imports = {}
    for importer in graph.modules:
        imported = graph.find_modules_directly_imported_by(importer)
        imports[importer] = {name for name in imported if (importer, name) not in IMPORTS_THAT_MAY_CLOSE_A_CIRCLE}
    return [chain_of(group, imports) for group in circles(imports)]


def chain_of(group: list[str], imports: Mapping[str, Set[str]]) -> str:
    """Returns a chain through a circle from its first module back to it, with the line of each import."""
    chains = [[group[0]]]
    for chain in chains:  # grows while it is read: the shortest chains come first
        for imported in sorted(imports[chain[-1]] & set(group)):
            if imported == group[0]:
                return "\n  ".join(line_of(a, b) for a, b in zip(chain, [*chain[1:], imported], strict=True))
            if imported not in chain:
                chains.append([*chain, imported])
    raise AssertionError(f"no circle through {group[0]}")


def line_of(importer: str, imported: str) -> str:
    details = import_graph().get_import_details(importer=importer, imported=imported)
    return f"{importer}:{details[0]['line_number']} {details[0]['line_contents']}"


def slivers() -> list[str]:
    graph = import_graph()
    offenders = []
    for module in modules():
        path = str(module.path)
        if len(module.lines) >= 60 or module.path.stem == "__init__" or path in SMALL_MODULES:
            continue
        if any(module.path.is_relative_to(folder) for folder in FOLDERS_OF_PARTS):
            continue
        importers = graph.find_modules_that_directly_import(module.name)
        if len(importers) == 1:
            offenders.append(f"{path}: {len(module.lines)} lines, imported by {importers.pop()} only")
    return offenders


def double_assignments() -> list[str]:
    sequences = (ast.Tuple, ast.List)
    offenders = []
    for module in modules():
        for node in module.nodes:
            if not isinstance(node, ast.Assign):
                continue
            is_chained = len(node.targets) > 1
            is_by_position = isinstance(node.targets[0], sequences) and isinstance(node.value, sequences)
            if (is_chained or is_by_position) and f"{module.path}: {ast.unparse(node)}" not in TWO_THINGS_ASSIGNED:
                offenders.append(f"{module.path}:{node.lineno} {ast.unparse(node)}")
    return offenders


def buried_comprehensions() -> list[str]:
    offenders = set()
    for module in modules():
        conditions = (node for node in module.nodes if isinstance(node, ast.IfExp))
        for condition in conditions:
            calls = (node for node in ast.walk(condition) if isinstance(node, ast.Call))
            for call in calls:
                buried = (node for node in ast.walk(call) if isinstance(node, COMPREHENSIONS))
                offenders.update(f"{module.path}:{node.lineno}" for node in buried)
    return sorted(offenders)


def double_comprehensions() -> list[str]:
    offenders = []
    for module in modules():
        for node in module.nodes:
            if isinstance(node, COMPREHENSIONS) and len(node.generators) > 1:
                offenders.append(f"{module.path}:{node.lineno}")
    return offenders


RULES = {
    "circles of imports": circles_of_imports,
    "modules over 700 lines": long_modules,
    "modules below 60 lines with one importer": slivers,
    "statements that assign two things": double_assignments,
    "comprehensions in calls in conditional expressions": buried_comprehensions,
    "comprehensions with two for": double_comprehensions,
    "public class names used twice": repeated_classes,
    "docstrings that begin with Of": docstrings_of,
    "functions with a complexity over 15": complex_functions,
    "signatures with mappings of Any beyond the borders": loose_signatures,
    "lines with fmt: skip": skipped_lines,
    "modules over 100 lines without a test file": untested_modules,
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_holds(rule: str) -> None:
    offenders = RULES[rule]()
    assert len(offenders) <= LIMITS[rule], "\n".join(offenders)


def test_complexity_is_counted_as_radon_counts_it() -> None:
    text = "def f(x):\n    for y in x:\n        if y and x:\n            pass\n    return [z for z in x if z]"
    assert complexity(ast.parse(text)) == 6


def test_imports_take_a_small_share_of_the_lines() -> None:
    imports = 0
    lines = 0
    for module in modules():
        if module.path.parts[0] == "bench":
            continue
        lines += len(module.lines)
        for node in module.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports += (node.end_lineno or node.lineno) - node.lineno + 1
    assert imports <= IMPORT_SHARE * lines, f"{imports} import lines of {lines}: {imports / lines:.1%}"


def test_a_circle_of_imports_is_found() -> None:
    imports = {"a": {"b"}, "b": {"c", "e"}, "c": {"d"}, "d": {"b"}, "e": {"a1"}, "a1": set[str]()}
    assert [sorted(group) for group in circles(imports)] == [["b", "c", "d"]]
