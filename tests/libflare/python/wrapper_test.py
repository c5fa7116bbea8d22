# SPDX-License-Identifier: Apache-2.0
"""A wrapped function looks and behaves like the function, on every CPython there is here."""
import collections

PRELUDE = """
import collections, copy, functools, inspect, pickle, sys, traceback, types

def plain(a, b=2, *c, d: int = 4, **e):
    "doc of plain"
    return (a, b, c, d, e)

def fails(x):
    raise KeyError(x)

def count(n):
    return 0 if n == 0 else 1 + count(n - 1)

def generate(n):
    yield from range(n)

async def wait():
    return 7

class Base:
    def method(self, x): return ("base", x)
    @staticmethod
    def static(x): return x
    @classmethod
    def make(cls, x): return (cls.__name__, x)

class Derived(Base):
    def method(self, x): return super().method(x + 1)

class Other(Base): pass
class Both(Derived, Other): pass

import colorsys  # any sign of life: from here on the functions above are wrapped
"""
API = ",".join("__main__@" + path for path in (
    "plain", "fails", "count", "generate", "wait", "Base@method", "Derived@method", "Base@static",
    "Base@make"))


def test_passes_arguments_and_results(runner, any_python):
    trace = runner.compare_program(any_python, PRELUDE + """
print(plain(1), plain(1, 3, 4, d=5, z=6), plain(*range(4), **{"d": 1}), plain(a=1, b=3))
print(functools.partial(plain, 9)(8), list(map(plain, [1, 2])), list(generate(3)), count(50))
try: plain()
except TypeError as e: print(e)
try: plain(1, a=2)
except TypeError as e: print(e)
try: wait().send(None)
except StopIteration as e: print(e.value)
""", API)
    assert trace.calls() == {"__main__.plain": 9, "__main__.generate": 1, "__main__.count": 51,
                               "__main__.wait": 1}


def test_describes_itself_as_the_function(runner, any_python):
    runner.compare_program(any_python, PRELUDE + """
print(plain, plain.__name__, plain.__qualname__, plain.__module__, plain.__doc__)
print(inspect.signature(plain), inspect.signature(Base.method), inspect.signature(Base().method))
print(inspect.isfunction(plain), isinstance(plain, types.FunctionType), plain.__class__)
print(inspect.iscoroutinefunction(wait), inspect.isgeneratorfunction(generate), callable(plain))
print(inspect.getsource(plain), inspect.getfile(plain) == __file__, inspect.getdoc(plain))
print(dir(plain), plain.__code__.co_name, plain.__defaults__, plain.__annotations__)
print(type(Base().method), Base().method.__func__ is Base.method, Base().method == Base().method)
print(inspect.getfullargspec(plain), hasattr(plain, "nothing"), hasattr(plain, "__wrapped__"))
""", API)


def test_keeps_attributes_on_the_function(runner, any_python):
    runner.compare_program(any_python, PRELUDE + """
plain.hooked = True
print(plain.hooked, plain.__dict__)
@functools.wraps(plain)
def outer(*a, **k): return plain(*a, **k)
print(outer.__name__, outer.hooked, inspect.signature(outer), outer(1), outer.__wrapped__ is plain)
del plain.hooked
print(hasattr(plain, "hooked"))
plain.__defaults__ = (5,)
print(plain(1))
try: del plain.missing
except AttributeError as e: print(type(e).__name__)
""", API)


def test_pickles_copies_and_compares_by_identity(runner, any_python):
    runner.compare_program(any_python, PRELUDE + """
for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
    print(pickle.loads(pickle.dumps(plain, protocol)) is plain)
    print(pickle.loads(pickle._dumps(plain, protocol)) is plain)
print(copy.copy(plain) is plain, copy.deepcopy([plain])[0] is plain)
bound = pickle.loads(pickle.dumps(Both().method))
print(bound(1), {plain: 1}[plain], plain == plain, plain != count, plain == 3, len({plain, count}))
""", API)


def test_equals_the_function_taken_before(runner, any_python):
    trace = runner.compare_program(any_python, """
import json
early = json.dumps
import colorsys
print(early == json.dumps, json.dumps == early, hash(early) == hash(json.dumps),
      {early: 1}[json.dumps], early != json.dumps)
""", "json@dumps")
    assert trace.calls() == {}


def test_exceptions_and_tracebacks_are_the_same(runner, any_python):
    trace = runner.compare_program(any_python, PRELUDE + """
def middle(x): return fails(x)
try: middle("k")
except KeyError: print(traceback.format_exc())
try:
    try: fails(1)
    finally: fails(2)
except KeyError as e: print(e, e.__context__)
middle("end")
""", API, status=1)
    assert [call.flags for call in trace.of("user_call")] == [1, 1, 1, 1]  # failed
    assert trace.exception == ("KeyError", "'end'")
    assert trace.exit_code == 1


