SELECT (SELECT value FROM info WHERE name = 'peak_ns') - time_ns AS ns_before, op, size, site
FROM events
WHERE time_ns BETWEEN (SELECT value - 6000 FROM info WHERE name = 'peak_ns')
                  AND (SELECT value FROM info WHERE name = 'peak_ns')
ORDER BY event_id DESC;
