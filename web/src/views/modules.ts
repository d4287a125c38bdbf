// SPDX-License-Identifier: Apache-2.0
// Modules: the files with code, and how much memory is asked for from within each.
import { ask, type Row, selection, type Table } from "../api";
import { clear, h } from "../dom";
import { base, bytes, percent, visible } from "../format";
import { VirtualTable } from "../table";
import { figure, go, state } from "../state";
import { addTerm } from "./functions";
import { costTitle, emptyText, type Export, rowTip, say, sayError, value, type View } from "../view";

interface Module { path: string; start: string; bytes: number; build_id: string | null; mapped_ns: number; unmapped_ns: number | null }

export class Modules implements View {
	name = "modules";
	title = "Modules";
	help = "The program and its libraries: what was asked for from within each.";

	private table: VirtualTable<Row> | null = null;

	async draw(element: HTMLElement): Promise<void> {
		let table: Table, list: { modules: Module[] };
		if (!element.querySelector(".vt")) say(element, "Loading…");
		try {
			[table, list] = await Promise.all([
				ask<Table>("view", "functions", { ...selection(), order: figure(), group: "module", limit: 5000, stacks: 0 }),
				ask<{ modules: Module[] }>("modules", "modules")]);
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		const order = figure(), whole = table.totals[order] ?? 0;
		const facts = new Map(list.modules.map((m) => [m.path, m]));
		const view = new VirtualTable<Row>({
			label: "Modules", empty: emptyText(), tip: (row) => [...rowTip(visible(row.module ?? "(no name)"), row.self!, whole, order), h("div", { class: "muted" }, `inclusive ${value(row.inclusive![order] ?? 0)}`)],
			onSelect: (row) => row.module && go({ view: "flame", filter: addTerm(`module:"${base(row.module)}"`) }),
			columns: [
				{ key: "self", title: "itself", help: costTitle(), number: true, width: "11em", share: (r) => (r.self![order] ?? 0) / (whole || 1),
					raw: (r) => r.self![order] ?? 0, cell: (r) => h("span", {}, value(r.self![order]!), h("span", { class: "muted share" }, percent(r.self![order]!, whole))) },
				{ key: "inclusive", wide: true, title: "inclusive", number: true, width: "9em", raw: (r) => r.inclusive![order] ?? 0, cell: (r) => value(r.inclusive![order]!) },
				{ key: "size", wide: true, title: "mapped", number: true, width: "7em", cell: (r) => (facts.get(r.module ?? "") ? bytes(facts.get(r.module!)!.bytes) : "") },
				{ key: "name", title: "module", cell: (r) => visible(r.module ?? "(no name)") },
				{ key: "id", wide: true, title: "build-id", width: "12em", cell: (r) => h("code", {}, (facts.get(r.module ?? "")?.build_id ?? "").slice(0, 16)) },
			],
		});
		view.set(table.rows);
		this.table = view;
		clear(element, h("p", { class: "muted lead" }, this.help + " A click shows only its paths."), view.element);
	}

	exports(): Export[] {
		const table = this.table;
		return table ? [{ name: "modules.csv", title: "table (CSV)", make: () => table.csv() }, { name: "modules.json", title: "table (JSON)", make: () => table.json() }] : [];
	}
}
