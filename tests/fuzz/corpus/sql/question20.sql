SELECT round(seconds(s.time_ns)) AS at_s, human_bytes(s.rss_bytes) AS rss,
       human_bytes((SELECT live_bytes FROM timeline WHERE end_ns <= s.time_ns
                    ORDER BY slice_id DESC LIMIT 1)) AS heap
FROM samples AS s
WHERE s.time_ns % 5000000000 = 0;
