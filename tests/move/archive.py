"""Writes an archive of pages and tombstones as `handbill export` does, to standard output: archive.py PAGES"""

import hashlib
import json
import random
import sys

SUFFIX = "23456789bcdfghjkmnpqrstvwxyz"
WORDS = "the quick brown fox jumps over a lazy dog while *nobody* sees **it** and [links](https://a.example/) wait".split()


def line(kind, value):
    covered = json.dumps({kind: value}, ensure_ascii=False, separators=(",", ":"))[1:]
    return '{"sum":"%s",%s\n' % (hashlib.sha256(covered.encode()).hexdigest()[:32], covered)


def main():
    count = int(sys.argv[1])
    draw = random.Random(1)
    digest = hashlib.sha256()

    def write(text):
        digest.update(text.encode())
        sys.stdout.write(text)

    header = {"format": "handbill-archive", "version": 1, "created_at_ms": 1795235400000, "generator": "tests/move"}
    write(line("header", {**header, "expected_records": count}))
    for number in range(count):
        suffix = "".join(SUFFIX[number // len(SUFFIX) ** place % len(SUFFIX)] for place in range(8))
        created = 1795235400000 + number
        base = {"slug": "page-" + suffix, "version": 1 + number % 3, "created_at_ms": created}
        if number % 50 == 0:
            write(line("tombstone", {**base, "version": 2, "deleted_at_ms": created + 5000}))
            continue
        text = " ".join(draw.choice(WORDS) for _ in range(draw.randrange(20, 400)))
        key = hashlib.sha256(str(number).encode()).hexdigest()
        page = {**base, "updated_at_ms": created + 1000 * (number % 3), "key_sha256": key}
        write(line("page", {**page, "title": "Page %d ü" % number, "content": "# Page %d\n\n%s" % (number, text)}))
    sys.stdout.write(line("trailer", {"records": count, "unreadable": 0, "sha256": digest.hexdigest()}))


main()
