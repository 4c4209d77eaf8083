import os
import queue
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest
from fakes.listener import Listener
from fakes.loops import KeptReporter

from dlmon.instrument import reporter as reporter_module
from dlmon.instrument.pauses import pauses_of, watch_compiler, watch_guards, watch_jax, watch_saves
from dlmon.instrument.reporter import Reporter
from dlmon.records import NamedPause, OutOfMemory

MS = 1_000_000


class PauseReporter(KeptReporter):
    """Keeps pauses; its clock is set by the test."""

    def __init__(self):
        super().__init__()
        self.now, self.pauses, self.going_on = 0, [], queue.Queue()
        self.send_now = self.going_on.put
        pauses_of(self).clock = lambda: self.now

    def send_or_keep(self, pause):
        self.pauses.append(pause)

    def took(self, ms):
        self.now += ms * MS


@pytest.fixture
def reporter():
    return PauseReporter()


def torch_serialization(reporter, does=lambda f: None):
    """Return PyTorch's module, of which `save` takes a tenth of a second."""
    module = ModuleType("torch.serialization")

    def save(obj, f, **options):
        """Write an object to a file."""
        reporter.took(100)
        return does(f)

    module.save = save
    watch_saves(module, reporter, "save")
    return module


def write(path, size=1000):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_what_saves_is_timed_and_the_file_measured_where_there_is_one(reporter, tmp_path):
    torch = torch_serialization(reporter, lambda f: write(f) or "its own answer")
    assert torch.save({}, f=tmp_path / "model.pt") == "its own answer"
    assert reporter.pauses == [NamedPause(0, 100 * MS, "checkpoint", 1000, str(tmp_path.resolve()))]
    assert (torch.save.__name__, torch.save.__doc__) == ("save", "Write an object to a file.")
    torch = torch_serialization(reporter)
    for f in (SimpleNamespace(write=None), tmp_path / "nothing", "a\0b"):
        torch.save({}, f)
    assert [(one.written_bytes, one.folder) for one in reporter.pauses[1:]] == [(None, None)] * 3
    assert reporter.is_on


def test_what_saves_within_what_saves_is_one_pause_and_each_file_counts_once(reporter, tmp_path):
    torch = torch_serialization(reporter, write)

    class Trainer:
        def save_checkpoint(self, filepath):
            reporter.took(50)
            torch.save({}, filepath / "model.pt")
            torch.save({}, filepath / "rank0" / "optimizer.pt")
            write(filepath / "trainer.json", 10)

    module = ModuleType("lightning.pytorch.trainer.trainer")
    module.Trainer = Trainer
    watch_saves(module, reporter, "Trainer.save_checkpoint")
    write(tmp_path / "of_before", 5)
    os.utime(tmp_path / "of_before", (0, 0))
    Trainer().save_checkpoint(tmp_path)
    (saved,) = reporter.pauses
    assert (saved.t, saved.end, saved.written_bytes) == (0, 250 * MS, 2010)
    assert saved.folder == str(tmp_path.resolve())


def test_a_save_that_fails_fails_as_it_did_and_took_its_time(reporter):
    def fail(f):
        raise OSError("No space left on device")

    torch = torch_serialization(reporter, fail)
    with pytest.raises(OSError, match="No space left") as caught:
        torch.save({}, "model.pt")
    names = [entry.name for entry in caught.traceback]
    assert names[1:] == ["save", "fail"]
    torch_serialization(reporter).save({}, "model.pt")
    assert [one.seconds for one in reporter.pauses] == [0.1, 0.1]


def test_what_another_thread_saves_is_beside_the_training(reporter, tmp_path):
    torch = torch_serialization(reporter, write)
    thread = threading.Thread(target=torch.save, args=({}, tmp_path / "model.pt"))
    thread.start()
    thread.join()
    torch.save({}, tmp_path / "model.pt")
    assert [one.beside for one in reporter.pauses] == [True, None]

    def train():
        reporter.begin_loop()
        torch.save({}, tmp_path / "model.pt")

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert reporter.pauses[-1].beside is None


