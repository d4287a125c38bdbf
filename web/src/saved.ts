// SPDX-License-Identifier: Apache-2.0
// The page as one file: answers to what it asks about the whole run stand in the
// document (src/server/saved.c). Rows come with all figures and are sorted here.
import type { Row, Table } from "./api";

type Params = Record<string, string | number | boolean>;

const element = document.getElementById("tidemark-saved");
const answers: Record<string, unknown> | null = element ? JSON.parse(element.textContent ?? "{}") : null;

export const isSaved = answers !== null;

function keyOf(what: string, params: Params): string | null {
	if (params.from || params.to || params.filter || params.fold || params.path || params.pivot || params.search || params.fine || params.mode === "held" || (params.merge && params.merge !== "function")) return null;
	switch (what) {
		case "timeline": return params.top ? `timeline by=${params.by}` : "timeline";
		case "tree": return `tree direction=${params.direction} order=${params.order}`;
		case "functions": return `functions group=${params.group}`;
		case "function": return `function name=${params.name}`;
		default: return what;
	}
}

function figureOf(row: Row, order: string): number {
	const flat = row as unknown as Record<string, number>;
	return row.inclusive ? row.inclusive[order]! : flat[order]!;
}

function sorted(table: Table, params: Params): Table {
	const order = String(params.order);
	const rows = table.rows.filter((row) => figureOf(row, order) > 0).sort((a, b) => figureOf(b, order) - figureOf(a, order));
	return { ...table, order, rows: rows.slice(0, Number(params.limit ?? rows.length)) };
}

const made = new Map<string, unknown>();

/** The answer, or null: it is not in this file. */
export function savedAnswer(what: string, params: Params): unknown {
	const key = keyOf(what, params);
	const found = key === null ? undefined : answers?.[key];
	if (found === undefined) return null;
	if (what !== "functions" && what !== "sites") return found;
	const name = `${key} ${params.order} ${params.limit}`;
	if (!made.has(name)) made.set(name, sorted(found as Table, params));
	return made.get(name);
}
