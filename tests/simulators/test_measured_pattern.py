"""Files of diffractometers are read; anything else ends with the line and the fault."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.errors import UsageError
from sciagent_simulators.powder.measured_pattern import PowderPattern, read_pattern

ANGLES = np.round(np.arange(10.0, 20.0, 0.1), 1)
COUNTS = 100 + 900 * np.exp(-((ANGLES - 15) ** 2))


def read(folder: Path, text: str | bytes, name: str = "pattern.xy") -> PowderPattern:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_pattern(folder / name)


def table(separator: str = " ", *, error: bool = False) -> str:
    third = f"{separator}7.5" if error else ""
    return "\n".join(f"{x:.1f}{separator}{y:.2f}{third}" for x, y in zip(ANGLES, COUNTS, strict=True))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (table(), "a.xy"),
        (table("\t") + "\n\n", "a.dat"),
        ("# a comment\n! another\n" + table("  "), "a.txt"),
        ("2theta,intensity\n" + table(","), "a.csv"),
        ("\ufeff2Theta;Counts\r\n" + table(";").replace("\n", "\r\n"), "a.csv"),
        ("Winkel;Zählrate\n" + table(";").replace(".", ","), "a.csv"),
        (table("\t").replace(".", ","), "a.xy"),
        ("Sample: A 3\nstart 10 step 0.1\n" + "\n".join(reversed(table().splitlines())), "a.xy"),
        (table(error=True), "a.xy"),
    ],
)
def test_the_columns_of_common_files_are_read(tmp_path: Path, text: str, name: str) -> None:
    pattern = read(tmp_path, text, name)
    assert np.allclose(pattern.two_theta, ANGLES) and np.allclose(pattern.intensity, COUNTS, atol=0.01)
    assert pattern.error is None


@pytest.mark.parametrize("heading", ["", "2theta,counts,esd\n"])
def test_a_third_column_is_the_uncertainty_where_the_file_says_so(tmp_path: Path, heading: str) -> None:
    pattern = read(tmp_path, heading + table("," if heading else " ", error=True), "a.csv" if heading else "a.xye")
    assert pattern.error is not None and set(pattern.error) == {7.5}


def test_an_uncertainty_of_0_becomes_the_smallest_other_one(tmp_path: Path) -> None:
    pattern = read(tmp_path, table(error=True).replace("7.5", "0", 3), "a.xye")
    assert pattern.error is not None and set(pattern.error) == {7.5}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no line with two numbers"),
        ("<html>nothing here</html>\n" * 500, "no line with two numbers"),
        (b"\x00\x01RAW1.01" * 100, "no text; export"),
        (b"\xff\xfe\xfa" * 1000, "no line with two numbers"),
        (table() + "\nend of file", ':101: "end of file" is no line'),
        (table() + "\n20.0 5 6", ":101: 3 columns"),
        (table() + "\n20.0 nan", ":101: not a finite number"),
        (table() + "\n20.0 1e300", ":101: an intensity above"),
        (table() + "\n15.0 100", ":101: 2-theta does not rise"),
        (table().replace("10.0", "0.0", 1), ":1: 2-theta outside"),
        ("28.44 100\n47.3 55\n56.1 30", "no list of peaks"),
        ("\n".join(f"{0.001 * i + 1} 5" for i in range(100)), "2-theta in degrees"),
        ("\n".join(f"{0.1 * i + 1} 5" for i in range(100)), "all intensities are equal"),
        ("\n".join(f"{0.1 * i + 1} {-i}" for i in range(100)), "none is above 0"),
        ("1 " * 100_000, "no line with two numbers"),
        (b"1 2\n" * 3_000_000, "larger than 10 MB"),
    ],
)
def test_garbage_ends_with_its_fault(tmp_path: Path, text: str | bytes, fault: str) -> None:
    with pytest.raises(UsageError, match=r"pattern\.xy") as caught:
        read(tmp_path, text)
    assert fault in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.xy: cannot be read"):
        read_pattern(tmp_path / "gone.xy")


def test_a_range_keeps_the_points_inside(tmp_path: Path) -> None:
    pattern = read(tmp_path, table()).between(12.0, None)
    assert (pattern.two_theta[0], pattern.two_theta[-1]) == (12.0, 19.9)
    with pytest.raises(UsageError, match=r"measured from 12 to 19\.9 degrees"):
        pattern.between(30.0, 40.0)
