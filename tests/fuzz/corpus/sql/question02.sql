SELECT site, human_bytes(sum(peak_bytes)) AS at_peak, sum(peak_blocks) AS blocks,
       round(100.0 * sum(peak_bytes) / (SELECT value FROM info WHERE name = 'peak_bytes'), 1) AS percent
FROM stacks
GROUP BY site HAVING sum(peak_bytes) > 0
ORDER BY sum(peak_bytes) DESC;
