"""The program `highwater`: what holds for every command, from its first import on.

The tools of `broker.tools` are commands of it as well: a plain install has them, and they import nothing of the lab.

Decides how the process ends when a command does not return an exit code of its own: an error that nobody caught is
255 with one line, for Python's own 1 would say *invalid*; Ctrl-C outside of a run is the quiet death by SIGINT that
shells and make wait for (130). Must not know commands. Imports nothing at the top that takes time: what an import is
interrupted in is caught below alone.
"""

from __future__ import annotations

import sys

CRASH = 255


def main() -> int:
    """Run the command line of this process; returns its exit code."""
    try:
        import faulthandler
        import signal

        # Ctrl-\ says where each thread is before it ends the process, though none of them can run any more.
        if sys.stderr is not None:
            faulthandler.register(signal.SIGQUIT, chain=True)
        # `enter_sandbox` starts this program again with SIGINT held back until here.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        from broker.tools import commands as tools

        if sys.argv[1:2] and sys.argv[1] in tools.COMMANDS:
            return tools.run(sys.argv[1], sys.argv[2:])
        from harness.commands import output

        output.survive_loss()
        from harness.commands.main import main as run_command

        return run_command()
    except KeyboardInterrupt:
        _die_of_interrupt()
    except SystemExit:
        raise
    except BaseException as error:
        print(f"highwater: ended by an error of its own: {_one_line(error)}", file=sys.stderr)
        if sys.flags.dev_mode:
            raise
    return CRASH


def _die_of_interrupt() -> None:
    import os
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGINT)


def _one_line(error: BaseException) -> str:
    """Type, text and place. `python -X dev -m harness.commands ...` shows the traceback as well."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})"
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"


if __name__ == "__main__":
    sys.exit(main())
