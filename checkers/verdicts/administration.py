"""What the catalogue says of checkers of administration: settings and partitions of topics, and topics made anew."""

from __future__ import annotations

from checkers.verdicts.spec import own

ADMIN = (
    own(
        "config-not-linearizable",
        "Changes and descriptions of a topic's setting have no order that explains them",
        {
            "changes": "no change of a setting was acknowledged",
            "settings_described": "no setting that a topic had was described",
        },
        of_run=True,
    ),
    own(
        "partitions-went-back",
        "A broker counted fewer partitions than it, or the controller, had told",
        {
            "counts_judged": "no broker counted partitions that it had counted before",
            "final_counts": "no partitions were counted in the final drain, after a growth",
        },
        of_run=True,
    ),
    own(
        "partitions-not-linearizable",
        "Growths and counts of a topic's partitions have no order that explains them",
        {"growths": "no growth was acknowledged", "counts_searched": "no partitions were counted"},
        of_run=True,
    ),
)
"""Of workloads that change settings of topics, and numbers of partitions."""

REMADE = (
    own(
        "deleted-topic-read",
        "A deleted topic was read after its name had become another topic's",
        {
            "topics": "no topic was seen to be made anew",
            "polls_of_deleted": "nobody asked for a topic that was deleted and made anew",
        },
        of_run=True,
    ),
    own(
        "lost-topic",
        "A broker told that there is no topic, or another one, though nobody had deleted it",
        {
            "answers": "no broker told twice which topic a name has",
            "final_answers": "no broker told in the final drain which topic a name has",
        },
        of_run=True,
    ),
    own(
        "topic-id-again",
        "A topic was made with a deleted one's id, or a broker told a deleted topic after a later one",
        {"answers": "no broker told twice which topic a name has", "made_anew": "no topic was made anew"},
        of_run=True,
    ),
)
"""Of workloads that delete topics and make them anew."""
