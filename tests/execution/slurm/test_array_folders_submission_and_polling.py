"""Arrays on a real Slurm: submitted, followed, and read aright however they end."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from sciagent.errors import SlurmError
from sciagent.execution.slurm.array_folders_submission_and_polling import ElementState, Slurm, Spool, spools
from sciagent.execution.slurm.site_profile import Need, Partition, ResourceRequest, choose_partition, need_of
from tests.execution.slurm.conftest import all_ended, profile, states, wait
from tests.support.slurm_cluster import SlurmCluster

ELEMENT = str(Path(__file__).parents[2] / "support" / "slurm_element.py")


def submit(slurm: Slurm, *elements: tuple[str, object], seconds: float = 1, memory: int = 50) -> Spool:
    return sent(slurm, choose_partition(slurm.site, Need(seconds, memory)), elements)


def sent(slurm: Slurm, request: ResourceRequest, elements: Sequence[tuple[str, object]]) -> Spool:
    array = Spool(slurm.site.spool)
    slurm.submit(array, request, elements, ["-u", ELEMENT])
    return array


def job_id(cluster: SlurmCluster, array: Spool) -> str:
    """Slurm's own id of the array."""
    return cluster.run("squeue", "--noheader", "--states=all", f"--name={array.name}", "--format=%F").split()[0]


def at_work(slurm: Slurm, array: Spool) -> None:
    """Returns when the first element runs, and is ready to be told to stop."""
    wait(slurm, array, lambda found: found[0].state is ElementState.RUNNING and "at work" in printed(slurm, array))


def printed(slurm: Slurm, array: Spool, number: int = 0) -> str:
    path = Path(slurm.site.spool) / array.token / f"out.{number}"
    return path.read_text() if path.exists() else ""


def named(slurm: Slurm, array: Spool) -> list[str]:
    return [str(one.state) for one in states(slurm, array)]


def test_the_elements_of_an_array_end_as_they_end(slurm: Slurm) -> None:
    array = submit(slurm, ("exit", 0), ("exit", 3), ("die", 9), ("hold", 300))
    good, bad, killed, greedy = wait(slurm, array, all_ended)
    assert (good.state, good.code) == (ElementState.COMPLETED, 0)
    assert (bad.state, bad.code) == (ElementState.FAILED, 3)
    assert (killed.state, killed.code) == (ElementState.FAILED, 128 + 9)
    assert greedy.state is ElementState.FAILED
    assert "memory limit" in array.failure_text(greedy.number)


def test_cores_gpus_and_licences_are_asked_for(cluster: SlurmCluster, tmp_path: Path) -> None:
    partition = {"name": "short", "max_minutes": 60, "max_memory_mb": 4000, "max_cores": 4, "max_gpus": 2}
    slurm = Slurm(profile(cluster, tmp_path / "spool", partitions=[partition], licences={"gaussian": 2}))
    request = choose_partition(slurm.site, need_of(1, 50, {"cores": 2, "gpu": 1, "gaussian": 2}))
    array = sent(slurm, request, [("work", 60), ("work", 60)])
    try:
        wait(slurm, array, lambda found: found[0].state is ElementState.RUNNING)
        said = cluster.run("scontrol", "show", "job", f"{job_id(cluster, array)}_0")
        assert "NumCPUs=2" in said and "Licenses=gaussian:2" in said
        assert re.search(r"gres[:/]gpu[:=]1", said), said
        assert named(slurm, array) == ["running", "pending"], "there are two licences"
    finally:
        cluster.run("scancel", f"--name={array.name}")


def test_an_element_that_is_warned_and_stops_well_has_timed_out(slurm: Slurm, cluster: SlurmCluster) -> None:
    array = submit(slurm, ("work", 60))
    at_work(slurm, array)
    cluster.run("scancel", "--batch", "--signal=USR1", job_id(cluster, array))  # as Slurm does
    [element] = wait(slurm, array, all_ended)
    assert "told to stop" in printed(slurm, array)
    assert element.state is ElementState.TIMED_OUT
    assert element.code == 0  # the command's own: it stopped as told


def test_an_element_on_a_node_that_goes_down_is_lost(slurm: Slurm, cluster: SlurmCluster) -> None:
    array = submit(slurm, ("work", 60))
    at_work(slurm, array)
    cluster.lose_node()
    [element] = wait(slurm, array, all_ended)
    assert element.state is ElementState.LOST


def test_what_never_began_and_was_cancelled_by_somebody_else_is_cancelled(slurm: Slurm, cluster: SlurmCluster) -> None:
    array = submit(slurm, *[("work", 60)] * 6)
    wait(slurm, array, lambda found: sum(one.state is ElementState.RUNNING for one in found) == 4)
    cluster.run("scancel", f"--name={array.name}")
    assert {one.state for one in wait(slurm, array, all_ended)} == {ElementState.CANCELLED}


def test_a_new_array_that_slurm_does_not_show_may_be_being_submitted(slurm: Slurm) -> None:
    array = Spool(slurm.site.spool)
    assert spools(slurm.site.spool) == []
    array.write([["work", 60]], "")
    (seen,) = spools(slurm.site.spool)
    assert seen.token == array.token and slurm.states([seen]) == {}
    os.utime(array.elements, (0, 0))
    assert [element.state for element in slurm.states([seen])[seen]] == [ElementState.LOST]
    array.remove()