def compiler(reporter):
    """Return what calls PyTorch's compiler: it takes some time, after guards that failed."""
    module, guards = ModuleType("torch._dynamo.callback"), ModuleType("torch._dynamo.guards")

    class CompilationCallbackHandler:
        def run_start_callbacks(self, *arguments):
            reporter.took(1)

        def run_end_callbacks(self, *arguments):
            reporter.took(1)

    module.CompilationCallbackHandler = CompilationCallbackHandler
    guards.get_and_maybe_log_recompilation_reasons = lambda reasons: reasons
    watch_compiler(module, reporter)
    watch_guards(guards, reporter)
    handler = CompilationCallbackHandler()

    def compile_frame(ms, reasons=(), breaks=0):
        if reasons:
            assert guards.get_and_maybe_log_recompilation_reasons(reasons) is reasons
        handler.run_start_callbacks("of later versions")
        sys.modules["torch._dynamo.utils"].counters["graph_break"]["unsupported call"] += breaks
        reporter.took(ms)
        handler.run_end_callbacks("of later versions")

    return compile_frame


@pytest.fixture
def graph_breaks(monkeypatch):
    counted = {"unsupported call": 0}
    utils = SimpleNamespace(counters={"graph_break": counted})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    return counted


def test_what_is_compiled_is_timed_with_the_guard_that_failed(reporter, graph_breaks):
    compile_frame = compiler(reporter)
    graph_breaks["unsupported call"] = 5
    compile_frame(500)
    guard = "0/1: n == 1.0         # return y*n  # train.py:21 in f\nUser stack trace:\n  File"
    compile_frame(300, [guard, "0/0: another"], breaks=2)
    compile_frame(200)
    first, again, other = reporter.pauses
    assert (first.name, first.seconds, first.graph_breaks) == ("compile", 0.501, None)
    assert (again.reason, again.graph_breaks) == ("n == 1.0", 2)
    assert other.reason is None


def test_what_is_compiled_is_reported_while_it_goes_on_and_not_after_it(reporter, graph_breaks):
    compile_frame = compiler(reporter)
    pauses_of(reporter).goes_on_s = 0.01
    so_far = []

    def took(ms):
        reporter.now += ms * MS
        if ms == 500:
            so_far.append(reporter.going_on.get(timeout=30))

    reporter.took = took
    compile_frame(500)
    (whole,) = reporter.pauses
    assert (so_far[0].name, so_far[0].t) == ("compile", whole.t)
    assert whole.contains(so_far[0])
    for thread in [each for each in threading.enumerate() if each.name == "dlmon-pause"]:
        thread.join(30)
        assert not thread.is_alive()


def test_what_goes_on_before_the_process_trains_is_sent_at_once():
    compiled = NamedPause(1 * MS, 60 * MS, "compile")
    with Listener() as listener:
        Reporter(listener.path).send_now(compiled)
        assert listener.records() == []
    assert listener.compiled == [[compiled]]


def test_what_jax_compiles_is_timed(reporter):
    listeners = []
    module = SimpleNamespace(register_event_duration_secs_listener=listeners.append)
    watch_jax(module, reporter)
    (listener,) = listeners
    reporter.took(5000)
    listener("/jax/core/compile/backend_compile_duration", 2.0, fun_name="step")
    listener("/jax/core/compile/jaxpr_trace_duration", 0.0001)
    listener("/jax/checkpoint/write_duration", 2.0)
    assert reporter.pauses == [NamedPause(3000 * MS, 5000 * MS, "compile")]


def test_what_came_before_the_process_trains_is_sent_once_it_does(monkeypatch):
    with Listener() as listener:
        reporter = Reporter(listener.path)
        reporter.send_or_keep(NamedPause(1 * MS, 60 * MS, "compile"))
        reporter.send_or_keep(NamedPause(61 * MS, 90 * MS, "compile", reason="x"))
        reporter.send_or_keep(OutOfMemory(70 * MS, 2048.0))
        assert reporter.start("torch", "2")
        reporter.close()
        [process] = listener.reported()
    assert process.of(NamedPause) == [NamedPause(1 * MS, 90 * MS, "compile", reason="x")]
    assert process.of(OutOfMemory) == [OutOfMemory(70 * MS, 2048.0)]


def test_long_collections_of_garbage_are_pauses(monkeypatch):
    reporter, now = PauseReporter(), [0]
    monkeypatch.setattr(reporter_module.time, "monotonic_ns", lambda: now[0])
    for took_ms in (49, 51):
        reporter._time_garbage_collection("start", {"generation": 2})
        now[0] += took_ms * MS
        reporter._time_garbage_collection("stop", {"generation": 2, "collected": 0})
    assert reporter.pauses == [NamedPause(49 * MS, 100 * MS, "garbage")]