def test_methods_bind_and_inherit(runner, any_python):
    trace = runner.compare_program(any_python, PRELUDE + """
print(Derived().method(1), Both().method(1), Other().method(1), Base.method(Base(), 2))
print(Base.static(3), Both().static(4), Base.make(5), Both().make(6), Both.make.__self__)
kept = Derived().method
print(kept(1), kept.__name__, kept.__self__.__class__.__name__)
class Late(Derived):
    method = Base.method
    also = plain
print(Late().method(1), Late().also(2)[1:], super(Late, Late()).method(3))
""", API)
    assert trace.calls() == {"__main__.Derived.method": 4, "__main__.Base.method": 7,
                               "__main__.Base.static": 2, "__main__.Base.make": 2,
                               "__main__.plain": 1}


def test_weak_references_work(runner, any_python):
    runner.compare_program(any_python, PRELUDE + """
import weakref
if sys.version_info >= (3, 9):
    print(weakref.ref(plain)() is plain, len(weakref.WeakSet([plain, count])))
""", API)


def test_a_builtin_does_not_bind(runner, any_python):
    trace = runner.compare_program(any_python, """
import math
import colorsys
class Holder: root = math.sqrt
print(Holder().root(4), math.sqrt(9), math.sqrt.__self__.__name__, math.sqrt)
""", "math@sqrt")
    assert trace.calls() == {"math.sqrt": 2}


def test_names_that_lead_nowhere_do_nothing(runner, any_python):
    trace = runner.compare_program(any_python, PRELUDE + "print(plain(1))\n",
                                     "nowhere@f,__main__@missing,__main__@Base@missing,bad,@,a@@b,"
                                     "__main__@plain@deeper,__main__@PRELUDE," + "x" * 5000)
    assert trace.calls() == {}
    assert trace.parts["python"] == "active"


def test_a_module_is_wrapped_when_its_import_is_complete(runner, any_python):
    runner.write("""
import colorsys
def f(): return 1
import sched  # f is there, the module is not complete: not wrapped yet
f()
class C:
    def g(self): return 2
spec = __spec__
""", "late.py")
    trace = runner.compare_program(any_python, """
from late import f, C  # no event follows before the calls
print(f(), C().g())
import importlib, late
print(late.spec, type(late.spec), late.spec is late.__spec__, late.spec._initializing)
print(type(late.spec) is type(importlib.__spec__), vars(late.spec)["name"])
importlib.reload(late)
print(late.f())
""", "late@f,late@C@g")
    assert trace.calls() == {"late.f": 1, "late.C.g": 1}  # reloading makes functions anew


def test_a_module_imported_by_function_call(runner, any_python):
    runner.write("def f(): return 1\n", "late.py")
    trace = runner.compare_program(any_python, """
import importlib
print(importlib.import_module("late").f())
""", "late@f")
    assert trace.calls() == {"late.f": 1}


def test_a_module_whose_import_fails(runner, any_python):
    runner.write("def f(): return 1\nimport sched\nraise ImportError('not now')\n", "late.py")
    trace = runner.compare_program(any_python, """
import sys
for name in "late", "absent":
    try: __import__(name)
    except ImportError as e: print(e, name in sys.modules)
open("late.py", "w").write("def f(): return 12345\\n")
import late
print(late.f())
open("late.py", "w").write("def f(): return 1\\nimport sched\\nraise ImportError('not now')\\n")
""", "late@f,absent@f")
    assert trace.calls() == {"late.f": 1}


def test_many_calls_leak_nothing(runner, any_python):
    result = runner.run([any_python, runner.write(PRELUDE + """
def resident_pages():
    with open("/proc/self/statm") as f: return int(f.read().split()[1])
def work():
    for i in range(100_000):
        plain(i, d=i)
        try: fails(i)
        except KeyError: pass
work()
references = [sys.getrefcount(f) for f in (plain, fails, None, KeyError)]
before = resident_pages()
for _ in range(3): work()
after = [sys.getrefcount(f) for f in (plain, fails, None, KeyError)]
assert all(abs(a - b) < 50 for a, b in zip(after, references)), (references, after)
assert resident_pages() - before < 64, (before, resident_pages())
""")], True, API)
    assert (result.status, result.stderr) == (0, "")


def test_three_threads_each_record_their_own(runner, any_python):
    trace = runner.compare_program(any_python, PRELUDE + """
import threading
def work():
    for i in range(500): plain(i)
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
print("done")
""", API)
    per_thread = collections.Counter(call.thread for call in trace.of("user_call"))
    assert sorted(per_thread.values()) == [500, 500, 500]


def test_a_forked_child_records_nothing(runner, any_python):
    trace = runner.compare_program(any_python, PRELUDE + """
import os
plain(1)
child = os.fork()
if child == 0:
    plain(2)
    import sched
    os._exit(0 if plain(3)[0] == 3 else 1)
print(os.waitpid(child, 0)[1], plain(4))
""", API)
    assert trace.calls() == {"__main__.plain": 2}
