// SPDX-License-Identifier: Apache-2.0
// Threads: who allocates, who frees what others allocated, who leaves memory behind.
import { ask, type Found, selection } from "../api";
import { clear, h } from "../dom";
import { bytes, count, duration, exact, visible } from "../format";
import { VirtualTable } from "../table";
import { go, state } from "../state";
import { addTerm } from "./functions";
import { emptyText, type Export, say, sayError, type View } from "../view";

interface Thread {
	thread: number; tid: number; name: string | null; start_ns: number; end_ns: number | null; allocations: number; allocated_bytes: number;
	frees: number; freed_bytes: number; foreign_frees: number; temporary_allocations: number; unfreed_allocations: number; unfreed_bytes: number;
}

export class Threads implements View {
	name = "threads";
	title = "Threads";
	help = "Figures of each thread. A block belongs to the thread that allocated it.";
	private sort = "allocated";
	private table: VirtualTable<Thread> | null = null;

	async draw(element: HTMLElement): Promise<void> {
		let answer: Found & { threads: Thread[] };
		if (!element.querySelector(".vt")) say(element, "Counting per thread…");
		try {
			answer = await ask("view", "threads", selection());
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		this.build(element, answer.threads);
	}

	private build(element: HTMLElement, threads: Thread[]): void {
		const keys: Record<string, (t: Thread) => number> = {
			allocated: (t) => t.allocated_bytes, allocations: (t) => t.allocations, live: (t) => t.unfreed_bytes,
			temporary: (t) => t.temporary_allocations, frees: (t) => t.frees, foreign: (t) => t.foreign_frees,
		};
		const key = keys[this.sort]!;
		const rows = [...threads].sort((a, b) => key(b) - key(a));
		const most = Math.max(1, ...rows.map(key));
		const number = (name: string, title: string, help: string, text: (t: Thread) => string, raw: (t: Thread) => number) => ({
			key: name, title, help, number: true, wide: name !== "allocated", sortable: true, width: "9em", raw, cell: (t: Thread) => text(t),
			...(this.sort === name ? { share: (t: Thread) => raw(t) / most } : {}),
		});
		const table = new VirtualTable<Thread>({
			label: "Threads", empty: emptyText(), sort: this.sort,
			onSort: (name) => { this.sort = name; this.build(element, threads); },
			tip: (t) => [h("b", {}, `${visible(t.name ?? "(no name)")} ${t.tid}`), h("div", {}, `allocated ${bytes(t.allocated_bytes)} in ${count(t.allocations)} allocations` + (t.allocations ? `, ${bytes(t.allocated_bytes / t.allocations)} on average` : "")),
				h("div", {}, `live at the end ${bytes(t.unfreed_bytes)} in ${count(t.unfreed_allocations)} blocks`), h("div", {}, `freed ${bytes(t.freed_bytes)} in ${count(t.frees)} frees, ${count(t.foreign_frees)} of them of others`),
				h("div", { class: "muted" }, `${exact(t.allocated_bytes)} bytes; began at ${duration(t.start_ns)}`)],
			onSelect: (t) => go({ view: "flame", filter: addTerm(`thread:${t.tid}`) }),
			columns: [
				{ key: "name", title: "thread", raw: (t) => `${t.name ?? ""} ${t.tid}`, cell: (t) => `${visible(t.name ?? "(no name)")}  ${t.tid}` },
				number("allocated", "allocated", "bytes it asked for", (t) => bytes(t.allocated_bytes), (t) => t.allocated_bytes),
				number("allocations", "allocations", "how often", (t) => count(t.allocations), (t) => t.allocations),
				number("live", "live at end", "of what it allocated", (t) => bytes(t.unfreed_bytes), (t) => t.unfreed_bytes),
				number("temporary", "temporary", "freed by its very next step", (t) => count(t.temporary_allocations), (t) => t.temporary_allocations),
				number("frees", "frees", "that it called", (t) => count(t.frees), (t) => t.frees),
				number("foreign", "of others", "frees of blocks that another thread allocated", (t) => count(t.foreign_frees), (t) => t.foreign_frees),
				{ key: "life", wide: true, title: "lived", number: true, width: "8em", cell: (t) => (t.end_ns === null ? "to the end" : duration(t.end_ns - t.start_ns)) },
			],
		});
		table.set(rows);
		this.table = table;
		clear(element, h("p", { class: "muted lead" }, this.help + " A click shows its flame graph."), table.element);
	}

	exports(): Export[] {
		const table = this.table;
		return table ? [{ name: "threads.csv", title: "table (CSV)", make: () => table.csv() }, { name: "threads.json", title: "table (JSON)", make: () => table.json() }] : [];
	}
}
