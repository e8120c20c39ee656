from __future__ import annotations

import json

from broker.tools.log_dirs import as_json
from broker.wire.errors import ErrorCode
from broker.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def test_log_dirs_are_one_line_of_json_with_kafkas_names() -> None:
    topics = [
        DescribeLogDirsTopic("u", [DescribeLogDirsPartition(0, 5, 0, False)]),
        DescribeLogDirsTopic("t", [DescribeLogDirsPartition(1, 7, 2, True), DescribeLogDirsPartition(0, 6, 0, False)]),
    ]
    dirs = [DescribeLogDirsResult(0, "/a", topics), DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, "/b", [])]
    text = as_json({2: dirs}, {"t"})
    assert "\n" not in text
    assert json.loads(text) == {
        "version": 1,
        "brokers": [
            {
                "broker": 2,
                "logDirs": [
                    {
                        "logDir": "/a",
                        "error": None,
                        "partitions": [
                            {"partition": "t-0", "size": 6, "offsetLag": 0, "isFuture": False},
                            {"partition": "t-1", "size": 7, "offsetLag": 2, "isFuture": True},
                        ],
                    },
                    {
                        "logDir": "/b",
                        "error": "org.apache.kafka.common.errors.KafkaStorageException",
                        "partitions": [],
                    },
                ],
            }
        ],
    }
    assert [
        one["partition"] for one in json.loads(as_json({2: dirs[:1]}, ()))["brokers"][0]["logDirs"][0]["partitions"]
    ] == [
        "t-0",
        "t-1",
        "u-0",
    ]
