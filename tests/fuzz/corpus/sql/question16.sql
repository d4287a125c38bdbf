SELECT bucket((SELECT value FROM info WHERE name = 'duration_ns') - alloc_ns, 5000000000)
         / 1000000000 AS age_from_s,
       count(*) AS blocks, human_bytes(sum(size)) AS bytes
FROM blocks
WHERE site = 'session_new' AND free_ns IS NULL
GROUP BY age_from_s;
