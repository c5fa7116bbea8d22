# SPDX-License-Identifier: Apache-2.0
"""Every collective and transfer of a real job of two ranks is in the rings: right communicator,
sequence, operation, root, and size where PyTorch's tensors could be measured. The job's own results
are the same bits with and without the preload. For pip's PyTorch and, where it is, Debian's."""
import collections
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from segment_dump import BYTES_UNKNOWN, FAILED, NO_PEER, UNEQUAL_BYTES, Segment  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLARE_BUILD_DIR", ROOT / "build"))
LIBRARY = BUILD / "lib" / "libflare.so"
JOB = pathlib.Path(__file__).with_name("collectives_job.py")
Run = collections.namedtuple("Run", "results segments")


def pythons():
    found = {}
    for python in (sys.executable, "/usr/bin/python3"):
        probe = subprocess.run(
            [python, "-c", "import torch.distributed as d, torch; assert d.is_gloo_available() "
             "if hasattr(d, 'is_gloo_available') else True; print(torch.__version__)"],
            capture_output=True, text=True)
        if probe.returncode == 0:
            found.setdefault(probe.stdout.strip(), python)
    return found


PYTHONS = pythons()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_job(python, folder, preload, *arguments):
    port = free_port()
    ranks = []
    for rank in range(2):
        env = {k: v for k, v in os.environ.items() if not k.startswith("FLARE_")}
        env.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", OMP_NUM_THREADS="1",
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), FLARE_DIR=str(folder))
        if preload:
            env["LD_PRELOAD"] = str(LIBRARY)
        ranks.append(subprocess.Popen([python, str(JOB), *arguments], env=env, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    results = []
    for rank in ranks:
        out, err = rank.communicate(timeout=240)
        assert rank.returncode == 0, err
        results.append(json.loads(out.split("RESULT ", 1)[1]))
    segments = sorted((Segment.load(p) for p in folder.glob("*.seg")), key=lambda s: s.rank)
    return Run(results, segments)


@pytest.fixture(scope="module", params=PYTHONS or [pytest.param("none", marks=pytest.mark.skip(
    reason="no PyTorch with gloo"))])
def runs(request, tmp_path_factory):
    python = PYTHONS[request.param]
    fsdp = ["--fsdp"] if request.param.startswith("2.") else []
    bare = run_job(python, tmp_path_factory.mktemp("bare"), False, *fsdp)
    traced = run_job(python, tmp_path_factory.mktemp("traced"), True, *fsdp)
    return bare, traced


def collectives(segment, comm):
    found = [e for e in segment.events("collective") if e.comm == comm["comm"]]
    return sorted(found, key=lambda e: e.sequence)


def groups(segment):
    """World and sub-group: created in this order, and slots are filled in order."""
    assert len(segment.comms) == 2
    return segment.comms


def test_results_are_the_same_bits(runs):
    bare, traced = runs
    assert traced.results == bare.results


def test_one_segment_per_rank_and_none_without_the_preload(runs):
    bare, traced = runs
    assert bare.segments == []
    assert [s.rank for s in traced.segments] == [0, 1]
    assert all(s.phase == 2 and s.exit_code == 0 for s in traced.segments)
    assert all(sum(s.drops) == 0 and not any(t["dropped"] for t in s.threads)
               for s in traced.segments)


def test_communicators_are_the_same_on_both_ranks(runs):
    first, second = runs[1].segments
    assert [c["comm"] for c in groups(first)] == [c["comm"] for c in groups(second)]
    assert len({c["comm"] for c in groups(first)}) == 2
    assert [c["group_rank"] for c in first.comms] == [0, 0]
    assert [c["group_rank"] for c in second.comms] == [1, 1]
    assert all(c["group_size"] == 2 for c in first.comms)
    assert "default_pg" in first.comms[0]["name"]


def test_both_ranks_recorded_the_same_collectives(runs):
    first, second = runs[1].segments
    for comm, other in zip(groups(first), groups(second)):
        def what(segment, which):
            return [(e.sequence, e.operation, e.bytes, e.type, e.peer, e.flags)
                    for e in collectives(segment, which)]
        assert what(first, comm) == what(second, other)
        assert what(first, comm)


def test_every_call_of_the_job_is_there(runs):
    for result, segment in zip(runs[1].results, runs[1].segments):
        world, sub = groups(segment)
        recorded = collectives(segment, world)
        position = 0
        for group, operation, size, dtype, root, unequal in result["calls"]:
            if group != "world":
                continue
            event = recorded[position]
            position += 1
            assert event.operation == operation
            assert event.sequence == position - 1
            assert event.peer == (root if root >= 0 else NO_PEER)
            assert not event.flags & FAILED
            assert bool(event.flags & UNEQUAL_BYTES) == unequal
            if size is not None:
                assert not event.flags & BYTES_UNKNOWN
                got = event.bytes
                # A list of reduce_scatter is carried out as one reduction for each rank.
                while got < size and recorded[position].operation == operation:
                    got += recorded[position].bytes
                    position += 1
                assert got == size
                assert event.type == dtype
        only = collectives(segment, sub)
        assert [(e.operation, e.bytes) for e in only] == [("all_reduce", 4000)]


def test_the_reducer_of_ddp_is_seen(runs):
    parameter_bytes = (32 * 64 + 64 + 64 * 8 + 8) * 4
    for segment in runs[1].segments:
        buckets = [e for e in collectives(segment, groups(segment)[0])
                   if e.operation == "all_reduce" and e.bytes == parameter_bytes]
        assert len(buckets) >= 4


def test_fsdp_is_seen(runs):
    for result, segment in zip(runs[1].results, runs[1].segments):
        if result["fsdp"] is None:
            pytest.skip("this PyTorch has no FSDP on gloo")
        after = [e.operation for e in collectives(segment, groups(segment)[0])
                 if e.bytes in (5264, 10528)]
        assert after.count("all_gather") >= 2 and after.count("reduce_scatter") >= 2


def test_nothing_is_left_open_or_incomplete(runs):
    for segment in runs[1].segments:
        for comm in segment.comms:
            assert comm["launched"] == comm["completed"] > 0
            assert comm["p2p_launched"] == comm["p2p_completed"]
        assert all(t["depth"] == 0 for t in segment.threads)


def test_sequences_have_no_hole_but_the_second_tag_of_the_monitored_barrier(runs):
    for segment in runs[1].segments:
        world = groups(segment)[0]
        sequences = [e.sequence for e in collectives(segment, world)]
        missing = set(range(world["launched"])) - set(sequences)
        assert len(sequences) == len(set(sequences))
        assert len(missing) == 1
        before = next(e for e in collectives(segment, world) if e.sequence == min(missing) - 1)
        assert before.operation == "barrier"


def test_transfers_name_their_peers(runs):
    for result, segment in zip(runs[1].results, runs[1].segments):
        other = 1 - result["rank"]
        sent, received = segment.events("send"), segment.events("recv")
        assert (len(sent), len(received)) == (result["sent"], result["received"])
        assert {e.peer for e in sent + received} == {other}
        assert {e.bytes for e in sent + received} == {200}
        assert {e.comm for e in sent + received} == {groups(segment)[0]["comm"]}


def test_recent_launches_match_the_events(runs):
    for segment in runs[1].segments:
        world = groups(segment)[0]
        events = {e.sequence: e for e in collectives(segment, world)}
        assert world["recent"]
        for launch in world["recent"]:
            event = events[launch["sequence"]]
            assert (launch["operation"], launch["bytes"], launch["launch"]) == \
                (event.operation, event.bytes, event.launch)


def test_times_are_in_order(runs):
    for segment in runs[1].segments:
        for event in segment.events("collective", "send", "recv", "comm_init"):
            assert event.launch <= event.start <= event.end or event.launch == 0
            assert event.start >= segment.anchor_ticks
