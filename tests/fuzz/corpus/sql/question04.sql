WITH steps AS (
  SELECT site, slice_id, live_bytes,
         lag(live_bytes) OVER (PARTITION BY stack_id ORDER BY slice_id) AS before
  FROM stack_timeline
)
SELECT site, count(*) AS slices, human_bytes(max(live_bytes)) AS live_at_end
FROM steps
GROUP BY site
HAVING count(*) >= 5 AND sum(live_bytes < before) = 0 AND max(live_bytes) > 1000
ORDER BY max(live_bytes) DESC;
