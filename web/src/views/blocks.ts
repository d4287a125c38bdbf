// SPDX-License-Identifier: Apache-2.0
// Single blocks, a page at a time as one scrolls: their address, life, threads and stacks.
import { ask, type Frame, selection } from "../api";
import { clear, download, h } from "../dom";
import { bytes, duration, exact, moment } from "../format";
import { VirtualTable } from "../table";
import { go, state } from "../state";
import { choice, emptyText, frameName, place, say, sayError, type View } from "../view";

interface Block {
	block: number; address: string | null; bytes: number; birth_ns: number; end_ns: number | null; thread: number; free_thread: number | null;
	stack: number; free_stack: number | null; site: string | null; temporary: boolean; reallocated: boolean; next_block: number | null;
}
interface Answer { from_ns: number; to_ns: number; blocks: Block[]; count: number; next_first: number | null; error: string | null }

const PAGE = 500;

export class Blocks implements View {
	name = "blocks";
	title = "Blocks";
	help = "Every single block that matches the filter, in order of allocation.";
	private rows: Block[] = [];
	private next: number | null = 0;
	private busy = false;
	private table: VirtualTable<Block> | null = null;
	private chosen: Block | null = null;
	private detail = h("aside", { class: "neighbours" });
	private which = "";

	async draw(element: HTMLElement): Promise<void> {
		const which = JSON.stringify([selection(), state.trace, state.group]);
		if (which === this.which && this.table?.element.isConnected) return;
		this.which = which;
		this.rows = [];
		this.next = 0;
		this.chosen = null;
		say(element, "Looking for blocks…");
		const error = await this.more();
		if (state.view !== this.name) return;
		if (error) {
			this.which = "";
			sayError(element, error);
			return;
		}
		this.build(element);
	}

	private kind(): string {
		return { peak: "allocated", live: "live", allocated: "allocated", surviving: "surviving", freed: "freed" }[state.mode];
	}

	/** The next page; the error if there is one. */
	private async more(): Promise<unknown> {
		if (this.busy || this.next === null) return null;
		this.busy = true;
		try {
			const params: Record<string, string | number> = { ...selection(), blocks: this.kind(), first: this.next, limit: PAGE };
			const answer = await ask<Answer>("view", "blocks", params);
			if (answer.error) return new Error(answer.error);
			this.rows = this.rows.concat(answer.blocks);
			this.next = answer.next_first;
			return null;
		} catch (error) {
			return error;
		} finally {
			this.busy = false;
		}
	}

	private build(element: HTMLElement): void {
		const span = this.rows.length ? this.rows[this.rows.length - 1]!.birth_ns : 1e9;
		this.table = new VirtualTable<Block>({
			label: "Blocks", empty: emptyText(),
			onEnd: () => void this.grow(),
			onSelect: (row) => { this.chosen = row; void this.drawDetail(); },
			isSelected: (row) => row.block === this.chosen?.block,
			columns: [
				{ key: "block", title: "number", number: true, width: "7em", cell: (b) => exact(b.block) },
				{ key: "address", title: "address", width: "10.5em", cell: (b) => h("code", {}, b.address ?? "–") },
				{ key: "bytes", title: "size", number: true, width: "7em", cell: (b) => h("span", { title: exact(b.bytes) + " bytes" }, bytes(b.bytes)) },
				{ key: "birth", title: "allocated", number: true, width: "8em", cell: (b) => moment(b.birth_ns, span) },
				{ key: "life", title: "lived", number: true, width: "8em", cell: (b) => (b.end_ns === null ? "live" : duration(b.end_ns - b.birth_ns)) },
				{ key: "thread", title: "thread", number: true, width: "6em", help: "that allocated it → that freed it",
					cell: (b) => (b.free_thread !== null && b.free_thread !== b.thread ? `${b.thread} → ${b.free_thread}` : String(b.thread)) },
				{ key: "site", title: "allocated by", cell: (b) => (b.site ?? "(no name)") + (b.temporary ? "  · temporary" : "") + (b.reallocated ? "  · realloc" : "") },
			],
		});
		this.table.set(this.rows);
		clear(element, this.tools(), h("div", { class: "split" }, this.table.element, this.detail));
		void this.drawDetail();
	}

	private async grow(): Promise<void> {
		const before = this.rows.length;
		if (this.next === null || this.busy) return;
		await this.more();
		if (this.rows.length > before && this.table?.element.isConnected) {
			const top = this.table.element.scrollTop;
			this.table.set(this.rows);
			this.table.element.scrollTop = top;
		}
	}

	private tools(): HTMLElement {
		const address = h("input", { type: "search", placeholder: "0x55d0…", "aria-label": "Address", size: 18 });
		const look = (e: Event) => {
			e.preventDefault();
			const text = address.value.trim();
			if (/^0x[0-9a-f]+$/i.test(text)) go({ filter: `address=${text}`, mode: "allocated" });
		};
		return h("div", { class: "tools" },
			choice([["allocated", "allocated in range"], ["live", "live at its end"], ["surviving", "allocated and live"], ["freed", "freed in range"]],
				state.mode === "peak" ? "allocated" : state.mode, (m) => go({ mode: m as "live" }), "Which blocks"),
			h("form", { onsubmit: look }, address, h("button", { class: "small" }, "history of an address")),
			h("button", { class: "small", onclick: () => download("blocks.csv", new Blob([this.table!.csv()], { type: "text/csv" })) }, "CSV"));
	}

	private async drawDetail(): Promise<void> {
		const b = this.chosen;
		if (!b) {
			clear(this.detail, h("div", { class: "empty" }, "Choose a block to see its stacks."));
			return;
		}
		const stack = async (id: number | null) => {
			if (id === null) return null;
			const found = await ask<{ frames: Frame[] }>("stack" + id, "stacks/" + id);
			return h("ol", { class: "stack" }, ...found.frames.map((f) => h("li", { class: "kind-" + f.kind }, frameName(f), h("div", { class: "muted" }, place(f) || f.module))));
		};
		const [made, freed] = await Promise.all([stack(b.stack), stack(b.free_stack)]);
		if (this.chosen !== b) return;
		clear(this.detail, h("h2", {}, `${bytes(b.bytes)} at ${b.address ?? "an unknown address"}`),
			h("p", {}, b.end_ns === null ? "Live to the end." : `Lived ${duration(b.end_ns - b.birth_ns)}.`, b.next_block !== null ? ` A realloc made it block ${exact(b.next_block)}.` : ""),
			h("h3", {}, `Allocated by thread ${b.thread}`), made,
			freed && h("h3", {}, `Freed by thread ${b.free_thread}`), freed,
			b.end_ns !== null && !freed && h("p", { class: "muted" }, "The stack of the free was not recorded: record with --free-stacks."));
	}
}
