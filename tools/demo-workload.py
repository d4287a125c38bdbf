# SPDX-License-Identifier: Apache-2.0
"""What `make demo` records: a small order book that reads JSON, groups it, and keeps too much."""
import json

PEAK_ROUND = 3
cache = []


def make_orders(count):
    return json.dumps([{"id": i, "customer": f"customer {i % 97}", "items": list(range(i % 13))}
                       for i in range(count)])


def group_by_customer(orders):
    groups = {}
    for order in orders:
        groups.setdefault(order["customer"], []).append(order)
    return groups


def remember_forever(groups):
    cache.append({name: len(orders) for name, orders in groups.items()})


for round_number in range(6):
    size = 20000 if round_number == PEAK_ROUND else 4000
    groups = group_by_customer(json.loads(make_orders(size)))
    remember_forever(groups)
print(f"demo: {sum(sum(counts.values()) for counts in cache)} orders seen")
