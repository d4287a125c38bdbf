// SPDX-License-Identifier: Apache-2.0
// Flat: functions (or lines, packages, modules, allocators) beside each other, and
// the callers, callees and lines of the selected one.
import { ask, edition, type FigureRow, type Figures, type Row, selection, type Table } from "../api";
import { clear, h } from "../dom";
import { bytes, count, percent, visible } from "../format";
import { openSource } from "./source";
import { VirtualTable } from "../table";
import { figure, go, modes, state } from "../state";
import { explain } from "../tip";
import { transforms } from "../transforms";
import { choice, costTitle, emptyText, exactValue, type Export, functionTerm, name, place, rowTip, say, sayError, value, type View, workText } from "../view";

interface Detail { functions: FigureRow[]; self: Figures; inclusive: Figures; callers: FigureRow[]; callees: FigureRow[]; lines: FigureRow[] }

export class Functions implements View {
	name = "functions";
	title = "Functions";
	help = "Every function on its own: inclusive is what its calls lead to, self what it asked for itself.";
	private table: VirtualTable<Row> | null = null;
	private answer: Table | null = null;
	private detail = h("aside", { class: "neighbours" });
	private drawn = "";

	async draw(element: HTMLElement): Promise<void> {
		const params = { ...selection(), order: figure(), group: state.group, limit: 5000, stacks: 0,
			...(state.sort ? { sort: state.sort } : {}), ...(state.search ? { search: state.search } : {}) };
		const asked = JSON.stringify([params, state.trace, edition]);
		if (asked !== this.drawn || !this.table?.element.isConnected) {
			if (!this.table?.element.isConnected) say(element, workText());
			try {
				this.answer = await ask<Table>("view", "functions", params);
			} catch (error) {
				sayError(element, error);
				return;
			}
			if (state.view !== this.name) return;
			this.drawn = asked;
			this.build(element);
		}
		this.table!.draw();
		void this.drawDetail();
	}

	private build(element: HTMLElement): void {
		const order = figure(), pair = modes[state.mode], whole = this.answer!.totals[order] ?? 0;
		this.table = new VirtualTable<Row>({
			label: "Functions", empty: emptyText(), sort: state.sort || "figure", onSort: (key) => go({ sort: key === "figure" ? "" : key }, false),
			onSelect: (row) => row.function && go({ fn: row.function, ...(row.file && row.line ? { file: row.file, line: row.line } : {}) }, false), isSelected: (row) => state.fn !== "" && row.function === state.fn,
			tip: (row) => [...rowTip(name(row), row.inclusive!, whole, order), h("div", { class: "muted" }, `itself ${value(row.self![order] ?? 0)} ${place(row)}`)],
			onKey: (key, row) => key === "p" && !!row.function && (go({ view: "flame", pivot: row.function, fn: row.function, path: "" }), true),
			columns: [
				{ key: "figure", title: "inclusive", help: costTitle(), number: true, width: "10.5em", sortable: true, raw: (r) => r.inclusive![order] ?? 0, share: (r) => (r.inclusive![order] ?? 0) / (whole || 1),
					cell: (r) => h("span", { title: exactValue(r.inclusive![order]!) }, value(r.inclusive![order]!), h("span", { class: "muted share" }, percent(r.inclusive![order]!, whole))) },
				{ key: "self", wide: true, title: "self", number: true, width: "8em", sortable: true, raw: (r) => r.self![order] ?? 0, help: "what it asked for itself", cell: (r) => (r.self![order] ? value(r.self![order]!) : "") },
				{ key: "blocks", wide: true, title: state.cost === "bytes" ? "blocks" : "bytes", number: true, width: "7em", raw: (r) => r.inclusive![state.cost === "bytes" ? pair.blocks : pair.bytes] ?? 0,
					cell: (r) => (state.cost === "bytes" ? count(r.inclusive![pair.blocks]!) : bytes(r.inclusive![pair.bytes]!)) },
				{ key: "average", wide: true, title: "average", number: true, width: "7em", sortable: true, help: "bytes per block",
					cell: (r) => (r.inclusive![pair.blocks] ? bytes(r.inclusive![pair.bytes]! / r.inclusive![pair.blocks]!) : "") },
				{ key: "name", title: state.group, sortable: true, cell: (r) => h("span", {}, name(r)) },
			],
		});
		this.table.set(this.answer!.rows);
		const split = h("div", { class: "split" }, this.table.element, this.detail);
		clear(element, this.tools(), h("nav", { class: "crumbs" }, ...transforms()), split);
	}

