SELECT site, count(*) AS blocks, human_bytes(sum(size)) AS live
FROM blocks
WHERE alloc_ns <= 10000000000 AND (free_ns IS NULL OR free_ns > 10000000000)
GROUP BY site
ORDER BY sum(size) DESC;
