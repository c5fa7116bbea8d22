# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch: the right spans and steps, and nothing else different."""
import os
import re

import pytest


@pytest.fixture(autouse=True)
def as_rank(runner):
    """Woken by the import of torch, as in a job."""
    runner.waking = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


SETUP = """
import random, sys, warnings
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
warnings.simplefilter("always")
torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
def loss_of(x, y): return ((model(x) - y) ** 2).mean()
def show(): print(["%.9g" % p.sum().item() for p in model.parameters()])
"""
LOOP = SETUP + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
show()
print(torch.rand(3), random.random() >= 0)
"""


def check_loop(trace):
    loads = trace.of("data_load")
    rounds = zip(loads[:4] + loads[5:9], trace.of("backward"), trace.of("optimizer"),
                 trace.of("step"))
    for load, backward, optimizer, step in rounds:
        assert load.start <= load.end <= backward.start <= backward.end <= optimizer.start
        assert optimizer.start <= optimizer.end <= step.end
    assert trace.count("data_load") == 10  # 4 batches and the end, twice
    assert trace.count("backward") == trace.count("optimizer") == trace.count("step") == 8
    assert trace.count("checkpoint") == 1
    assert trace.step == 8
    assert [step.sequence for step in trace.of("step")] == list(range(8))
    assert not any(event.flags for event in trace.events())
    assert re.match(r"torch \d+\.\d+", trace.framework)
    assert trace.parts["python"] == trace.parts["tensor_layout"] == "active"
    assert trace.python_runtime_address and trace.python_main_thread_state


def test_a_script(runner, torch_python):
    check_loop(runner.compare_program(torch_python, LOOP))


@pytest.mark.parametrize("form", ["-c", "-m", "-I"])
def test_other_ways_to_start(runner, torch_python, form):
    path = runner.write(LOOP, "loop.py")
    arguments = {"-c": ["-c", LOOP], "-m": ["-m", "loop"], "-I": ["-I", path]}[form]
    check_loop(runner.compare([torch_python] + arguments))


def test_every_optimizer_class(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
x, y = data[:]
kinds = [k for k in vars(torch.optim).values() if isinstance(k, type)
         and issubclass(k, torch.optim.Optimizer)
         and k.__name__ not in ("Optimizer", "SparseAdam", "LBFGS", "Muon")]
for kind in kinds:
    optimizer = kind(model.parameters(), lr=0.01)
    loss_of(x, y).backward()
    optimizer.step()
    print(kind.__name__, type(optimizer).step.__name__, optimizer.step.__doc__ == kind.step.__doc__)
def closure():
    loss = loss_of(x, y); loss.backward(); return loss
print(torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2).step(closure))
show()
print(len(kinds), file=open("count", "w"))
""")
    with open(os.path.join(runner.folder, "count")) as f:
        assert trace.count("optimizer") == int(f.read()) + 1


def test_subclasses_and_mixins_of_optimizers(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
class Loud(torch.optim.SGD):
    def step(self, closure=None):
        print("loud")
        return super().step(closure)
class Mixin:
    def step(self, *a): print("mixin"); return super().step(*a)
class Mixed(Mixin, torch.optim.Adam): pass
class Own(torch.optim.Optimizer):
    def __init__(self, params): super().__init__(params, {})
    def step(self): return "own"
class Inherits(Own): pass
x, y = data[:]
for kind in (Loud, Mixed):
    optimizer = kind(model.parameters(), lr=0.1)
    loss_of(x, y).backward(); optimizer.step()
for kind in (Inherits, Own):
    optimizer = kind(model.parameters())
    print(optimizer.step(), kind.step.__qualname__, kind.step.hooked)
try: torch.optim.SGD([], lr=1)
except ValueError as e: print(e)
show()
""")
    assert trace.count("optimizer") == 4  # super().step() belongs to the outer span


def test_the_first_optimizer_counts_steps(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
x, y = data[:]
first = torch.optim.SGD(model[0].parameters(), lr=0.1)
second = torch.optim.Adam(model[2].parameters())
loss_of(x, y).backward()
for i in range(5):
    second.step() if i else None
    first.step()
    second.step()
del first
for i in range(3): second.step()
show()
""")
    assert trace.count("optimizer") == 17
    assert trace.step == 8  # five of the first, then three of the second


def test_another_optimizer_takes_over_from_an_idle_one(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
x, y = data[:]
loss_of(x, y).backward()
warm_up = torch.optim.SGD(model.parameters(), lr=0.1)
warm_up.step()
main = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(100): main.step()
print(warm_up is main)
""")
    assert trace.count("optimizer") == 101
    assert trace.step == 1 + (100 - 63)


def test_schedulers_neither_warn_nor_miss(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
x, y = data[:]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for make in (lambda: torch.optim.lr_scheduler.StepLR(optimizer, 1),
             lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)):
    scheduler = make()
    for i in range(3):
        loss_of(x, y).backward(); optimizer.step(); scheduler.step()
        print("%.9g" % scheduler.get_last_lr()[0])
other = torch.optim.Adam(model.parameters())
late = torch.optim.lr_scheduler.StepLR(other, 1)
late.step()  # in the wrong order: PyTorch warns
other.step()
show()
""")
    assert trace.count("optimizer") == 7


