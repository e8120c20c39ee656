"""`python -m broker.config.check`: says what is wrong with settings, without a broker.

Standard input: a JSON object {"broker": [{name: text}, …], "topic": {name: text}}; each object of `broker` is one
broker's. Standard output: a JSON list of {"scope": "broker" | "topic", "index", "name", "problem", "like"}; `name` is
null where settings that are sound by themselves contradict each other, `like` the known name that is most like an
unknown one, or null.

Decides that an unknown name is an error, which the broker itself lets pass, as Kafka does: here somebody wrote it to
try what it does. Must not know who asks.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from broker.config.settings import Settings, validate_broker_config, validate_topic_config, validate_topic_configs
from broker.config.table import BY_NAME, IDLE_SETTINGS, INERT_TOPIC_SETTINGS, TOPIC_SETTINGS
from broker.config.values import ConfigError

_CONNECT = {"zookeeper.connect": "localhost"}


def problems(brokers: Sequence[Mapping[str, str]], topic: Mapping[str, str]) -> list[dict[str, object]]:
    """Everything that is wrong, in the order of the input."""
    found: list[dict[str, object]] = []
    known = {*BY_NAME, *IDLE_SETTINGS}
    for index, settings in enumerate(brokers):
        wrong = list(_each(settings, validate_broker_config, known, "broker"))
        if not wrong:
            wrong = list(_together(partial(Settings.parse, {**_CONNECT, **settings})))
        found.extend({"scope": "broker", "index": index, **one} for one in wrong)
    wrong = list(_each(topic, validate_topic_config, {*TOPIC_SETTINGS, *INERT_TOPIC_SETTINGS}, "topic"))
    if not wrong and not found:
        first = Settings.parse({**_CONNECT, **(brokers or [{}])[0]})
        wrong = list(_together(partial(validate_topic_configs, topic, first)))
    found.extend({"scope": "topic", "index": 0, **one} for one in wrong)
    return found


def _each(
    settings: Mapping[str, str], validate: Callable[[str, str], None], known: Collection[str], scope: str
) -> Iterator[dict[str, object]]:
    for name, text in settings.items():
        if name not in known:
            like = difflib.get_close_matches(name, known, n=1)
            yield {"name": name, "problem": f"no setting of a {scope}", "like": like[0] if like else None}
            continue
        try:
            validate(name, text)
        except ConfigError as error:
            yield {"name": name, "problem": str(error), "like": None}


def _together(parse: Callable[[], object]) -> Iterator[dict[str, object]]:
    try:
        parse()
    except ConfigError as error:
        yield {"name": None, "problem": str(error), "like": None}


def main() -> int:
    """Exit code 0, whatever was found."""
    asked = json.load(sys.stdin)
    json.dump(problems(asked["broker"], asked["topic"]), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
