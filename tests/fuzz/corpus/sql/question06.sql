SELECT size, size_class(size) AS takes, count(*) AS blocks,
       human_bytes(sum(size_class(size) - 8 - size)) AS wasted, site
FROM blocks
WHERE size_class(size - 4) < size_class(size)
GROUP BY size, site
ORDER BY sum(size_class(size) - 8 - size) DESC
LIMIT 5;
