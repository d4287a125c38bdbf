SELECT site, sum(temporary) AS temporary,
       round(100.0 * sum(temporary) / sum(allocations), 1) AS percent
FROM stacks
GROUP BY site HAVING sum(temporary) > 0
ORDER BY sum(temporary) DESC;
