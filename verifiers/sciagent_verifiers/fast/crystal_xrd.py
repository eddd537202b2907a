"""The verifier `crystal.xrd`: compares the computed powder pattern of a crystal with a measured one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from sciagent.chemistry.crystal import Crystal
from sciagent.domain.properties_and_levels import XRD_MATCH, XRD_RWP, XRD_UNEXPLAINED
from sciagent.domain.series import MEDIA_TYPE
from sciagent.errors import UsageError
from sciagent.verification.verifier_contract import (
    ArtifactFile,
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    Property,
    PropertyAtLevel,
    Quantity,
    Reason,
    ReferenceFile,
    Refusal,
    Settings,
    SimulatorError,
    Tier,
    Verifier,
    at,
)
from sciagent_simulators.powder.measured_pattern import ENDINGS, PreparedPattern, prepared, read_pattern
from sciagent_simulators.powder.powder_fit import FitLimits, PowderFit, fit, fitted_series
from sciagent_simulators.powder.reflections_and_spectral_lines import Reflections, lines_of, reflections_of

MARGIN = 2.0  # degrees beyond the pattern within which reflections may move into it
CONDITIONS = {
    "two_theta_min": "from",
    "two_theta_max": "to",
    "cell_tolerance": "cell within",
    "zero_tolerance": "zero within",
    "background_window": "background",
}
"""{setting: its word in the conditions of the level}. A setting is stated there if it is not the default."""
WavelengthName = Literal[
    "CrKa", "CrKa1", "FeKa", "FeKa1", "CoKa", "CoKa1", "CuKa", "CuKa1", "MoKa", "MoKa1", "AgKa", "AgKa1"
]


class PatternFile(ReferenceFile):
    """A measured powder pattern: a text file with 2-theta in degrees, intensity, and perhaps its uncertainty."""

    @model_validator(mode="after")
    def _known_format(self) -> PatternFile:
        if not self.path.lower().endswith(ENDINGS):
            raise ValueError(f'"{self.name}" is no powder pattern; use {", ".join(ENDINGS)}')
        return self


class CrystalXrdSettings(Settings):
    """The measured pattern, the radiation, and what the fit may change."""

    pattern: PatternFile = Field(description="Measured pattern: .xy, .xye, .csv, .txt or .dat.")
    wavelength: WavelengthName | Annotated[float, Field(ge=0.1, le=5)] = Field(
        description="Tube, such as CuKa (both lines) or CuKa1 (monochromator), or a wavelength in angstrom."
    )
    two_theta_min: float | None = Field(None, gt=0, lt=180, description="Degrees; default: the first point.")
    two_theta_max: float | None = Field(None, gt=0, lt=180, description="Degrees; default: the last point.")
    cell_tolerance: float = Field(
        0.02, ge=0, le=0.05, description="Largest relative change of all cell lengths; PBE cells are 1 % too large."
    )
    zero_tolerance: float = Field(0.1, ge=0, le=1, description="Largest shift of all angles 2-theta, in degrees.")
    background_window: float = Field(
        3.0, ge=0.5, le=20, description="Degrees; broader features than this belong to the background."
    )
    max_sites: int = Field(200, ge=1, le=500, description="Larger primitive cells are refused.")

    @model_validator(mode="after")
    def _rising(self) -> CrystalXrdSettings:
        if self.two_theta_min and self.two_theta_max and self.two_theta_max - self.two_theta_min < 5:
            raise ValueError("two_theta_max has to be at least 5 degrees above two_theta_min")
        return self

    @model_validator(mode="after")
    def _measured(self, info: ValidationInfo) -> CrystalXrdSettings:
        """Refuses a file that is no pattern, and a range without points, when a campaign file is read."""
        # only the reader of campaign files gives their folder as `base`
        is_campaign_file = (info.context or {}).get("base") is not None
        if is_campaign_file:
            fault = _fault(self.pattern, self.two_theta_min, self.two_theta_max)
            if fault:
                raise ValueError(fault)
        return self


class CrystalXrd(Verifier[Crystal]):
    """Match of a crystal's computed powder pattern with a measured one: the cosine of the intensities after a fit.

    The pattern is kinematic (pymatgen): neutral atoms, no absorption, unpolarised beam. The fit changes the cell
    lengths by a common factor, the zero of the angles, width and shape of the peaks, one displacement parameter and the
    height; atoms stay where they are. For a crystal with one set of lattice planes whose spacing is twice that of
    all others, such as Bi2Te3, it also fits the preferred orientation of plates, by the function of March and Dollase.
    The background is that of SNIP, the same for all candidates. Values are exact for their definition (uncertainty 0),
    and the fit draws no random number.

    A high match does not prove a structure: cells that differ by a common factor, and atoms of similar scattering
    power, give nearly the same pattern. Texture of needles, and of plates of other crystals, lowers the match of the
    right structure. A residual above 1, which is worse than no pattern at all, fails a gate that the verifier sets.
    """

    name = "crystal.xrd"
    version = "2"
    tier = Tier.FAST
    kind = "crystal"
    Settings = CrystalXrdSettings
    settings: CrystalXrdSettings
    preload = ("pymatgen.analysis.diffraction.xrd", "sciagent_simulators.powder.powder_fit")
    engines = ("pymatgen-core", "pymatgen")

    @classmethod
    def missing(cls) -> str | None:
        """Returns None, or how pymatgen is installed."""
        return None if find_spec("pymatgen") else "pip install 'sciagent[crystals]'"

    @property
    def level(self) -> Level:
        file = self.settings.pattern
        fields = CrystalXrdSettings.model_fields
        conditions = []
        for name, word in CONDITIONS.items():
            value = getattr(self.settings, name)
            if value != fields[name].default:
                conditions.append(f"{word} {value:g}")
        method = f"kinematic XRD {self.settings.wavelength} to {file.name[:80]} {file.sha256[:8]}"
        return Level(method, conditions=", ".join(conditions))

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, XRD_MATCH, XRD_RWP, XRD_UNEXPLAINED)

    @property
    def gates(self) -> Mapping[str, tuple[float | None, float | None]]:
        return {XRD_RWP.name: (None, 1.0)}

    def prepare(self) -> None:
        self._require_pattern()

    def attach(self) -> None:
        self._require_pattern()

    def accepts(self, candidate: Crystal) -> Refusal | None:
        if candidate.kind != "crystal":
            return Refusal(Reason.WRONG_KIND, f"a {candidate.kind}, not a crystal")
        if candidate.n_atoms > self.settings.max_sites:
            return Refusal(Reason.TOO_LARGE, f"{candidate.n_atoms} atoms; the limit is {self.settings.max_sites}")
        return None

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=0.05 + 1e-3 * candidate.n_atoms)

    def verify(self, batch: Sequence[Crystal], context: Context) -> Iterator[Finding]:
        for crystal in batch:
            try:
                yield self._finding(crystal, context)
            except SimulatorError as error:
                yield self.failed(crystal, error)

    @cached_property
    def _pattern(self) -> PreparedPattern:
        """The measured pattern without its background. Raises SimulatorError for a file that is none."""
        s = self.settings
        return _prepared(s.pattern, s.two_theta_min, s.two_theta_max, s.background_window)

    def _require_pattern(self) -> PreparedPattern:
        """Returns the measured pattern; the first call reads its file. Raises SimulatorError for a faulty file."""
        return self._pattern

    def _finding(self, crystal: Crystal, context: Context) -> Finding:
        refusal = self.accepts(crystal)
        if refusal:
            return Finding(crystal.key, Outcome.REFUSED, reason=refusal.reason, detail=refusal.detail)
        lines = lines_of(self.settings.wavelength)
        grid = self._pattern.two_theta
        # the Lorentz factor is infinite at 0 and at 180 degrees
        low = max(0.5, float(grid[0]) - MARGIN)
        high = min(179.0, float(grid[-1]) + MARGIN)
        reflections = self._reflections(crystal, lines[0].wavelength, low, high)
        limits = FitLimits(cell=self.settings.cell_tolerance, zero=self.settings.zero_tolerance)
        fitted = fit(self._pattern, reflections, lines, limits)
        if fitted is None:
            values = {XRD_MATCH: 0.0, XRD_RWP: 1.0, XRD_UNEXPLAINED: 1.0}  # the worst values
            detail = "no reflection of the crystal lies on a measured peak"
            return self._measured_finding(crystal, values, detail, facts={}, artifacts=())
        values = {XRD_MATCH: fitted.match, XRD_RWP: fitted.rwp, XRD_UNEXPLAINED: fitted.unexplained}
        facts = {**fitted.parameters._asdict(), "at_limit": list(fitted.at_limit), "reflections": len(fitted.centres)}
        detail = f"at the limit of the fit: {', '.join(fitted.at_limit)}" if fitted.at_limit else ""
        artifacts = (self._series_file(crystal, fitted, context),)
        return self._measured_finding(crystal, values, detail, facts, artifacts)

    def _reflections(self, crystal: Crystal, wavelength: float, low: float, high: float) -> Reflections:
        try:
            return reflections_of(crystal.structure, wavelength, low, high)
        except (ValueError, KeyError) as error:  # an element without scattering parameters
            detail = f"no computed pattern: {type(error).__name__}: {error}"[:300]
            raise SimulatorError(Outcome.REFUSED, Reason.ELEMENT, detail) from error

    def _series_file(self, crystal: Crystal, fitted: PowderFit, context: Context) -> ArtifactFile:
        """Writes the fitted and the measured pattern to a file, and returns it."""
        file = context.scratch / f"{crystal.key[:16]}-xrd.series.json"
        series = fitted_series(self._pattern, fitted, f"{crystal.formula} against {self.settings.pattern.name}")
        file.write_bytes(series.to_json())
        return ArtifactFile(file.name, str(file), MEDIA_TYPE)

    def _measured_finding(
        self,
        crystal: Crystal,
        values: Mapping[Property, float],
        detail: str,
        facts: Mapping[str, Any],
        artifacts: tuple[ArtifactFile, ...],
    ) -> Finding:
        measured = tuple(
            Measured(prop.name, self.level, Quantity(value, prop.unit, uncertainty=0.0))
            for prop, value in values.items()
        )
        return Finding(crystal.key, Outcome.OK, measured, detail=detail, diagnostics=dict(facts), artifacts=artifacts)


@lru_cache(maxsize=16)
def _fault(file: PatternFile, low: float | None, high: float | None) -> str:
    """Returns what is wrong with a file whose content has this hash, or with the range; empty if nothing is wrong."""
    try:
        pattern = read_pattern(file.check(), file.name)
    except (UsageError, SimulatorError) as error:
        return str(error)
    try:
        pattern.between(low, high)
    except UsageError as error:
        return f"two_theta_min and two_theta_max: {error}"
    return ""


@lru_cache(maxsize=16)
def _prepared(file: PatternFile, low: float | None, high: float | None, window: float) -> PreparedPattern:
    """Returns the measured pattern of a file whose content has this hash. Raises SimulatorError."""
    try:
        pattern = read_pattern(file.check(), file.name)
        return prepared(pattern.between(low, high), window)
    except UsageError as error:
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, str(error)) from error
