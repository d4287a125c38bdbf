SELECT t.name AS thread, b.site, count(*) AS blocks, human_bytes(sum(b.size)) AS bytes
FROM blocks AS b JOIN threads AS t USING (thread_id)
WHERE t.end_ns IS NOT NULL AND (b.free_ns IS NULL OR b.free_ns > t.end_ns)
GROUP BY t.name, b.site
ORDER BY sum(b.size) DESC;
