-- SPDX-License-Identifier: Apache-2.0
-- An in-memory database: inserts, indexes, joins, text functions, JSON.
PRAGMA temp_store = MEMORY;
CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, city TEXT, score REAL);
CREATE TABLE visit (id INTEGER PRIMARY KEY, person_id INTEGER, place TEXT, note TEXT);

WITH RECURSIVE counter(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM counter WHERE i < 60000)
INSERT INTO person SELECT i, 'person ' || hex(i * 7919 % 100003), 'city ' || (i % 97), i * 0.37 FROM counter;

WITH RECURSIVE counter(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM counter WHERE i < 150000)
INSERT INTO visit SELECT i, 1 + i * 31 % 60000, 'place ' || (i * 17 % 1009),
	replace(upper('note of visit ' || i), 'VISIT', lower('Journey')) FROM counter;

CREATE INDEX visit_person ON visit(person_id);
CREATE INDEX person_name ON person(name, city);

SELECT city, count(*), round(avg(score), 3), max(length(note))
	FROM person JOIN visit ON visit.person_id = person.id
	GROUP BY city ORDER BY 2 DESC, 1 LIMIT 5;

SELECT count(*), sum(b.score - a.score)
	FROM person AS a JOIN person AS b ON b.city = a.city AND b.id > a.id AND b.id < a.id + 2000
	WHERE a.id % 3 = 0;

SELECT city, count(*) FROM person WHERE score > (SELECT avg(score) FROM person)
	GROUP BY city HAVING count(*) > 10 ORDER BY sum(score) DESC LIMIT 3;

CREATE TABLE pair AS SELECT a.id AS first, b.id AS second, a.score * b.score AS product
	FROM person AS a JOIN person AS b ON b.id BETWEEN a.id + 1 AND a.id + 8;
CREATE INDEX pair_product ON pair(product);
SELECT count(*), min(product), max(product) FROM pair WHERE product BETWEEN 1e6 AND 2e8;

SELECT length(group_concat(note, ';')) FROM (SELECT note FROM visit ORDER BY place, note);

SELECT sum(length(json_object('id', id, 'place', place, 'tags', json_array(place, upper(note), id % 10)))) FROM visit;

SELECT count(*) FROM visit AS a WHERE printf('%s/%s', a.place, substr(a.note, 3, 9)) LIKE '%ACE%1%OF%';

SELECT count(DISTINCT trim(substr(note, 5)) || place) FROM visit;

UPDATE visit SET note = note || ' again ' || printf('%08d', id) WHERE id % 2 = 0;
DELETE FROM visit WHERE id % 5 = 0;

SELECT sum(length(replace(replace(note, 'JOURNEY', 'trip'), ' again ', '+'))) FROM visit;
