"""The classes that notebooks, scripts and the command line use.

`LedgerView` is a ledger with its campaigns and all of its values. `Campaign` is one campaign. `spec_of` and `yaml_of`
convert the keyword arguments of `Campaign(...)` to a spec and to the YAML text that the ledger stores.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from pydantic import BaseModel
from ruamel.yaml import YAML
from sqlalchemy.engine import Connection

from sciagent.api import displayed_answers, notebook_html
from sciagent.api.best_table import BestTable, best_of
from sciagent.api.displayed_answers import CandidateRow, candidates_of
from sciagent.api.notebook_tables import ResultQuery, ResultTable
from sciagent.api.progress_display import Progress, view_of
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import Entered, create_or_open, open_campaign_for_people, open_stored
from sciagent.campaign.file.allow_list import AllowList
from sciagent.campaign.file.campaign_spec import CampaignSpec, load_spec, parse_spec
from sciagent.campaign.file.subject_and_safety import is_reason
from sciagent.campaign.people import amend_pause_stop_and_resume
from sciagent.domain.answers.figures import FigureList
from sciagent.domain.answers.status_and_comparison import HitCounts
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.domain.evidence_keys_and_pooled_replicates import file_of
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.domain.quantities import Censoring, value_text
from sciagent.domain.states_and_needs import Verb
from sciagent.errors import SpecError, UsageError
from sciagent.execution.celery_executor_and_choice_by_name import executor_of
from sciagent.inputs import environment_variables
from sciagent.report.parts.best_candidate_cards_and_table import properties_of_spec
from sciagent.report.status_best_trace import status
from sciagent.store.campaign_state import campaigns as campaigns
from sciagent.store.campaign_state import directives
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.campaign_state.proposer_trajectories import Purpose
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import IMPORT_VERIFIER, register_ledger_properties
from sciagent.store.views import campaign_counts_and_remarks, property_value_pages
from sciagent.store.views.property_value_pages import LedgerValue, ValueFilter
from sciagent.verification import verifier_registry

if TYPE_CHECKING:
    from sciagent.api.run_campaign_or_evaluation import Drive
    from sciagent.campaign.driving.driver import SteppedDrive
    from sciagent.campaign.law.law_commands import ListedLaw, PredictionRow, ShownLaw
    from sciagent.campaign.people.verify_calculate_and_add import AddedCandidate
    from sciagent.domain.answers.candidate_and_value_answers import CalculatedCandidate
    from sciagent.domain.answers.reward_guards import ShownGuards
    from sciagent.report.export.parquet_tables import ArrowRows
    from sciagent.rewards.reward_spec import RewardSpec
    from sciagent.training.environment.environment import Environment, EnvironmentLimits
    from sciagent.training.evaluation.evaluation_command_answers import ListedPolicy, ShownPolicy
    from sciagent.training.rollouts.open_and_resume_groups import RolloutAnswer, Skills
from sciagent.api.open_ledger import LedgerLike, open_ledger, pick_campaign


@dataclass(frozen=True)
class LedgerCampaign:
    """A line of the list of campaigns."""

    name: str
    """Name of the campaign, unique in the ledger."""
    state: str
    """`created`, `running`, `paused`, `interrupted`, `finished`, `budget_spent` or `failed`."""
    candidates: int
    """Number of candidates."""
    hits: int
    """Number of hits."""
    distinct_hits: int
    """Number of different compounds among the hits, by standard InChIKey."""
    stop_reason: str | None
    """Reason why the campaign ended; None while it has not."""


def _campaign_cells(line: LedgerCampaign) -> Mapping[str, Any]:
    """Returns the displayed cells of a line, with both numbers of hits in one cell."""
    cells = dict(vars(line))
    n_distinct = cells.pop("distinct_hits")
    if n_distinct != line.hits:
        cells["hits"] = HitCounts(line.hits, n_distinct).text(str(line.hits))
    return cells


class LedgerView:
    """A ledger on SQLite or PostgreSQL, with the evidence of all its campaigns.

        Ledger("sciagent.db").evidence(property="homo_lumo_gap").to_pandas()

    url: a file, or a URL such as postgresql://sciagent@db/sciagent; by default SCIAGENT_LEDGER, then ./sciagent.db.
    create: whether a missing SQLite file is created. Raises UsageError if the file does not exist.
    """

    def __init__(self, url: LedgerLike = None, *, create: bool = False) -> None:
        self.store = open_ledger(url, create)

    @property
    def url(self) -> str:
        """URL of the ledger, without a password."""
        return self.store.url.render_as_string()

    def campaigns(self) -> ResultTable[LedgerCampaign]:
        """Returns all campaigns of the ledger, in the order of their start."""
        lines = []
        with self.store.read() as connection:
            for name in campaigns.names(connection):
                row = campaigns.get(connection, name)
                n_candidates = campaign_counts_and_remarks.n_candidates(connection, row.id)
                n_hits, n_distinct = campaign_counts_and_remarks.hits(connection, row.id)
                lines.append(LedgerCampaign(row.name, row.state, n_candidates, n_hits, n_distinct, row.stop_reason))
        return ResultTable(lines, "Campaigns", _campaign_cells)

    def campaign(self, name: str | None = None) -> Campaign:
        """Returns a campaign of the ledger; without a name, the only campaign. Raises UnknownNameError."""
        return Campaign.open(name, ledger=self)

    def policies(self) -> ResultTable[ListedPolicy]:
        """Returns the policies of the ledger, oldest first, with their parents and roles."""
        from sciagent.training.evaluation.show_and_promote_policies import listed

        return ResultTable(listed(self.store), "Policies")

    def policy(self, name: str) -> ShownPolicy:
        """Returns what the ledger knows of a policy: parents, recipe, evaluations, rewards and roles.

        name: name of the policy, with its hash or without, or a role. Raises UnknownNameError.
        """
        from sciagent.training.evaluation.show_and_promote_policies import show

        return show(self.store, name)

    def laws(self) -> ResultTable[ListedLaw]:
        """Returns the laws of structures that the ledger has, oldest first."""
        from sciagent.campaign.law.law_commands import listed

        return ResultTable(listed(self.store), "Laws")

    def fit_law(self, name: str, campaigns: Sequence[str], quantities: Sequence[str] = ()) -> ShownLaw:
        """Fits a law of structures to what campaigns measured, as `sciagent law fit`. Raises UsageError as it does."""
        from sciagent.campaign.law.law_commands import fit
        from sciagent.inputs.environment_variables import user

        return fit(self.store, name, campaigns, quantities=quantities, who=user())

    def predict(
        self, structures: str | Iterable[str], *, law: str | None = None, campaign: str | None = None
    ) -> ResultTable[PredictionRow]:
        """Returns a row for each structure and quantity that a law foretells, and one for each text that is none.

        law: name of a law; None: one that is fitted to the campaign alone. campaign: its answers count as well, and
        `p_hit` is the chance to meet its limits. Raises UsageError without both of them.
        """
        from sciagent.campaign.law.law_commands import predict, prediction_rows, records_of

        given = records_of([structures] if isinstance(structures, str) else structures)
        found = predict(self.store, given, law=law, campaign=campaign)
        return ResultTable(prediction_rows(found), f"Predictions of the law {found.law}")

    def guards(self, version: int) -> ShownGuards:
        """Returns whether each policy exploits the rewards of a version. Raises UnknownNameError."""
        from sciagent.rewards.guard_report import show_guards

        return show_guards(self.store, version)

    def evidence(
        self,
        property: str | None = None,
        *,
        campaign: str | None = None,
        verifier: str | None = None,
        key: str | None = None,
    ) -> ResultQuery[LedgerValue]:
        """Returns a query of all values with unit, uncertainty, level and origin, oldest first.

        campaign: only values of its candidates, also if another campaign paid. verifier: only values of this verifier;
        `import` for values from files. key: only values of this candidate. Raises UnknownNameError for a property or
        campaign that the ledger does not have.
        """
        wanted = ValueFilter(property, campaign, verifier, key)
        with self.store.read() as connection:
            property_value_pages.require_known_names(connection, wanted)
        ledger_file = Path(str(self.store.url.database)).name
        return ResultQuery(
            f"Evidence in {ledger_file}",
            self.store,
            page=lambda connection, cursor: property_value_pages.page(connection, wanted, cursor or 0),
            count=lambda connection: property_value_pages.count(connection, wanted),
            arrow=lambda connection: _arrow(connection, wanted),
            brief=_brief,
        )

    def calc(self, verifier: str, smiles: str | Iterable[str] = (), **more: Any) -> ResultTable[CalculatedCandidate]:
        """Runs one verifier on molecules; known evidence is reused. more: other arguments of `sciagent.calc`."""
        from sciagent.api.calc_and_answer_tables import calc

        return calc(verifier, smiles, ledger=self, **more)

    def close(self) -> None:
        """Closes the connections to the database."""
        self.store.close()

    def __enter__(self) -> LedgerView:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.url!r})\n{self.campaigns()!r}"

    def _repr_html_(self) -> str:
        return notebook_html.box(notebook_html.heading(f"Ledger {self.url}")) + self.campaigns()._repr_html_()


def _arrow(connection: Connection, wanted: ValueFilter) -> ArrowRows:
    """Returns the values as Arrow columns."""
    import pyarrow as pa

    from sciagent.report.export.parquet_tables import ArrowRows

    types = {  # of the columns that are no texts
        "value": pa.float64(),
        "uncertainty": pa.float64(),
        "replicate": pa.int64(),
        "at": pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([pa.field(name, types.get(name, pa.string())) for name in LedgerValue.__dataclass_fields__])
    rows = chain.from_iterable(property_value_pages.all_pages(connection, wanted))
    return ArrowRows(schema, map(vars, rows))


def _brief(row: LedgerValue) -> Mapping[str, Any]:
    """Returns the displayed cells of a value."""
    if row.campaign:
        paid_by = row.campaign
    elif row.verifier == IMPORT_VERIFIER:
        paid_by = file_of(row.source)
    else:
        paid_by = "verify"
    return {
        "candidate": row.text,
        "property": row.property,
        "value": Censoring(row.censoring).sign + value_text(row.value, row.uncertainty, row.unit),
        "level": row.level.split("//")[0],
        "paid by": paid_by,
    }


SOURCE_NAME = "Campaign(...)"
"""The name of a campaign without a file, in messages."""


def spec_of(keys: Mapping[str, Any], base: str | Path | None) -> tuple[CampaignSpec, str]:
    """Returns the spec and its YAML. Raises SpecError with all mistakes by path: `ladder[1].gate.gap: ...`.

    base: the folder that relative paths start from; None: the working directory.
    """
    text = yaml_of(keys)
    folder = None if base is None else Path(base).resolve()
    try:
        return parse_spec(text, SOURCE_NAME, folder), text
    except SpecError as error:  # its lines and columns mean nothing to the user, who has no file
        with_position = rf"^{re.escape(SOURCE_NAME)}:\d+:\d+: "
        message = re.sub(with_position, f"{SOURCE_NAME}: ", str(error), flags=re.MULTILINE)
        raise SpecError(message) from None


def yaml_of(keys: Mapping[str, Any]) -> str:
    """Returns the arguments as the text of a campaign file. Raises SpecError for values that a file cannot hold."""
    stream = io.StringIO()
    YAML(pure=True).dump(_plain(keys, ""), stream)
    return stream.getvalue()


def check_executor(spec: CampaignSpec, executor: str) -> None:
    """Raises UsageError if a rung is a function of this process but its jobs would run in other processes."""
    local = [rung.rung for rung in spec.all_rungs if rung.verifier in verifier_registry.defined()]
    if local and executor != "local":
        raise UsageError(
            f'executor="{executor}": {", ".join(local)} is a function of this process, which workers elsewhere do not '
            'have; run it with executor="local", or put it in a package (docs/verifiers.md)'
        )


def _plain(value: Any, path: str) -> Any:
    """Converts a value to dictionaries, lists, texts and numbers; a verifier function becomes its name.

    path: place of the value, such as `ladder[1].gate`. Raises SpecError for a value that a file cannot hold.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        prefix = f"{path}." if path else ""
        return {str(key): _plain(part, f"{prefix}{key}") for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{path}[{place}]") for place, part in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "item"):  # a NumPy number
        return _plain(value.item(), path)
    verifier_name = getattr(value, "verifier_name", None)
    if isinstance(verifier_name, str):  # a function decorated with `sciagent.verifier`
        return verifier_name
    if callable(value):
        raise SpecError(f"{SOURCE_NAME}: {path}: {value!r} is no verifier; put @sciagent.verifier(...) above it")
    raise SpecError(f"{SOURCE_NAME}: {path}: a {type(value).__name__} has no place in a campaign file")


PartSpec = Mapping[str, Any] | BaseModel
"""A part of a campaign, as a mapping of YAML keys or as a model."""


class Campaign:
    """A campaign: a goal, a ladder and a budget, with the ledger that stores its results.

        campaign = Campaign.from_yaml("campaigns/quickstart.yaml")
        campaign.run()
        campaign.best(10)

    The keyword arguments are the keys of the YAML file: plain dictionaries and lists, or the models of
    `sciagent.campaign.file`; `name` is its key `campaign`. A rung may name a function as its verifier, see
    `sciagent.verifier`. base: the folder that relative paths start from, by default the working directory.
    ledger: a file, a URL or a `Ledger`; by default what SCIAGENT_LEDGER names, then ./sciagent.db.

    The campaign is entered in the ledger at once. The same arguments open the same campaign again; only its budget,
    number of hits, limits, resources and workers may differ, and the ledger stores the difference as an amendment.

    Raises SpecError with all mistakes, and UsageError if the ledger has another campaign of that name.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        objectives: Sequence[PartSpec] = (),
        ladder: Sequence[PartSpec] = (),
        goal: PartSpec | None = None,
        budget: PartSpec | None = None,
        proposer: PartSpec | None = None,
        subject: str = MOLECULE_KIND,
        base: str | Path | None = None,
        ledger: LedgerLike = None,
        **more: Any,
    ) -> None:
        keys: dict[str, object] = {"campaign": name, "subject": subject, "objectives": objectives, "ladder": ladder}
        keys |= {"goal": goal, "budget": budget, "proposer": proposer, **more}
        given_keys = {key: value for key, value in keys.items() if value is not None}
        spec, source = spec_of(given_keys, base)
        self._begin(open_ledger(ledger, create=True), spec.campaign, spec, source)
        self.enter()

    @classmethod
    def from_yaml(cls, path: str | Path, ledger: LedgerLike = None, *, enter: bool = True) -> Campaign:
        """Returns the campaign of a file. enter: whether it is entered in the ledger now; otherwise at its first run.

        Raises SpecError with all mistakes of the file, and UsageError if the ledger has another campaign of that name.
        """
        file = Path(path)
        spec = load_spec(file)
        campaign = cls.__new__(cls)
        campaign._begin(open_ledger(ledger, create=True), spec.campaign, spec, file.read_text(encoding="utf-8"))
        if enter:
            campaign.enter()
        return campaign

    @classmethod
    def open(cls, name: str | None = None, ledger: LedgerLike = None, *, allowed: AllowList | None = None) -> Campaign:
        """Returns a campaign of the ledger; without a name, the only campaign. Raises UnknownNameError.

        allowed: what its stored file may name beyond itself when it is driven; None: anything.
        """
        store = open_ledger(ledger)
        campaign = cls.__new__(cls)
        with store.read() as connection:
            campaign._begin(store, pick_campaign(connection, name).name)
        campaign._allowed = allowed
        return campaign

    def _begin(self, store: Ledger, name: str, spec: CampaignSpec | None = None, source: str | None = None) -> None:
        """Sets the attributes. spec, source: for a campaign that the ledger may not have yet; else None."""
        self.name = name
        self.amended: list[str] = []
        """Changes that this object made to a campaign of the ledger, as `path: old -> new`."""
        self.kept: list[str] = []
        """A sentence on each amended value that the campaign of the ledger kept, although this object was made with the
        value of before."""
        self._store = store
        self._spec = spec
        self._source = source
        """YAML text of a campaign that is not entered yet; afterwards None."""
        self._allowed: AllowList | None = None
        """The list of things that the stored file may name; None: it may name anything."""
        self._entered: Entered | None = None
        self._stepped: SteppedDrive | None = None  # used by `step`
        self._drive: Drive | None = None  # used by `run`; another thread may stop it

    @property
    def ledger(self) -> LedgerView:
        """The ledger of the campaign."""
        return LedgerView(self._store)

    def enter(self, who: str | None = None) -> Entered:
        """Enters the campaign in the ledger, or opens it there. Returns the opened campaign, which the next run uses.

        who: name of the person, by default the user. Raises UsageError if the ledger has another campaign of that name.
        """
        person = who or environment_variables.user()
        if self._spec is not None and self._source is not None:
            self._entered = create_or_open(self._store, self._spec, self._source, person)
            self.amended = list(self._entered.amendments)
            self.kept = list(self._entered.kept)
        else:  # opening the stored spec keeps the amendments of other processes
            self._entered = open_stored(self._store, self.name, person, self._allowed)
        self._spec = self._entered.built.spec
        self._source = None
        return self._entered

    def try_executor(self, executor: str, site: str | Path | None = None) -> None:
        """Raises UsageError if the executor is unknown, or if something that it needs is missing."""
        opened = executor_of(executor, self._store, None if site is None else Path(site))
        if opened is not None:
            opened.close()

    def run(
        self,
        *,
        workers: int | None = None,
        executor: str = "local",
        site: str | Path | None = None,
        report: str | Path | None = None,
        progress: bool | Progress = True,
    ) -> displayed_answers.CampaignStatus:
        """Runs the campaign until the goal is reached, the budget is spent or nothing is left. Returns its status.

        Ctrl-C or the interrupt of a notebook's kernel lets running jobs finish. A second interrupt kills them; they are
        run again later. The campaign is then `interrupted`, nothing is lost, and `run` continues it. workers: number of
        parallel jobs, for this run only. executor: `local`, or `ledger`, `celery`, `slurm` for workers elsewhere. site:
        profile of the Slurm cluster. report: HTML file that is updated during the run. progress: False shows nothing.
        """
        from sciagent.api.run_campaign_or_evaluation import Drive

        self.close(now=False)
        if self._entered is None:
            self.try_executor(executor, site)  # first, so that a wrong argument leaves no campaign in the ledger
        built = self._for_driving()
        check_executor(built.spec, executor)
        view = view_of(self._store, self.name, progress)
        site_file = None if site is None else Path(site)
        report_file = None if report is None else Path(report)
        open_executor = partial(executor_of, executor, self._store, site_file)
        self._drive = Drive(built, view, open_executor, workers)
        try:
            self._drive.run(report_file)
            return self._drive.while_away(self.status)
        finally:
            self._drive = None

    def rollout(
        self,
        groups: int = 1,
        siblings: int = 8,
        turns: int = 6,
        *,
        policy: str | None = None,
        purpose: Purpose = "rollout",
        begins: str = "now",
        skills: Skills = "with",
        workers: int | None = None,
        say: Callable[[str], None] | None = None,
    ) -> RolloutAnswer:
        """Rolls out groups of episodes that begin alike on a frozen snapshot; the ladder then decides about them all.

        If a kill or a stop has left groups open, these are continued, and no new ones are begun. policy: `scripted`, or
        the name of a model, of a role or of a policy; default: the campaign's own. begins: the candidates that are
        shown, as `--from` says. skills: whether skills are shown; in `paired` groups both. say: called with a line at
        each step. Raises UsageError.
        """
        from sciagent.api.terminal_tables_and_signals import each_signal, raise_interrupt
        from sciagent.training.rollouts.campaign_rollouts import RolloutDrive, plan_of, policy_of

        self.close()
        built = self._for_driving()
        with policy_of(built, policy) as chosen:
            drive = RolloutDrive(built, chosen, workers, say or (lambda line: None))
            # the first signal lets running jobs finish, the second kills them, and later ones interrupt the call
            with each_signal(drive.stop, partial(drive.stop, now=True), last=raise_interrupt):
                return drive.run(plan_of(groups, siblings, turns, chosen.name, purpose, begins, skills))

    def environment(self, rewards: str | Path | RewardSpec, **limits: Unpack[EnvironmentLimits]) -> Environment:
        """Returns the live ladder as an environment for a policy of your own; it is a context manager.

        rewards: the file that describes the rewards, or its spec. Raises UsageError.
        """
        from sciagent.training.environment.environment import Environment

        self.close(now=False)
        return Environment(self._for_driving(), rewards, **limits)

    def step(self, wait: float = 0.25) -> str:
        """Takes one step: collects results, proposes, starts jobs. Returns the state of the campaign.

        The first step makes this process the campaign's driver. `stop`, `close`, the end of the campaign and the exit
        of its `with` block release the driver. wait: longest time to wait for a job, in seconds.
        """
        from sciagent.campaign.driving.driver import SteppedDrive

        if self._stepped is None:
            self._stepped = SteppedDrive(self._for_driving)
        end_state = self._stepped.step(wait)
        return str(end_state or self.state)

    def stop(self, now: bool = False, reason: str = "") -> str:
        """Stops the campaign in this or another process; running jobs may finish. Returns its state.

        Another process stops a moment later. now: kill running jobs, which are run again later. Raises UsageError if no
        process runs the campaign.
        """
        if self._drive is not None:
            self._drive.stop(now)
        elif self._stepped is not None and self._stepped.is_open:
            self._stepped.close(now)
        else:
            amend_pause_stop_and_resume.instruct(
                self._store, self.name, Verb.STOP, environment_variables.user(), reason, now=now
            )
        return self.state

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(now=error is not None)

    def status(self) -> displayed_answers.CampaignStatus:
        """Returns the status of the campaign: rungs, hits, cost and budget."""
        with self._store.read() as connection:
            answer = status(connection, campaigns.get(connection, self.name))
        return displayed_answers.CampaignStatus(**dict(answer))

    def best(self, n: int = 10) -> BestTable:
        """Returns the n best candidates: hits first, then what may still be one by its probability.

        Raises UsageError if n is no whole number above 0."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise UsageError(f"best(n) takes the number of candidates, such as best(10), not {n!r}")
        with self._store.read() as connection:
            return best_of(connection, campaigns.get(connection, self.name), n)

    def candidates(self) -> ResultQuery[CandidateRow]:
        """Returns a query of every candidate with its values, in order of arrival; it reads in pages."""
        return candidates_of(self._store, self.name, list(properties_of_spec(self._row().spec)))

    def evidence(self, property: str | None = None) -> ResultQuery[LedgerValue]:
        """Returns a query of every value of its candidates, with unit, uncertainty, level and origin."""
        return self.ledger.evidence(property, campaign=self.name)

    def explain(self, candidate: str) -> displayed_answers.ExplainedCandidate:
        """Returns all that the ledger holds on a candidate, with the reasons for its standing.

        candidate: a notation such as SMILES or the text of a CIF, the text that `best` shows, its name, at least 6
        digits of its key, its InChIKey, or a refused text. Raises UsageError if the ledger has no such candidate.
        """
        from sciagent.report.explain_candidate import explain_named

        return displayed_answers.ExplainedCandidate(explain_named(self._store, candidate, self.name))

    def verify(self, smiles: str, *, no_safety: str | None = None) -> displayed_answers.LadderResult:
        """Runs the ladder on a molecule until it fails a rung. Known evidence is reused; new evidence is stored.

        The molecule does not enter the campaign; see `add`. no_safety: a reason to leave the safety screen out.
        """
        from sciagent.campaign.people.verify_calculate_and_add import verify_one

        answer = verify_one(self._store, self.screened_spec(no_safety), smiles, environment_variables.user())
        return displayed_answers.LadderResult(**dict(answer))

    def screened_spec(self, no_safety: str | None) -> CampaignSpec:
        """Returns the spec, without its safety screen if a reason is given. Raises UsageError for a poor reason."""
        if no_safety is None:
            return self.spec
        if not is_reason(no_safety):
            raise UsageError("--no-safety: give a reason that a colleague can judge, of three words at least")
        return self.spec.without_screen(no_safety)

    def report(self, path: str | Path | None = None, top: int | None = None) -> displayed_answers.WrittenReport:
        """Writes the report as an HTML file, by default NAME.report.html. top: number of candidates that get a card."""
        from sciagent.report.page.html_page import checked_report_path, write_report

        target = checked_report_path(Path(f"{self.name}.report.html" if path is None else path))
        write_report(self._store, self.name, target, top)
        return displayed_answers.WrittenReport(target)

    def figures(self) -> displayed_answers.ShownFigures:
        """Returns the curves of the report as data: hits against each resource and time, and spending over time."""
        from sciagent.report.parts.campaign_figures import campaign_figures

        with self._store.read() as connection:
            register_ledger_properties(connection)
            figures = campaign_figures(connection, campaigns.get(connection, self.name))
        return displayed_answers.ShownFigures(FigureList(campaign=self.name, figures=figures))

    def add(self, smiles: str | Iterable[str], reason: str = "added from Python") -> ResultTable[AddedCandidate]:
        """Adds your own molecules to the campaign; they are parsed, screened and gated as any other proposal.

        The running driver or the next `run` verifies them. reason: stored with your name.
        """
        texts = [smiles] if isinstance(smiles, str) else smiles
        proposals = map(ProposalIn, texts)
        return ResultTable(self.entering(proposals, reason), f"Added to {self.name}")

    def proposals_of_file(self, file: Path, column: str | None = None) -> Iterator[ProposalIn]:
        """Yields the structures of a file for `entering`; of the campaign's own file only the rows that were added at
        its end. column: with the structures; None means that of the campaign, or the subject's."""
        from sciagent.campaign.people.verify_calculate_and_add import proposals_of_file

        return proposals_of_file(self._for_people(), file, column)

    def entering(
        self, proposals: Iterable[ProposalIn], reason: str, who: str | None = None
    ) -> Iterator[AddedCandidate]:
        """Adds molecules as a stream, for more than memory holds; yields what became of each.

        who: name of the person, by default the user.
        """
        from sciagent.campaign.people.verify_calculate_and_add import add

        why = directives.checked_reason(reason)
        given = (replace(proposal, operation="person", rationale=why) for proposal in proposals)
        return add(self._for_people(), given, who or environment_variables.user(), why)

    @property
    def spec(self) -> CampaignSpec:
        """The specification: goal, ladder, budget and the other keys."""
        if self._spec is None:
            self._spec = self._for_people().spec
        return self._spec

    @property
    def state(self) -> str:
        """`created`, `running`, `paused`, `interrupted`, `finished`, `budget_spent` or `failed`."""
        return str(self._row().state)

    def __repr__(self) -> str:
        with self._store.read() as connection:
            row = campaigns.find(connection, self.name)
            if row is None:
                return f"Campaign({self.name!r}), not in a ledger yet"
            n_candidates = campaign_counts_and_remarks.n_candidates(connection, row.id)
            hit_counts = campaign_counts_and_remarks.hits(connection, row.id)
        hits_text = f", {hit_counts}" if row.has_limits else ""
        return f"Campaign({self.name!r}): {row.state}, {n_candidates} candidates{hits_text}"

    def _repr_html_(self) -> str:
        with self._store.read() as connection:
            if campaigns.find(connection, self.name) is None:
                return notebook_html.box(
                    notebook_html.heading(self.name), notebook_html.paragraph("not in a ledger yet", soft=True)
                )
        paragraphs = [notebook_html.paragraph(f"amended: {line}") for line in self.amended]
        paragraphs += [notebook_html.paragraph(line) for line in self.kept]
        amendments = notebook_html.box(*paragraphs) if paragraphs else ""
        return self.status()._repr_html_() + amendments

    def _row(self) -> CampaignRow:
        with self._store.read() as connection:
            return campaigns.get(connection, self.name)

    def _for_driving(self) -> Built:
        """Returns the campaign built by the ledger's current spec, for one use: a run changes its costs."""
        entered = self._entered
        if entered is None or entered.built.row.spec_hash != self._row().spec_hash:
            entered = self.enter()
        self._entered = None
        return entered.built

    def _for_people(self) -> Built:
        """Returns the campaign as commands of people need it; it need not be able to run here."""
        if self._entered is not None:
            return self._entered.built
        return open_campaign_for_people(self._store, self.name)

    def close(self, now: bool = False) -> None:
        """Ends the driver that `step` has started, after its running jobs finish. now: kill them instead."""
        if self._stepped is not None:
            self._stepped.close(now)
