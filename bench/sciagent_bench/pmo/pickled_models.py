"""Models of activity on JNK3, GSK3β and DRD2, read from the pickles of scikit-learn without scikit-learn.

A pickle names functions and classes that its reader calls, so that it is a program. This reader knows four names of
NumPy, through which arrays are restored, and replaces four classes of scikit-learn by an empty one that keeps their
state; every other name is refused. The files are pinned by their SHA-256 besides.

The forests take ECFP4 (radius 2, 2,048 bits), and the support vectors FCFP6 counts folded to 2,048, as the oracles of
TDC do, with which PMO was published. MolScore computes ECFP6 for the forests, which gives other numbers.

Source: Li, Zhang, Liu, J. Cheminform. 10, 33 (2018) (JNK3, GSK3β); Olivecrona, Blaschke, Engkvist, Chen, J. Cheminform.
9, 48 (2017) (DRD2); Huang et al., NeurIPS Datasets and Benchmarks 2021 (TDC), tdc/chem_utils/oracle/oracle.py.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from sciagent.errors import UsageError
from sciagent.scheduling.array_types import Array

BITS = 2048
FOREST_RADIUS = 2
KERNEL_RADIUS = 3
LEAF = -1
"""The child of a node that has none."""
LEAST_PAIR = 1e-7
"""The least probability of a class that enters libsvm's coupling."""
COUPLING_TOLERANCE = 0.0025
COUPLING_STEPS = 100


