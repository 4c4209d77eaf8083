import asyncio
import contextlib

from dlmon.supervisor.supervisor import every_second


def test_an_error_of_our_own_is_noticed_once_and_what_is_done_each_second_goes_on():
    notices, done = [], []

    def do():
        done.append(1)
        if len(done) == 4:
            raise asyncio.CancelledError
        raise KeyError("rows")

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(every_second(do, notices.append, period_s=0.0))
    assert len(done) == 4
    assert notices == ["an error of dlmon's own: KeyError: 'rows'"]
