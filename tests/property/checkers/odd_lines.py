"""Lines that Arrow and Spark read alike, and lines that only Spark is to read."""

from __future__ import annotations

from random import Random

_SIGNS = b'{}[]",:0123456789eE.+-truefalsn\\ \t\x00\xff\r'

PLAIN = [
    b'{"type":"invoke","index":4,"time_ns":15927764466,"process":9,"kind":"client","f":"poll","phase":"main","topic":"hw",'
    b'"partition":1,"node":"n3","position":0,"leader_epoch":0,"isolation":0,"consumer":"c9","max_bytes":65536}',
    b'{"type":"ok","index":5,"time_ns":15927984904,"invoke":4,"process":9,"kind":"client","f":"poll","topic":"hw",'
    b'"next_position":2,"hw":2,"lso":2,"log_start":0,"records":[{"offset":0,"value":7,"epoch":3,"intact":true},null]}',
    b'{"type":"invoke","index":8,"time_ns":1,"f":"send","values":[5,6],"acks":-1,"sentinel":false,"keys":[1,null]}',
    b'{"type":"info","index":9,"time_ns":2,"kind":"nemesis","f":"start","fault":"kill","targets":["n1","n2"],'
    b'"params_json":"{\\"seed\\": 3, \\"who\\": [\\"n1\\"]}","observed":null,"effects":[]}',
    b'{"offsets":[{"p":"hw-0","offset":-1},{"p":"hw-1","offset":4,"metadata":{"a":[1,"b",{"c":2.5}]}}],"commit":true}',
    b"{}",
    b'{ "index" : -0 , "other" : [[1],{}] }',
    b'{"Index":1,"index ":2,"":3}',
    b'{"\\u0069ndex":-9223372036854775808}',
    b'{"type":"a\\u0000b\\/ \\ud83d\\ude00 \xc3\xa9 \x7f"}',
    b'{"type":"2020-01-01","_corrupt_record":"none"}',
]

ODD = [
    b"",
    b"  ",
    b"null",
    b"1",
    b"[]",
    b'[{"index":1}]',
    b' {"index":1}',
    b'{"index":1}{"index":2}',
    b'{"index":1} {"index":2}',
    b'{"index":1}null',
    b'{"index":1}x',
    b'{"index":1} //',
    b'{"index":1,"index":2}',
    b'{"records":[{"offset":1,"offset":2}]}',
    b'\xef\xbb\xbf{"index":1}',
    b'{"index":1.0}',
    b'{"index":1e3}',
    b'{"index":01}',
    b'{"index":+1}',
    b'{"index":NaN}',
    b'{"index":"1"}',
    b'{"index":true}',
    b'{"index":[1]}',
    b'{"index":9223372036854775808}',
    b'{"partition":3000000000}',
    b'{"commit":1}',
    b'{"type":1}',
    b'{"type":true}',
    b'{"type":{"a":1}}',
    b'{"values":5}',
    b'{"values":[1,"2"]}',
    b'{"values":[1,]}',
    b'{"records":{}}',
    b'{"records":[[]]}',
    b'{"index":1,}',
    b'{"index":1',
    b'{"type":"a',
    b"{'index':1}",
    b"{index:1}",
    b'{"type":"\\ud800"}',
    b'{"type":"\\x"}',
    b'{"type":"\xff"}',
    b'{"type":"\xed\xa0\x80"}',
    b'{"type":"a\tb"}',
    b'{"type":"a\x00b"}',
    b'{"index":1}\r{"index":2}',
    b'{"index":1}\r',
]


def broken(random: Random, line: bytes) -> bytes:
    """The line with one to three bytes or pieces gone, changed, or twice."""
    text = bytearray(line)
    for _ in range(random.choice((1, 1, 2, 3))):
        at, to = sorted((random.randrange(len(text)), random.randrange(len(text))))
        match random.randrange(4):
            case 0:
                text[at] = random.choice(_SIGNS)
            case 1:
                text.insert(at, random.choice(_SIGNS))
            case 2:
                del text[at : min(to + 1, at + 12)]
            case _:
                text[at:at] = text[to : to + random.randrange(1, 20)]
        text = text or bytearray(b"{")
    return bytes(text).replace(b"\n", b" ")
