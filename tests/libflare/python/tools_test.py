# SPDX-License-Identifier: Apache-2.0
"""Profilers, tracers, debuggers and compilers work as before beside the preload."""
import pytest

STEP = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 4)
def step():
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    return loss
step()
"""


@pytest.fixture(autouse=True)
def as_rank(runner):
    runner.waking = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


@pytest.mark.parametrize("set_hook", ["sys.setprofile", "sys.settrace"])
def test_python_level_hooks_see_the_same_calls(runner, torch_python, set_hook):
    trace = runner.compare_program(torch_python, STEP + f"""
import collections, sys
seen = []
def hook(frame, event, argument):
    if event in ("call", "return", "line"): seen.append((event, frame.f_code.co_name, frame.f_lineno))
    return hook
{set_hook}(hook)
step()
{set_hook}(None)
print(len(seen), seen)
""")
    assert trace.step == 2


def test_torch_profiler_sees_the_same_operations(runner, torch_python):
    trace = runner.compare_program(torch_python, STEP + """
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU], with_stack=True) as p:
    step()
print(sorted((e.key, e.count) for e in p.key_averages()))
""")
    assert trace.step == 2


def test_the_tensors_of_the_calibration_are_not_seen(runner, torch_python):
    trace = runner.compare_program(torch_python, """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
class Log(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        print(function)
        return function(*args, **(kwargs or {}))
fresh = torch.Generator()
fresh.manual_seed(torch.initial_seed())
print("random numbers drawn:", not torch.equal(fresh.get_state(), torch.get_rng_state()))
with Log():
    import wave
    torch.empty(3)
""")
    assert trace.parts["tensor_layout"] == "active"


def test_compiled_models_and_steps(runner, torch_python):
    trace = runner.compare_program(torch_python, STEP + """
if not hasattr(torch, "compile"):
    print("no compiler")
else:
    compiled = torch.compile(model, backend="eager")
    for i in range(3):
        optimizer.zero_grad(); compiled(x).sum().backward(); optimizer.step()
    print([p.tolist() for p in model.parameters()])
    whole = torch.compile(step, backend="eager")
    print([whole().item() for i in range(3)])
    adam = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))
    adam_step = torch.compile(lambda: adam.step(), backend="eager")
    for i in range(2): adam_step()
    print([p.tolist() for p in model.parameters()])
    counters = torch._dynamo.utils.counters
    print(counters["frames"], counters["graph_break"], counters["unique_graphs"])
""")
    assert trace.step >= 1


def test_warnings_point_to_the_same_lines(runner, torch_python):
    runner.compare_program(torch_python, STEP + """
import warnings
class Warns(torch.optim.SGD):
    def step(self, closure=None):
        warnings.warn("who called me?", stacklevel=2)
        return super().step(closure)
warns = Warns(model.parameters(), lr=1)
warns.step()
""")


def test_a_debugger_steps_through_the_function(runner, any_python):
    runner.waking = {"FLARE_FORCE": "1"}
    runner.compare_program(any_python, """
import io, pdb
def target(x):
    y = x + 1
    return y
import colorsys
def run():
    return target(1)
out = io.StringIO()
debugger = pdb.Pdb(stdin=io.StringIO("break target\\ncontinue\\nnext\\np y\\nwhere 2\\nup\\ncontinue\\n"),
                   stdout=out, nosigint=True, readrc=False)
debugger.use_rawinput = False
print(debugger.runcall(run))
print("y" in out.getvalue(), "target" in out.getvalue())
print([line for line in out.getvalue().splitlines() if "program.py" in line])
""", "__main__@target")


def test_audit_hooks_of_the_program_see_no_more(runner, any_python):
    """Ours may add events of its own only while it attaches."""
    runner.waking = {"FLARE_FORCE": "1"}
    runner.compare_program(any_python, """
import collections, sys
def f(): return 1
import colorsys
events = collections.Counter()
sys.addaudithook(lambda event, arguments: events.update([event]))
for i in range(10): f(); id(f); sys._getframe()
print(events["builtins.id"], events["sys._getframe"], sum(events.values()))
""", "__main__@f")
