SELECT count(*) AS paths, sum(allocations) AS allocations, human_bytes(sum(allocated_bytes)) AS bytes
FROM stacks
WHERE allocations > 0
  AND stack_id IN (SELECT stack_id FROM frames WHERE function = 'handle_request');
