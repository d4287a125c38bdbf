SELECT bucket_log2(size) AS from_bytes, count(*) AS blocks, min(size), max(size)
FROM blocks
WHERE site IN ('parse_request', 'buffer_grow')
GROUP BY from_bytes;
