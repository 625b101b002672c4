"""Ctrl-C ends anything, in programs and in notebooks."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

# The programs set what SIGINT does themselves: what they inherit depends on who runs the tests.
PROGRAM = """
import signal, sys
sys.path.insert(0, {tests!r})
import policies, sweephand
signal.signal(signal.SIGINT, signal.default_int_handler)

class Stuck(policies.Clock):
    def victim(self, mmu):
        if not self.hand_steps:
            self.hand_steps = 1
            # In one piece: two threads may be at this point.
            print("stuck\\n", end="", flush=True)
        while True:
            {loop}

class StuckAtFirst(Stuck):
    def __init__(self, frames):
        super().__init__(frames)
        if frames > 1:
            self.victim(None)

class StuckAtHits(policies.Lru):
    def hits(self, pages):
        Stuck.victim(self, None)

    hand_steps = 0

try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

CALLS = {
    "simulate": "sweephand.simulate([1, 2, 3, 1, 2], ['lru', Stuck, 'clock'], [1, 2])",
    "one thread": "sweephand.simulate([1, 2, 3, 1, 2], Stuck, 2, threads=1)",
    "sample": "sweephand.simulate(sweephand.generate('uniform', pages=9999, references=99999), Stuck, 0.5, sample=0.5)",
    "while it is made": "sweephand.simulate([1, 2, 3, 1, 2], StuckAtFirst, 2)",
    "hits": "sweephand.simulate([1, 2, 1, 3, 1, 2], StuckAtHits, 2)",
    "advise": "sweephand.advise([1, 2, 3, 1, 2] * 100, ['opt', 'clock', Stuck])",
    "report": "sweephand.report([1, 2, 3, 1, 2] * 100, None, ['opt', 'clock', Stuck])",
    "check": "sweephand.check(Stuck)",
}


def interrupted(call: str, loop: str = "pass") -> None:
    program = PROGRAM.format(tests=str(Path(__file__).parent), call=call, loop=loop)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "stuck\n"
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    # Those that run at the same time are stuck, too, and say so.
    assert rest.splitlines()[-1] == "interrupted"
    assert process.returncode == 0


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_ctrl_c_stops_a_policy_that_loops(call: str) -> None:
    interrupted(call)


def test_a_policy_that_catches_exceptions_is_stopped_too() -> None:
    interrupted(
        CALLS["simulate"],
        loop="""
            try:
                sum(range(1000))
            except Exception:
                pass""",
    )


def test_the_exception_of_a_progress_bar_is_what_comes_out() -> None:
    import policies

    import sweephand

    class Slow(policies.Clock):
        def victim(self, mmu: sweephand.Mmu) -> int | None:
            if failed:
                while True:
                    pass
            page: int | None = super().victim(mmu)
            return page

    failed = []

    def fail(done: int, total: int) -> None:
        failed.append(done)
        raise RuntimeError("enough")

    trace = sweephand.generate("uniform", pages=1000, references=1_000_000)
    with pytest.raises(RuntimeError, match="enough"):
        sweephand.simulate(trace, Slow, "50%", progress=fail)


def test_a_notebook_is_interrupted() -> None:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        program = PROGRAM.format(tests=str(Path(__file__).parent), call=CALLS["simulate"], loop="pass")
        # As people write it: the kernel tells of the interrupt.
        cell = program[: program.index("try:")].replace("signal.signal", "(lambda *_: None)") + CALLS["simulate"]
        message = client.execute(cell)
        while True:
            output = client.get_iopub_msg(timeout=120)
            if output["msg_type"] == "stream" and "stuck" in output["content"]["text"]:
                break
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=120)
        while reply["parent_header"].get("msg_id") != message:
            reply = client.get_shell_msg(timeout=120)
        assert (reply["content"]["status"], reply["content"]["ename"]) == ("error", "KeyboardInterrupt")
        # It goes on as before.
        client.execute("1 + 1", reply=True, timeout=120)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
