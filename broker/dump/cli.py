"""`highwater-dump-log --files FILE,…`: options and exit codes.

Exit codes: 0 nothing wrong, 1 something is damaged, missing or does not fit, 2 wrong usage, 130 interrupted. Kafka's
tool exits with 0 whatever it finds, unless it throws.
"""

from __future__ import annotations

import argparse
import io
import os
import sys

from broker import __version__
from broker.dump.coordinator_decoders import offsets, transactions
from broker.dump.decoders import DECODERS, Decoder, by_class, key_and_value
from broker.dump.files import Options, dump_file
from broker.dump.index_dump import IndexOptions
from broker.dump.lines import Contents
from broker.dump.log_dump import LogOptions
from broker.dump.report import OutputFailed, Report

EXIT_WRONG = 1
EXIT_INTERRUPTED = 130
_INT32_MAX = 2**31 - 1
_STRING = "StringDecoder"


def main(argv: list[str] | None = None) -> int:
    """Dump the files that are named. Returns the exit code; raises SystemExit for wrong usage, --help and --version."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names and values of records, and the help, need not be in the terminal's character set.
        sys.stdout.reconfigure(errors="backslashreplace")
    args = _parser().parse_args(argv)
    contents = _contents(args)
    log = LogOptions(
        deep=args.deep_iteration or contents is not None,
        contents=contents,
        metadata=not args.skip_record_metadata,
        bytes_max=None if args.max_bytes == _INT32_MAX else args.max_bytes,
    )
    options = Options(log, IndexOptions(args.verify_index_only, args.index_sanity_check))
    report = Report(sys.stdout, sys.stderr)
    try:
        for path in args.files:
            dump_file(path, options, report)
        report.close()
    except OutputFailed as failed:
        # What is buffered must not fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not failed.closed:
            print(f"highwater-dump-log: {failed}", file=sys.stderr)
        return EXIT_WRONG
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_WRONG if report.wrong else 0


def _contents(args: argparse.Namespace) -> Contents | None:
    """How records are printed. As in Kafka's tool a coordinator's decoder goes before those of keys and values."""
    if args.offsets_decoder:
        return offsets
    if args.transaction_log_decoder:
        return transactions
    key, value = args.key_decoder_class, args.value_decoder_class
    if args.print_data_log or key is not None or value is not None:
        return key_and_value(key or by_class(_STRING), value or by_class(_STRING))
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="highwater-dump-log",
        description="Print what is in a log's files, and say what is wrong with them. Nothing is changed.",
    )
    add = parser.add_argument
    add("--files", type=_files, required=True, metavar="FILE,…", help="segments, indexes, snapshots, checkpoints")
    add("--deep-iteration", action="store_true", help="a line per record, not only per batch")
    add("--print-data-log", action="store_true", help="keys and values as well; implies --deep-iteration")
    add("--skip-record-metadata", action="store_true", help="of records, print keys and values only")
    add("--verify-index-only", action="store_true", help="check indexes without printing their entries")
    add("--index-sanity-check", action="store_true", help="check of indexes only what a broker checks at its start")
    add("--max-bytes", type=_positive, default=_INT32_MAX, metavar="SIZE", help="read no more of each .log file")
    add(
        "--max-message-size",
        type=_positive,
        default=5 * 1024 * 1024,
        metavar="SIZE",
        help="accepted because Kafka's tool has it; here no batch is too large for an index to be checked",
    )
    names = ", ".join(DECODERS)
    for what in ("key", "value"):
        add(
            f"--{what}-decoder-class",
            type=_decoder,
            nargs="?",
            const=by_class(_STRING),
            metavar="NAME",
            help=f"how a {what} is printed: {names}; implies --print-data-log",
        )
    for option, topic in (("offsets", "__consumer_offsets"), ("transaction-log", "__transaction_state")):
        add(
            f"--{option}-decoder",
            action="store_true",
            help=f"print keys and values as those of {topic}; implies --print-data-log",
        )
    add("--version", action="version", version=f"highwater {__version__}")
    return parser


def _files(text: str) -> list[str]:
    files = [name for name in text.split(",") if name]
    if not files:
        raise argparse.ArgumentTypeError(f"{text!r} names no file")
    return files


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _INT32_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to {_INT32_MAX}")
    return int(text)


def _decoder(text: str) -> Decoder:
    try:
        return by_class(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