def test_a_job_gets_the_variables_of_the_profile_and_no_others(
    cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("SCIAGENT_LEDGER", "a $(b) 'c'"), ("OPENAI_API_KEY", "secret"), ("SBATCH_TIMELIMIT", "0:30")):
        monkeypatch.setenv(name, value)
    passed = ["SCIAGENT_LEDGER", *profile(cluster, tmp_path).pass_environment]
    slurm = Slurm(profile(cluster, tmp_path, environment={"OMP_NUM_THREADS": "2", "A": "b c"}, pass_environment=passed))
    array = submit(slurm, ("exit", 0))
    [element] = wait(slurm, array, all_ended)
    assert element.state is ElementState.COMPLETED
    seen = json.loads(printed(slurm, array))["environment"]
    assert (seen["SCIAGENT_LEDGER"], seen["OMP_NUM_THREADS"], seen["A"]) == ("a $(b) 'c'", "2", "b c")
    assert seen["SLURM_MEM_PER_NODE"] == "60", "50 MB and the margin"
    assert "OPENAI_API_KEY" not in seen and "SBATCH_TIMELIMIT" not in seen


def test_a_variable_that_is_to_be_passed_and_is_not_set_is_named(cluster: SlurmCluster, tmp_path: Path) -> None:
    slurm = Slurm(profile(cluster, tmp_path / "spool", pass_environment=["SCIAGENT_NOWHERE"]))
    with pytest.raises(SlurmError, match="pass_environment names SCIAGENT_NOWHERE"):
        submit(slurm, ("exit", 0))
    assert not (tmp_path / "spool").exists()


def test_a_module_that_does_not_load_fails_the_element_before_its_command(
    cluster: SlurmCluster, tmp_path: Path
) -> None:
    slurm = Slurm(profile(cluster, tmp_path, modules=["no-such-module/1.0"]))
    array = submit(slurm, ("exit", 0))
    [element] = wait(slurm, array, all_ended)
    assert (element.state, element.code) == (ElementState.FAILED, 69)
    assert "verb" not in printed(slurm, array)


def test_what_sbatch_refuses_is_an_error_with_its_words_and_leaves_nothing(slurm: Slurm) -> None:
    nowhere = Partition(name="nowhere", max_minutes=60, max_memory_mb=4000, max_cores=4)
    with pytest.raises(SlurmError, match=r"sbatch: .*invalid partition specified: nowhere"):
        sent(slurm, ResourceRequest(nowhere, 1, 50, 1), [("exit", 0)])
    with pytest.raises(SlurmError, match="Requested node configuration is not available"):
        sent(slurm, ResourceRequest(slurm.site.partitions[0], 1, 100_000, 1), [("exit", 0)])
    assert list(Path(slurm.site.spool).iterdir()) == []


def test_a_slurm_that_does_not_answer_is_an_error_and_nothing_is_lost(slurm: Slurm, tmp_path: Path) -> None:
    array = submit(slurm, ("exit", 0))
    wait(slurm, array, all_ended)
    (tmp_path / "bad.conf").write_text("Nonsense=1\n")
    away = Slurm(slurm.site.model_copy(update={"slurm_conf": str(tmp_path / "bad.conf")}))
    with pytest.raises(SlurmError, match=r"squeue: .*Nonsense"):
        away.states([array])


def test_commands_that_are_not_there_are_named(slurm: Slurm, tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match=f"sbatch is not in {tmp_path}; name its folder as slurm_bin"):
        submit(Slurm(slurm.site.model_copy(update={"slurm_bin": str(tmp_path)})), ("exit", 0))


def test_what_an_element_is_to_do_is_never_part_of_a_command(slurm: Slurm, cluster: SlurmCluster) -> None:
    hostile = "$(touch /tmp/x); `id` '\n"
    array = submit(slurm, (hostile, hostile))
    [element] = wait(slurm, array, all_ended)
    assert element.state is ElementState.COMPLETED
    assert json.loads(printed(slurm, array))["verb"] == hostile
    shown = cluster.run("scontrol", "show", "job", job_id(cluster, array))
    script = Spool(slurm.site.spool, array.token).script.read_text()
    assert "touch" not in shown and "touch" not in script


@pytest.mark.slow  # 84 s: Slurm counts minutes, and looks every 30 s
def test_the_wall_time_ends_an_element_that_listens_and_one_that_does_not(slurm: Slurm) -> None:
    array = submit(slurm, ("work", 300), ("deaf", 300))
    wait(slurm, array, lambda found: found[0].state.ended)
    assert "told to stop" in printed(slurm, array)
    listens, deaf = wait(slurm, array, all_ended)
    assert (listens.state, listens.code) == (ElementState.TIMED_OUT, 0)
    assert deaf.state is ElementState.TIMED_OUT


@pytest.mark.slow
def test_what_slurm_has_forgotten_is_read_from_its_marks(slurm: Slurm, cluster: SlurmCluster) -> None:
    array = submit(slurm, ("exit", 0), ("exit", 4), ("work", 60), ("work", 60))
    wait(slurm, array, lambda found: "at work" in printed(slurm, array, 2) and "at work" in printed(slurm, array, 3))
    cluster.run("scancel", "--batch", "--signal=KILL", f"{job_id(cluster, array)}_2")  # leaves no mark
    cluster.run("scancel", "--batch", "--signal=USR1", f"{job_id(cluster, array)}_3")
    wait(slurm, array, all_ended)
    cluster.forget()
    os.utime(array.elements, (0, 0))
    after = states(slurm, array)
    assert [str(element.state) for element in after] == ["completed", "failed", "lost", "timed_out"]
    assert after[1].code == 4
