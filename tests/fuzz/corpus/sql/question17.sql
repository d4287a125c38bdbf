SELECT round(seconds(e.time_ns), 6) AS at_s, e.op, human_bytes(e.size) AS asked, t.name AS thread,
       stack_text(e.stack_id, 2) AS path
FROM events AS e JOIN threads AS t USING (thread_id)
WHERE e.op IN ('alloc_fail', 'realloc_fail');
