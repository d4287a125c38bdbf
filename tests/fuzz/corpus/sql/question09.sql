WITH RECURSIVE grown AS MATERIALIZED (
  SELECT block_id, realloc_from, size, site FROM blocks WHERE realloc_from IS NOT NULL
), chain(head, block_id, size, site, steps) AS (
  SELECT realloc_from, block_id, size, site, 1 FROM grown
  WHERE realloc_from NOT IN (SELECT block_id FROM grown)
  UNION ALL
  SELECT chain.head, grown.block_id, grown.size, chain.site, chain.steps + 1
  FROM chain JOIN grown ON grown.realloc_from = chain.block_id
), longest AS (
  SELECT site, max(steps) AS steps, size FROM chain GROUP BY head
)
SELECT site, steps AS reallocs, count(*) AS chains, max(size) AS last_size
FROM longest
GROUP BY site, steps
ORDER BY steps DESC;
