# SPDX-License-Identifier: Apache-2.0
"""Starts N ranks as torchrun would, and leaves the others alone when one of them dies.

    launch.py --nproc 3 train.py ARGS...

Schedulers that start ranks one by one behave like this. The exit status is the first one that is not
zero, in order of ranks (128 + signal for a rank that was killed). SIGTERM and SIGINT kill all ranks.
"""
import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(rank, args, port):
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.nproc),
               LOCAL_WORLD_SIZE=str(args.nproc), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    return subprocess.Popen([sys.executable, args.program, *args.arguments], env=env,
                            preexec_fn=die_with_parent)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()

    ranks = []

    def kill_all(signum, frame):
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()

    signal.signal(signal.SIGTERM, kill_all)
    signal.signal(signal.SIGINT, kill_all)
    port = free_port()
    for rank in range(args.nproc):
        ranks.append(start(rank, args, port))
    statuses = [rank.wait() for rank in ranks]
    bad = next((s for s in statuses if s), 0)
    return bad if bad >= 0 else 128 - bad


if __name__ == "__main__":
    sys.exit(main())
