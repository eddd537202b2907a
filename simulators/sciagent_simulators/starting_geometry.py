"""Starting geometries of molecules: embedded, searched, and relaxed by a force field or tight binding."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sciagent.domain.evidence_keys_and_pooled_replicates import seed_of
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import Geometry, Positions, bonds_of, check, check_bonds, failure
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvation, Solvent


class GeometryProtocol(BaseModel):
    """The steps from a graph to a geometry, with their settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Literal["gfn2", "mmff94"] = Field(default="gfn2", description="What ranks and relaxes the conformers.")
    conformers: int = Field(
        default=10, ge=1, le=1000, description="How many are embedded; the lowest by `method` is kept."
    )
    solvent: Solvent | None = omitted_if_unset(
        None,
        description="GFN2-xTB ranks and relaxes in this solvent (ALPB) instead of in vacuum, where zwitterions do not "
        "exist.",
    )

    @model_validator(mode="after")
    def _force_fields_have_no_solvent(self) -> GeometryProtocol:
        if self.solvent and self.method != "gfn2":
            raise ValueError(f"{self.method} relaxes in vacuum; with a solvent use method: gfn2")
        return self

    @property
    def label(self) -> str:
        """The name for `Level.geometry`, such as `GFN2-xTB//ETKDGv3x10` or `GFN2-xTB(water)//ETKDGv3x10`."""
        method = "GFN2-xTB" if self.method == "gfn2" else "MMFF94"
        solvent = f"({self.solvent})" if self.solvent else ""
        return f"{method}{solvent}//ETKDGv3x{self.conformers}"

    def seed(self, candidate_key: str, replicate: int = 0) -> int:
        """Returns a 31-bit seed that depends only on the arguments and the protocol: all verifiers get one geometry."""
        return seed_of(candidate_key, self.model_dump(mode="json"), replicate)


def embed(
    mol: Any, charge: int, multiplicity: int, conformers: int, seed: int
) -> tuple[list[Geometry], dict[str, Any], Positions]:
    """Returns ETKDGv3 conformers relaxed in MMFF94 (or UFF), lowest first; diagnostics; and force-field energies.

    The energies, (n,) in kcal/mol, have the order of the conformers. Diagnostics: force field, number of conformers,
    lowest energy (kcal/mol), seed. mol: RDKit molecule or SMILES, hydrogens implicit.
    Raises SimulatorError implausible (embedding_failed, overlapping_atoms).
    """
    from rdkit import Chem
    from rdkit.Chem import rdDistGeom

    graph = Chem.MolFromSmiles(mol) if isinstance(mol, str) else mol
    molecule = Chem.AddHs(graph)
    parameters: Any = rdDistGeom.ETKDGv3()
    parameters.randomSeed = seed
    parameters.numThreads = 1
    conformer_ids = list(rdDistGeom.EmbedMultipleConfs(molecule, conformers, parameters))
    needs_random_coordinates = not conformer_ids  # they succeed more often, and take longer
    if needs_random_coordinates:
        parameters.useRandomCoords = True
        conformer_ids = list(rdDistGeom.EmbedMultipleConfs(molecule, conformers, parameters))
    if not conformer_ids:
        raise failure(Reason.EMBEDDING_FAILED, "no conformer satisfies the distance bounds")
    force_field, energies = _relax_in_force_field(molecule)
    order = np.argsort(energies, kind="stable")
    numbers = tuple(atom.GetAtomicNum() for atom in molecule.GetAtoms())
    positions = [np.array(molecule.GetConformer(conformer_ids[k]).GetPositions(), dtype=float) for k in order]
    geometries = [Geometry(numbers, place, charge, multiplicity) for place in positions]
    check(geometries[0])
    diagnostics = {
        "force_field": force_field,
        "conformers": len(conformer_ids),
        "random_coordinates": needs_random_coordinates,
        "force_field_energy": float(energies[order[0]]),
        "seed": seed,
    }
    return geometries, diagnostics, np.array(energies, dtype=float)[order]


def prepare(
    mol: Any, charge: int, multiplicity: int, protocol: GeometryProtocol, seed: int
) -> tuple[Geometry, dict[str, Any]]:
    """Returns the geometry by the protocol, with its bonds checked, and diagnostics.

    mmff94: the conformer with the lowest force-field energy. gfn2: the force-field conformer with the lowest GFN2-xTB
    energy, then relaxed. (A ranking by the force field gives anti or gauche ethanol, depending on the seed.)
    Raises SimulatorError as `embed`, `check_bonds` and `tblite_engine.relax` do.
    """
    geometries, diagnostics = search_conformers(mol, charge, multiplicity, protocol, seed)
    geometry, details = relaxed_by_protocol(mol, geometries[0], protocol)
    return geometry, diagnostics | details


def search_conformers(
    mol: Any, charge: int, multiplicity: int, protocol: GeometryProtocol, seed: int
) -> tuple[list[Geometry], dict[str, Any]]:
    """Returns the force-field conformers of the protocol's search, lowest by its method first, and diagnostics.

    A conformer that GFN2-xTB cannot rank comes last. Raises SimulatorError as `embed` and `tblite_engine.energies` do.
    """
    geometries, diagnostics, _ = embed(mol, charge, multiplicity, protocol.conformers, seed)
    if protocol.method == "gfn2" and len(geometries) > 1:
        from sciagent_simulators.tblite_engine import energies

        gfn2_energies = energies(geometries, solvation=_solvation(protocol))
        order = np.argsort(gfn2_energies, kind="stable")
        geometries = [geometries[k] for k in order]
    return geometries, diagnostics


def relaxed_by_protocol(mol: Any, geometry: Geometry, protocol: GeometryProtocol) -> tuple[Geometry, dict[str, Any]]:
    """Returns a conformer of `search_conformers`, relaxed if the protocol's method is gfn2, and diagnostics.

    Its bonds are checked. Raises SimulatorError as `check_bonds` and `tblite_engine.relax` do."""
    details: dict[str, Any] = {}
    if protocol.method == "gfn2":
        from sciagent_simulators.tblite_engine import relax

        geometry, result = relax(geometry, solvation=_solvation(protocol))
        details = {"relax_steps": result.steps, "relax_fmax": result.fmax, "relax_recovery": result.recovery}
    check_bonds(geometry, bonds_of(mol))
    return geometry, details


def _solvation(protocol: GeometryProtocol) -> Solvation | None:
    return Solvation(protocol.solvent) if protocol.solvent else None


def _relax_in_force_field(molecule: Any) -> tuple[str, list[float]]:
    """Relaxes all conformers in place. Returns the force field and the energies (kcal/mol) in the conformers' order."""
    from rdkit.Chem import rdForceFieldHelpers as ff

    for name, has_parameters, optimise in (
        ("MMFF94", ff.MMFFHasAllMoleculeParams, ff.MMFFOptimizeMoleculeConfs),
        ("UFF", ff.UFFHasAllMoleculeParams, ff.UFFOptimizeMoleculeConfs),
    ):
        if has_parameters(molecule):
            return name, [energy for _, energy in optimise(molecule, numThreads=1, maxIters=2000)]
    # no force field has parameters: the conformers stay as they were embedded, and none is lower
    return "none", [0.0] * molecule.GetNumConformers()
