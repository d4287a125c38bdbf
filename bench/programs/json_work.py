# SPDX-License-Identifier: Apache-2.0
"""A large JSON document out, in, regrouped and out again. Run with PYTHONMALLOC=malloc, so that every object is a malloc."""
import json
import sys


def make_record(number):
    return {
        "id": number,
        "name": "record %d" % number,
        "tags": ["tag%d" % (number % 17), "kind%d" % (number % 5), str(number * 31)],
        "position": {"x": number * 0.5, "y": number / 3.0},
        "parent": number // 2 if number % 7 else None,
        "text": "a line of text that says something about record %d " % number * 4,
    }


def regroup(records):
    groups = {}
    for record in records:
        groups.setdefault(record["tags"][0], []).append((record["name"].upper(), record["position"]["x"]))
    return {name: sorted(members, key=lambda member: (member[1], member[0])) for name, members in groups.items()}


def main():
    rounds = int(sys.argv[1])
    total = 0
    for number in range(rounds):
        text = json.dumps([make_record(number * 100 + i) for i in range(40000)], indent=1)
        document = json.loads(text)
        groups = regroup(document)
        total += sum(len(members) for members in groups.values()) + len(text)
        total += len(json.dumps(document, sort_keys=True)) + len(json.dumps(groups, indent=2))
    print(total)


main()
