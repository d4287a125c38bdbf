SELECT site, sum(allocations) AS allocations, human_bytes(sum(allocated_bytes)) AS allocated,
       sum(allocated_bytes) / sum(allocations) AS mean_size
FROM stacks
GROUP BY site HAVING sum(allocations) > 0
ORDER BY sum(allocated_bytes) DESC;