class Restored:
    """An object of scikit-learn, as its pickle describes it."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: Mapping[str, Any] = {}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.state = state


RESTORED_CLASSES = frozenset(
    {
        ("sklearn.ensemble._forest", "RandomForestClassifier"),
        ("sklearn.svm._classes", "SVC"),
        ("sklearn.tree._classes", "DecisionTreeClassifier"),
        ("sklearn.tree._tree", "Tree"),
    }
)
"""(module, name) of the classes that are replaced by `Restored`."""
# these two have no public name
RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
SCALAR: Any = np.float64(0).__reduce__()[0]
NUMPY_NAMES: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy.core.multiarray", "scalar"): SCALAR,
    # the same two, as NumPy has called them since version 2
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "scalar"): SCALAR,
}
"""{(module, name): NumPy's own}."""


class RestrictedUnpickler(pickle.Unpickler):
    """Reads a pickle that names nothing but arrays and the four classes of scikit-learn."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns what a pickle names. Raises pickle.UnpicklingError for any other name."""
        if (module, name) in RESTORED_CLASSES:
            return Restored
        if (module, name) in NUMPY_NAMES:
            return NUMPY_NAMES[module, name]
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is refused")


def restored(content: bytes) -> Restored:
    """Returns the object of a pickle. Raises UsageError for one that names anything else, or is none."""
    try:
        loaded = RestrictedUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # a pickle may make its reader raise anything
        raise UsageError(f"the model cannot be read: {error}") from error
    if not isinstance(loaded, Restored):
        raise UsageError(f"the model cannot be read: it is a {type(loaded).__name__}")
    return loaded


class ActivityModel(Protocol):
    """A model of activity."""

    def probability(self, mol: Any) -> float:
        """Returns the probability that an RDKit molecule is active."""


class RandomForest:
    """A forest of classification trees on ECFP4: the mean share of actives in the leaves that a molecule reaches.

    The nodes of all trees lie in one array, so that a molecule descends in all trees at once.
    """

    def __init__(self, content: bytes) -> None:
        """content: the pickle. Raises UsageError."""
        trees = [tree.state["tree_"].state for tree in restored(content).state["estimators_"]]
        sizes = [len(tree["nodes"]) for tree in trees]
        self._roots = np.cumsum([0, *sizes[:-1]])
        nodes = np.concatenate([tree["nodes"] for tree in trees])
        offsets = np.repeat(self._roots, sizes)
        self._is_leaf = nodes["left_child"] == LEAF
        self._left = nodes["left_child"] + offsets
        self._right = nodes["right_child"] + offsets
        self._feature = np.where(self._is_leaf, 0, nodes["feature"])
        self._threshold = nodes["threshold"]
        counts = np.concatenate([tree["values"][:, 0, :] for tree in trees])  # (nodes, 2): of both classes
        self._share = counts[:, 1] / counts.sum(axis=1)

    def probability(self, mol: Any) -> float:
        """Returns the probability that an RDKit molecule is active."""
        return self.probability_of_bits(ecfp4_bits(mol))

    def probability_of_bits(self, bits: Array) -> float:
        """Returns the probability of activity. bits: (2048,) fingerprint of zeros and ones."""
        at = self._roots
        while not self._is_leaf[at].all():
            goes_left = bits[self._feature[at]] <= self._threshold[at]
            below = np.where(goes_left, self._left[at], self._right[at])
            at = np.where(self._is_leaf[at], at, below)
        return float(self._share[at].mean())


class SupportVectors:
    """A support vector classifier with the kernel exp(-gamma |x - y|²) and Platt's probabilities, on FCFP6 counts.

    The decision d = sum_i a_i k(x, x_i) + b, with signs as libsvm has them, is positive for inactive molecules, and
    the probability of an inactive one is 1 / (1 + exp(A d + B)), before `coupled`.
    """

    def __init__(self, content: bytes) -> None:
        """content: the pickle. Raises UsageError."""
        state = restored(content).state
        vectors = np.asarray(state["support_vectors_"], dtype=float)
        self._columns = np.ascontiguousarray(vectors.T)  # (2048, n): few of its rows are read for a molecule
        self._lengths = (vectors**2).sum(axis=1)
        self._weights = np.asarray(state["_dual_coef_"], dtype=float).ravel()
        self._intercept = float(np.ravel(state["_intercept_"])[0])
        self._gamma = float(state["_gamma"])
        self._slope = float(np.ravel(state["_probA"])[0])
        self._offset = float(np.ravel(state["_probB"])[0])

    def probability(self, mol: Any) -> float:
        """Returns the probability that an RDKit molecule is active."""
        return self.probability_of_counts(fcfp6_counts(mol))

    def probability_of_counts(self, counts: Array) -> float:
        """Returns the probability of activity. counts: (2048,) folded fingerprint."""
        present = np.flatnonzero(counts)
        products = counts[present] @ self._columns[present]
        distances = self._lengths - 2 * products + (counts**2).sum()
        decision = float(np.exp(-self._gamma * distances) @ self._weights) + self._intercept
        inactive = float(1 / (1 + np.exp(self._slope * decision + self._offset)))
        return 1 - coupled(min(max(inactive, LEAST_PAIR), 1 - LEAST_PAIR))


def coupled(first: float) -> float:
    """Returns the probability of the first of two classes after libsvm's coupling of pairs.

    first: the probability before. For two classes the coupling should change nothing, but libsvm, as scikit-learn has
    it, runs its iteration, which stops early: .00046 becomes .0000006. Published scores are those after it.

    Source: Wu, Lin, Weng, J. Mach. Learn. Res. 5, 975 (2004), algorithm 2, with the tolerance of libsvm.
    """
    second = 1 - first
    own = np.array([second**2, first**2])  # the diagonal of the matrix whose quadratic form is minimised
    matrix = np.diag(own) - first * second * (1 - np.eye(2))
    p = np.array([0.5, 0.5])
    for _ in range(COUPLING_STEPS):
        product = matrix @ p
        form = float(p @ product)
        if np.abs(product - form).max() < COUPLING_TOLERANCE:
            break
        for t in range(2):
            step = (form - product[t]) / own[t]
            p[t] += step
            form = (form + step * (step * own[t] + 2 * product[t])) / (1 + step) ** 2
            product = (product + step * matrix[t]) / (1 + step)
            p /= 1 + step
    return float(p[0])


MODEL_CLASSES: Mapping[str, Callable[[bytes], ActivityModel]] = {
    "molopt_DRD2": SupportVectors,
    "molopt_GSK3B": RandomForest,
    "molopt_JNK3": RandomForest,
}
"""{name of a model in a task's description: the class that evaluates it}."""


def ecfp4_bits(mol: Any) -> Array:
    """Returns (2048,) bits of the Morgan fingerprint of radius 2."""
    from rdkit.Chem import rdFingerprintGenerator as generators

    generator = generators.GetMorganGenerator(radius=FOREST_RADIUS, fpSize=BITS)
    return np.asarray(generator.GetFingerprintAsNumPy(mol), dtype=float)


def fcfp6_counts(mol: Any) -> Array:
    """Returns (2048,) counts of the Morgan fingerprint of radius 3 on pharmacophoric features, folded by the remainder
    of each feature's number."""
    from rdkit.Chem import rdFingerprintGenerator as generators

    features = generators.GetMorganFeatureAtomInvGen()
    generator = generators.GetMorganGenerator(radius=KERNEL_RADIUS, atomInvariantsGenerator=features)
    counts = np.zeros(BITS)
    for feature, count in generator.GetSparseCountFingerprint(mol).GetNonzeroElements().items():
        counts[feature % BITS] += count
    return counts
