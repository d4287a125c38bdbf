SELECT site,
       sum(CASE WHEN alloc_ns <= 14e9 AND (free_ns IS NULL OR free_ns > 14e9) THEN size ELSE 0 END)
       - sum(CASE WHEN alloc_ns <= 6e9 AND (free_ns IS NULL OR free_ns > 6e9) THEN size ELSE 0 END)
       AS growth
FROM blocks
WHERE alloc_ns <= 14000000000
GROUP BY site HAVING growth <> 0
ORDER BY growth DESC;