def test_grad_scaler_and_hooks(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
x, y = data[:]
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.cuda.amp.GradScaler(enabled=False)
if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer.register_step_pre_hook(lambda o, a, k: print("pre", a, k))
    optimizer.register_step_post_hook(lambda o, a, k: print("post", a, k))
for i in range(3):
    optimizer.zero_grad()
    scaler.scale(loss_of(x, y)).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
show()
""")
    assert trace.count("optimizer") == trace.step == 3


def test_optimizers_copied_pickled_and_restored(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
import copy, pickle
x, y = data[:]
optimizer = torch.optim.Adam(model.parameters())
loss_of(x, y).backward(); optimizer.step()
twin = copy.deepcopy(optimizer); twin.step()
again = pickle.loads(pickle.dumps(optimizer)); again.step()
print(type(again).__name__, len(pickle.dumps(optimizer.step)) > 0)
again.load_state_dict(optimizer.state_dict())
show()
""")
    assert trace.count("optimizer") == 3


@pytest.mark.parametrize("options", [
    "num_workers=2", "num_workers=2, persistent_workers=True",
    "num_workers=1, multiprocessing_context='spawn'",
    "num_workers=1, multiprocessing_context='forkserver'"])
def test_data_loader_workers(runner, torch_python, options):
    trace = runner.compare_program(torch_python, """
import torch
from torch.utils.data import DataLoader, Dataset
class Squares(Dataset):
    def __len__(self): return 12
    def __getitem__(self, i):
        assert torch.utils.data.get_worker_info() is not None
        torch.save(torch.tensor(i), "/dev/null")
        return torch.tensor(i * i)
if __name__ == "__main__":
    loader = DataLoader(Squares(), batch_size=4, OPTIONS)
    for epoch in range(2): print([batch.tolist() for batch in loader])
""".replace("OPTIONS", options))
    assert trace.count("data_load") == 8
    assert trace.count("checkpoint") == 0  # the workers' saves are not the rank's


def test_a_worker_that_raises(runner, torch_python):
    trace = runner.compare_program(torch_python, """
from torch.utils.data import DataLoader
class Broken:
    def __len__(self): return 4
    def __getitem__(self, i): raise ValueError("broken item")
try: list(DataLoader(Broken()))
except ValueError as e: print(e)
it = iter(DataLoader([1, 2, 3]))
print(next(it), it.__next__(), next(it), next(it, "end"), type(it).__next__.__name__)
""")
    assert [load.flags for load in trace.of("data_load")] == [1, 0, 0, 0, 0]


def test_saves_under_every_name(runner, torch_python):
    trace = runner.compare_program(torch_python, """
import io, torch, pickle
from torch import save
print(torch.save is torch.serialization.save, save is torch.save)
print(pickle.loads(pickle.dumps(save)) is save)
for f in (torch.save, save, torch.serialization.save):
    b = io.BytesIO(); f({"a": torch.ones(3)}, b); b.seek(0); print(torch.load(b))
try: torch.save(1, "/nowhere/x")
except Exception as e: print(type(e).__name__)
""")
    assert [save.flags for save in trace.of("checkpoint")] == [0, 0, 0, 1]


def test_distributed_checkpoints(runner, torch_python):
    trace = runner.compare_program(torch_python, """
import tempfile, torch
try:
    import torch.distributed.checkpoint as dcp
    dcp.save
except (ImportError, AttributeError):
    print("none")
else:
    dcp.save({"a": torch.ones(3)}, checkpoint_id=tempfile.mkdtemp(dir="."), no_dist=True)
    print("saved")
""")
    result = runner.run([torch_python, "-c",
                         "import importlib.util as u; print(u.find_spec("
                         "'torch.distributed.checkpoint') is not None)"], False)
    assert trace.count("checkpoint") == (1 if result.stdout == "True\n" else 0)


def test_retained_graphs_and_nested_backward(runner, torch_python):
    trace = runner.compare_program(torch_python, SETUP + """
from torch.utils.checkpoint import checkpoint
x = torch.randn(4, 4, requires_grad=True)
kw = {} if torch.__version__ < "2" else {"use_reentrant": True}
checkpoint(model, x, **kw).sum().backward()  # runs a backward inside
torch.autograd.backward([model(x).sum(), model(x).sum()])
y = model(x).sum(); y.backward(retain_graph=True); y.backward()
try: y.backward()
except RuntimeError as e: print(str(e)[:40])
show()
""")
    assert [b.flags for b in trace.of("backward")] == [0, 0, 0, 0, 1]


def test_an_import_that_fails(runner, torch_python):
    os.makedirs(os.path.join(runner.folder, "broken/torch"))
    runner.write("import colorsys\nraise ImportError('not now')\n", "broken/torch/__init__.py")
    trace = runner.compare_program(torch_python, """
import sys
sys.path.insert(0, "broken")
try: import torch
except ImportError as e: print(e)
del sys.path[0]
import torch, wave
torch.save(1, "x.pt")
""")
    assert trace.count("checkpoint") == 1


def test_uncaught_exceptions_are_kept(runner, torch_python):
    program = """
import sys, torch
class Talks(Exception):
    def __str__(self): print("asked"); return "text"
def fail(how):
    if how == "type": raise ValueError("bad batch")
    if how == "os": open("/nowhere")
    if how == "own": raise Talks("argument")
    sys.exit(1)
fail(sys.argv[1])
"""
    path = runner.write(program)
    for how, expected in {
            "type": ("ValueError", "bad batch"),
            "os": ("FileNotFoundError", "[Errno 2] No such file or directory: '/nowhere'"),
            "own": ("Talks", ""),  # its text is to be had only by running the program's code
            "exit": ("", "")}.items():
        trace = runner.compare([torch_python, path, how], status=1)
        assert (trace.exception, trace.exit_code) == (expected, 1)
