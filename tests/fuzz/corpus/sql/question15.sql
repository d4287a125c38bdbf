SELECT CASE WHEN lifetime_ns IS NULL THEN 'to the end'
            WHEN lifetime_ns < 1000000 THEN 'below 1 ms'
            WHEN lifetime_ns < 1000000000 THEN 'below 1 s'
            ELSE 'longer' END AS lives,
       count(*) AS blocks, human_bytes(sum(size)) AS bytes, human_time(max(lifetime_ns)) AS longest
FROM blocks
GROUP BY lives
ORDER BY max(lifetime_ns);
