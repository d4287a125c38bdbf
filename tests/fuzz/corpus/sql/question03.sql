SELECT human_bytes(live_bytes) AS unfreed, live_blocks AS blocks, stack_text(stack_id, 3) AS path
FROM stacks
WHERE live_blocks > 0
ORDER BY live_bytes DESC;
