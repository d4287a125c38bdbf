SELECT t.name, count(*) AS allocations, human_bytes(sum(b.size)) AS allocated,
       human_bytes(sum(b.size) FILTER (WHERE b.free_ns IS NULL)) AS unfreed
FROM blocks AS b JOIN threads AS t USING (thread_id)
GROUP BY t.thread_id
ORDER BY sum(b.size) DESC;
