SELECT bucket(time_ns, 1000000000) / 1000000000 AS second, count(*) AS allocations,
       human_bytes(sum(size)) AS allocated
FROM events
WHERE op IN ('alloc', 'realloc_alloc') AND time_ns < 5000000000
GROUP BY second;
