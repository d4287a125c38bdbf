SELECT a.name AS allocated_by, f.name AS freed_by, b.site, count(*) AS blocks
FROM blocks AS b JOIN threads AS a ON a.thread_id = b.thread_id
                 JOIN threads AS f ON f.thread_id = b.free_thread_id
WHERE b.thread_id <> b.free_thread_id
GROUP BY 1, 2, 3
ORDER BY blocks DESC;
