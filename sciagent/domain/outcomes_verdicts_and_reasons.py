"""The outcomes of a verification with the rules for each, the verdicts, and the named reasons."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a verification ended."""

    OK = "ok"
    REFUSED = "refused"
    NOT_CONVERGED = "not_converged"
    IMPLAUSIBLE = "implausible"
    UNSTABLE = "unstable"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"
    BAD_ENVIRONMENT = "bad_environment"
    LOST = "lost"
    NOT_OBTAINED = "not_obtained"  # people could not make or measure the candidate

    @property
    def rule(self) -> OutcomeRule:
        """The treatment of the outcome."""
        return OUTCOME_RULES[self]


class Verdict(StrEnum):
    """The conclusion of a campaign from an outcome under its own gate; it is derived and never stored as evidence."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


@dataclass(frozen=True)
class OutcomeRule:
    """The treatment of an outcome."""

    verdict: Verdict | None
    """Verdict that follows from the outcome; None for `ok`, where the campaign's gate decides."""
    is_evidence: bool
    """Whether the finding is stored as evidence."""
    teaches_cost: bool = False
    """Whether its cost is that of a whole computation, so that it teaches what the next one costs. A refusal costs
    next to nothing."""


OUTCOME_RULES: dict[Outcome, OutcomeRule] = {
    Outcome.OK: OutcomeRule(None, is_evidence=True, teaches_cost=True),
    Outcome.REFUSED: OutcomeRule(Verdict.NOT_APPLICABLE, is_evidence=True),
    **dict.fromkeys(
        (Outcome.NOT_CONVERGED, Outcome.IMPLAUSIBLE, Outcome.UNSTABLE),
        OutcomeRule(Verdict.INCONCLUSIVE, is_evidence=True, teaches_cost=True),
    ),
    Outcome.NOT_OBTAINED: OutcomeRule(Verdict.FAIL, is_evidence=True),
    **dict.fromkeys((Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY), OutcomeRule(Verdict.INCONCLUSIVE, is_evidence=False)),
    **dict.fromkeys(
        (Outcome.CRASHED, Outcome.BAD_ENVIRONMENT, Outcome.LOST), OutcomeRule(Verdict.ERROR, is_evidence=False)
    ),
}


