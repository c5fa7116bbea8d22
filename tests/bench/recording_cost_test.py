# SPDX-License-Identifier: Apache-2.0
"""What a recorded call costs, as far as it does not depend on the load of the machine."""
import os
from pathlib import Path

import event_cost
import pytest

PROGRAM = Path(os.environ.get("FLARE_BUILD_DIR", event_cost.ROOT / "build")) / \
    "bench" / "event_cost_bench"
# Measured 197 and 52; more means that somebody made the hot path longer.
MOST_INSTRUCTIONS = 240
MOST_INSTRUCTIONS_OFF = 70


def test_recording_needs_no_heap_no_lock_and_no_kernel():
    counts = event_cost.counts(PROGRAM)
    assert counts["recorded_or_dropped"] >= counts["events"]
    assert (counts["allocations"], counts["locks"], counts["system_calls"]) == (0, 0, 0)
    control = counts["control"]  # the same counters on code that does all three
    assert control["locks"] == control["system_calls"] == control["turns"]
    assert control["allocations"] > 0


def test_instructions_of_an_event_are_bounded():
    added = event_cost.instructions_per_call(PROGRAM)
    if added is None:
        pytest.skip("valgrind is not installed")
    assert 20 < added["event"] <= MOST_INSTRUCTIONS
    assert added["event, switched off"] <= MOST_INSTRUCTIONS_OFF
