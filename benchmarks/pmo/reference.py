"""Writes molscore_scores.csv and tdc_scores.csv: the scores of 130 molecules by MolScore itself and by TDC itself.

It runs outside of sciagent, in two environments, since the pickles need an old scikit-learn:

    python3 -m venv A && A/bin/pip install molscore==1.9.5 'pandas<3' scipy six rdkit==2026.9.1
    A/bin/python benchmarks/pmo/reference.py molscore
    python3 -m venv B && B/bin/pip install scikit-learn==1.2.2 'numpy<2' scipy networkx packaging rdkit==2026.9.1
    pip download --no-deps --no-binary :all: pytdc==1.1.15 && tar xzf pytdc-1.1.15.tar.gz
    unzip molscore-1.9.5-py3-none-any.whl 'molscore/data/models/molopt/*' -d wheel
    B/bin/python benchmarks/pmo/reference.py tdc wheel pytdc-1.1.15

Of TDC the one file with the oracles is loaded, since its package needs much more than they do; JNK3, GSK3β and DRD2 are
what scikit-learn makes of MolScore's copies of TDC's models, with TDC's fingerprints.

The molecules are 94 small ones of benchmarks/scheduling/live_molecules.csv by lot, six kinase-like ones and aspirin's
kin, the 17 reference molecules of the tasks, and 13 drugs.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import pickle
import random
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
MOLSCORE_SCORES = HERE / "molscore_scores.csv"
TDC_SCORES = HERE / "tdc_scores.csv"
SMALL = HERE.parent / "scheduling" / "live_molecules.csv"
MORE = (
    "CC1(C)CCC(=O)c2ccccc21",
    "O=c1[nH][nH]c2ccccc12",
    "O=C1C(=O)Nc2ccccc21",
    "O=C1c2ccccc2-c2n[nH]c3cccc1c23",  # SP600125, an inhibitor of JNK
    "CN1C=C(c2ccccc2)C(=O)C1=O",
    "CC(=O)Oc1ccccc1C(=O)O",
)
DRUGS = (
    "O=C(CCCN1CCC(O)(c2ccc(Cl)cc2)CC1)c1ccc(F)cc1",  # haloperidol
    "Cc1nc2n(c(=O)c1CCN1CCC(c3noc4cc(F)ccc34)CC1)CCCC2",  # risperidone
    "O=C1CCc2ccc(OCCCCN3CCN(c4cccc(Cl)c4Cl)CC3)cc2N1",  # aripiprazole
    "CN1CCN(C2=Nc3cc(Cl)ccc3Nc3ccccc32)CC1",  # clozapine
    "Cn1c(=O)c2c(ncn2C)n(C)c1=O",  # caffeine
    "CN1C(=O)C(c2ccc(Cl)cc2Cl)=C(c2cn(C)c3ccccc23)C1=O",  # a maleimide like SB-216763, an inhibitor of GSK3
    "CC(C)Cc1ccc(C(C)C(=O)O)cc1",  # ibuprofen
    "COc1cc2ncnc(Nc3ccc(F)c(Cl)c3)c2cc1OCCCN1CCOCC1",  # gefitinib
    "CCCCc1nc2(CCCC2)c(=O)n1Cc1ccc(-c2ccccc2-c2nnn[nH]2)cc1",  # like irbesartan
    "CCCCC(=O)N(Cc1ccc(-c2ccccc2-c2nnn[nH]2)cc1)C(C(=O)O)C(C)C",  # valsartan
    "C[NH+](C)CCc1c[nH]c2ccc(S(=O)(=O)[N-]C)cc12",  # a zwitterion
    "FC(F)(F)c1ccc(OC(CCNC)c2ccccc2)cc1",  # fluoxetine
    "O=C(O)c1cn(C2CC2)c2cc(N3CCNCC3)c(F)cc2c1=O",  # ciprofloxacin
)
MODELS = {"JNK3": "jnk3_current.pkl", "GSK3B": "gsk3b_current.pkl", "DRD2": "drd2_current.pkl"}


def molecules(configs: Sequence[Path]) -> list[str]:
    """Returns the SMILES. configs: the descriptions of the tasks."""
    with SMALL.open(encoding="utf-8", newline="") as stream:
        small = [row["smiles"] for row in csv.DictReader(stream)]
    random.Random(1).shuffle(small)
    references: dict[str, None] = {}
    for config in configs:
        for function in json.loads(config.read_text(encoding="utf-8"))["scoring_functions"]:
            references |= dict.fromkeys(function["parameters"].get("ref_smiles", ()))
    return [*small[:94], *MORE, *references, *DRUGS]


def by_molscore() -> tuple[list[str], dict[str, list[float]]]:
    """Returns the SMILES, and the scores of the tasks that MolScore computes without conda."""
    import molscore

    configs = sorted((Path(molscore.__file__).parent / "configs" / "MolOpt").glob("*.json"))
    smiles = molecules(configs)
    columns: dict[str, list[float]] = {}
    folder = tempfile.mkdtemp()  # it stays, since MolScore writes into it when Python ends
    for path in configs:
        if path.stem in MODELS:
            continue
        config = json.loads(path.read_text(encoding="utf-8")) | {"output_dir": folder, "logging": False}
        file = Path(folder) / "task.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        scores = molscore.MolScore(model_name="reference", task_config=str(file)).score(smiles)
        columns[path.stem] = [float(score) for score in scores]
    return smiles, columns


ORACLES = {
    "Albuterol_similarity": "albuterol_similarity",
    "Amlodipine_MPO": "amlodipine_mpo",
    "C7H8N2O2": "isomers_c7h8n2o2",
    "C9H10N2O2PF2Cl": "isomers_c9h10n2o2pf2cl",
    "Celecoxxib_rediscovery": "celecoxib_rediscovery",
    "Deco_hop": "deco_hop",
    "Fexofenadine_MPO": "fexofenadine_mpo",
    "Median_molecules_1": "median1",
    "Median_molecules_2": "median2",
    "Mestranol_similarity": "mestranol_similarity",
    "Osimertinib_MPO": "osimertinib_mpo",
    "Perindopril_MPO": "perindopril_mpo",
    "QED": "qed",
    "Ranolazine_MPO": "ranolazine_mpo",
    "Scaffold_hop": "scaffold_hop",
    "Sitagliptin_MPO": "sitagliptin_mpo",
    "Thiothixene_rediscovery": "thiothixene_rediscovery",
    "Troglitazone_rediscovery": "troglitazone_rediscovery",
    "Valsartan_smarts": "valsartan_smarts",
    "Zaleplon_MPO": "zaleplon_mpo",
}
"""{MolScore's name of a task: TDC's}."""


def by_tdc(folder: Path, smiles: Sequence[str]) -> dict[str, list[float]]:
    """Returns the scores by TDC's oracles. folder: the unpacked source of PyTDC."""
    for name in ("tdc", "tdc.chem_utils", "tdc.chem_utils.oracle", "tdc.utils", "rdkit.six"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    for name in ("oracle_load", "print_sys", "install"):  # downloads, messages and installations, of which none is used
        setattr(sys.modules["tdc.utils"], name, None)
    sys.modules["rdkit.six"].iteritems = dict.items
    path = folder / "tdc" / "chem_utils" / "oracle" / "oracle.py"
    spec = importlib.util.spec_from_file_location("tdc.chem_utils.oracle.oracle", path)
    assert spec is not None and spec.loader is not None
    oracles = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(oracles)
    return {task: [float(getattr(oracles, name)(text)) for text in smiles] for task, name in ORACLES.items()}


def by_scikit_learn(folder: Path, smiles: Sequence[str]) -> dict[str, list[float]]:
    """Returns the probabilities of activity by scikit-learn, with TDC's fingerprints."""
    import numpy as np
    from rdkit import Chem
    from rdkit.Chem import AllChem

    mols = [Chem.MolFromSmiles(text) for text in smiles]
    bits = np.array([list(AllChem.GetMorganFingerprintAsBitVect(mol, 2, nBits=2048)) for mol in mols])
    counts = np.zeros((len(mols), 2048))
    for row, mol in enumerate(mols):
        found = AllChem.GetMorganFingerprint(mol, 3, useCounts=True, useFeatures=True)
        for feature, count in found.GetNonzeroElements().items():
            counts[row, feature % 2048] += count
    columns = {}
    for task, name in MODELS.items():
        with (folder / "molscore" / "data" / "models" / "molopt" / name).open("rb") as stream:
            model = pickle.load(stream)
        probabilities = model.predict_proba(counts if task == "DRD2" else bits)[:, 1]
        columns[task] = [float(probability) for probability in probabilities]
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("by", choices=("molscore", "tdc"))
    parser.add_argument("models", type=Path, nargs="?", help="of `tdc`: the folder with the unpacked wheel of MolScore")
    parser.add_argument("source", type=Path, nargs="?", help="of `tdc`: the unpacked source of PyTDC")
    given = parser.parse_args()
    if given.by == "molscore":
        smiles, columns = by_molscore()
        write(MOLSCORE_SCORES, smiles, columns)
        return
    with MOLSCORE_SCORES.open(encoding="utf-8", newline="") as stream:
        smiles = [row["smiles"] for row in csv.DictReader(stream)]
    write(TDC_SCORES, smiles, by_tdc(given.source, smiles) | by_scikit_learn(given.models, smiles))


def write(file: Path, smiles: Sequence[str], columns: Mapping[str, Sequence[float]]) -> None:
    """Writes a row for each molecule. columns: {task: scores}."""
    names = sorted(columns)
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["smiles", *names])
        for number, text in enumerate(smiles):
            writer.writerow([text, *(f"{columns[name][number]:.9g}" for name in names)])


if __name__ == "__main__":
    main()