	private tools(): HTMLElement {
		return h("div", { class: "tools" },
			choice([["function", "functions"], ["line", "lines"], ["package", "packages"], ["module", "modules"], ["allocator", "allocators"], ["heap", "heaps"], ["tag", "tags"], ["process", "processes"]], state.group, (g) => go({ group: g }), "Group by"),
			h("input", { type: "search", placeholder: "search ( / )", value: state.search, "aria-label": "Search", onchange: (e: Event) => go({ search: (e.target as HTMLInputElement).value }, false) }),
			h("span", { class: "muted" }, `${count(this.answer!.count)} rows`));
	}

	exports(): Export[] {
		const table = this.table;
		return table ? [{ name: `${plural()}.csv`, title: "table (CSV)", make: () => table.csv() }, { name: `${plural()}.json`, title: "table (JSON)", make: () => table.json() }] : [];
	}

	private async drawDetail(): Promise<void> {
		if (!state.fn) {
			clear(this.detail, h("div", { class: "empty" }, "Choose a function to see its callers, callees and lines."));
			return;
		}
		const order = figure();
		let found: Detail;
		try {
			found = await ask<Detail>("detail", "function", { ...selection(), order, name: state.fn, limit: 200 });
		} catch (error) {
			sayError(this.detail, error);
			return;
		}
		const whole = found.inclusive[order] ?? 0;
		const block = (title: string, rows: FigureRow[], nobody: string, byLine = false) => h("section", {}, h("h3", {}, title),
			...rows.filter((r) => r[order]).slice(0, 60).map((row) => {
				const bar = h("span", { class: "bar" });
				bar.style.width = (whole ? (row[order]! / whole) * 100 : 0) + "%";
				const text = byLine ? place(row) || "line unknown" : row.function || row.module ? name(row) : nobody;
				return explain(h("button", { class: "top-row", onclick: () => {
						if (byLine && row.file) openSource(row.file, row.line);
						else if (row.function) go({ fn: row.function });
					} },
					bar, h("span", { class: "top-name" }, text), h("span", { class: "top-value" }, value(row[order]!), h("span", { class: "muted share" }, percent(row[order]!, whole)))), () => rowTip(text, row, whole, order));
			}));
		clear(this.detail,
			h("h2", {}, visible(state.fn)),
			h("p", {}, `${value(whole)} inclusive, ${value(found.self[order] ?? 0)} itself`),
			h("p", { class: "drawer-ways" }, h("button", { class: "small", onclick: () => go({ view: "flame", pivot: state.fn, path: "" }) }, "pivot"),
				h("button", { class: "small", onclick: () => go({ view: "flame", filter: addTerm(functionTerm(state.fn)), path: "" }) }, "only paths through it"),
				h("button", { class: "small", onclick: () => go({ view: "blocks", filter: addTerm(functionTerm(state.fn)) }) }, "its blocks")),
			block("Callers", found.callers, "nobody: the stack begins here"),
			block("Callees", found.callees, "itself: it called the allocator"),
			block("Lines", found.lines, "", true));
	}
}

function plural(): string {
	return state.group + (state.group === "process" ? "es" : "s");
}

export function addTerm(term: string): string {
	return state.filter ? `(${state.filter}) and ${term}` : term;
}