class Reason(StrEnum):
    """The reason for a failure, a refusal or an undecided result. Never rename one, since ledgers store them."""

    # the text never became a candidate
    EMPTY = "empty"
    NOT_TEXT = "not_text"  # null bytes, control characters, not a string
    TOO_LONG = "too_long"
    TOO_DEEP = "too_deep"  # nested branches
    UNPARSABLE = "unparsable"
    VALENCE = "valence"
    KEKULIZATION = "kekulization"
    UNKNOWN_ELEMENT = "unknown_element"
    WILDCARD = "wildcard"  # dummy or query atoms
    MULTIPLE_FRAGMENTS = "multiple_fragments"
    NO_IDENTITY = "no_identity"  # InChI gave nothing
    NOT_FINITE = "not_finite"  # NaN or infinity among the numbers
    UNDEFINED_STEREO = "undefined_stereo"
    FORMULA_MISMATCH = "formula_mismatch"  # the sites of a file do not make the formula that it states
    # refusals: the method or the campaign does not apply
    ELEMENT = "element"
    TOO_LARGE = "too_large"
    TOO_SMALL = "too_small"
    CHARGE = "charge"
    RADICAL = "radical"
    MULTIPLICITY = "multiplicity"  # spin and electron count do not fit
    STRUCTURAL_ALERT = "structural_alert"
    ISOTOPE = "isotope"
    RING = "ring"  # a ring too small, too large or too strained
    FORBIDDEN_PATTERN = "forbidden_pattern"
    MISSING_PATTERN = "missing_pattern"  # a substructure that the campaign requires
    EXPLOSIVE = "explosive"
    ACUTE_HAZARD = "acute_hazard"  # toxic or violently reactive in small amounts
    CHEMICAL_WEAPON = "chemical_weapon"  # a scheduled class
    RADIOACTIVE = "radioactive"  # an element without a stable isotope, or nuclear material
    NOT_NOVEL = "not_novel"  # in a reference set, or too similar to a member
    NO_ROUTE = "no_route"  # no synthesis is known
    SOLVENT = "solvent"  # the method has no parameters for it
    NO_CORRECTION = "no_correction"  # energies of a compound are not comparable by the model's functional
    NO_PARAMETERS = "no_parameters"  # a force field has none for an atom, bond, angle or torsion
    WRONG_KIND = "wrong_kind"  # a crystal for a molecular method, or the reverse
    # gates and objectives
    BELOW_WINDOW = "below_window"
    ABOVE_WINDOW = "above_window"
    NOT_MEASURED = "not_measured"
    # other candidates of the campaign
    SAME_STRUCTURE = "same_structure"  # relaxed to the structure that an earlier candidate relaxed to
    LOWER_POLYMORPH = "lower_polymorph"  # another one of the same formula has a lower energy, by more than the limit
    # people
    VETOED = "vetoed"
    SYNTHESIS_FAILED = "synthesis_failed"
    DECOMPOSED = "decomposed"
    INSOLUBLE = "insoluble"
    IMPURE = "impure"
    RETURNED = "returned"  # a person gave the task back; this says nothing of the candidate
    # engines
    EMBEDDING_FAILED = "embedding_failed"
    OVERLAPPING_ATOMS = "overlapping_atoms"
    BOND_CHANGED = "bond_changed"  # the relaxation made another molecule
    GEOMETRY_NOT_CONVERGED = "geometry_not_converged"
    IMAGINARY_FREQUENCY = "imaginary_frequency"  # the relaxed geometry is a saddle point, no minimum
    SCF_NOT_CONVERGED = "scf_not_converged"
    SCF_UNSTABLE = "scf_unstable"
    TRIPLET_GROUND_STATE = "triplet_ground_state"
    SPIN_CONTAMINATED = "spin_contaminated"
    ANION_UNBOUND = "anion_unbound"
    CATION_DISSOCIATED = "cation_dissociated"
    ANION_DISSOCIATED = "anion_dissociated"
    NEAR_DEGENERATE = "near_degenerate"  # a single determinant does not describe the state
    CHARGE_TRANSFER = "charge_transfer"  # an excitation that the functional is known to place far too low
    NO_EXCITED_STATE = "no_excited_state"
    MISSING_BASIS = "missing_basis"
    MISSING_ECP = "missing_ecp"
    IMPLAUSIBLE_ENERGY = "implausible_energy"
    IMPLAUSIBLE_VALUE = "implausible_value"
    COLLAPSED = "collapsed"  # the relaxed cell is flat, or far smaller than it was
    VOLUME_CHANGED = "volume_changed"  # the relaxation made another structure
    ENERGY_SCALE = "energy_scale"  # energies of other methods or corrections do not mix
    NOT_PERIODIC = "not_periodic"  # the method needs a cell in three dimensions
    MISSING_SETUP = "missing_setup"  # no PAW data for an element
    SYMMETRY_BROKEN = "symmetry_broken"  # positions lost the symmetry with which a calculation began
    NOT_EQUILIBRATED = "not_equilibrated"  # a simulation too short for its correlations, or one that still drifts
    NO_OVERLAP = "no_overlap"  # two states share too few configurations for the difference of their free energies
    BOX_TOO_SMALL = "box_too_small"  # the periodic box became narrower than twice the range of the forces
    EXPLODED = "exploded"  # positions, velocities or energies of a simulation became NaN or infinite
    PHASE = "phase"  # a liquid that boiled, or that does not flow; a crystal that loses its structure
    VISCOSITY_UNKNOWN = "viscosity_unknown"  # without it a diffusion coefficient cannot be corrected for the box's size
    # external programs
    PROGRAM_MISSING = "program_missing"  # not installed on this machine, or another program of the same name
    BAD_INPUT = "bad_input"  # the program does not understand its input, such as the name of a functional
    LICENCE = "licence"  # the program's licence or installation does not let it run
    DISK_FULL = "disk_full"
    # language models that are asked for an opinion
    TOO_FEW_VOTES = "too_few_votes"  # too many of its answers could not be read
    MODEL_UNREACHABLE = "model_unreachable"
    MODEL_CHANGED = "model_changed"  # a model other than the named one answered
    # the host
    WALL_LIMIT = "wall_limit"
    STALLED = "stalled"  # it reported no progress for as long as its stall limit
    MEMORY_LIMIT = "memory_limit"
    SIGNAL = "signal"
    EXCEPTION = "exception"
    NO_RESULT = "no_result"  # the process ended well without a result
    BAD_RESULT = "bad_result"  # its result is not a finding
    IMPORT_FAILED = "import_failed"
    WORKER_DIED = "worker_died"
    REFERENCE_FILE = "reference_file"  # a file that the settings name is missing, changed or unreadable
    LEASE_EXPIRED = "lease_expired"
    NO_PARTITION = "no_partition"  # no partition of the cluster can hold the job
    KILLS_WORKERS = "kills_workers"


LIKE_ANOTHER = frozenset({Reason.SAME_STRUCTURE, Reason.LOWER_POLYMORPH})
"""Reasons whose detail says in a sentence to which other candidate a candidate is compared."""
