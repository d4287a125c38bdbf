// SPDX-License-Identifier: Apache-2.0
// Single blocks: their address, life, threads and stacks. Millions of them: the table
// is as long as the server counted, and asks for the pages in sight.
import { ask, edition, type Frame, type Found, isCancelled, selection } from "../api";
import { clear, h } from "../dom";
import { stackList } from "../drawer";
import { bytes, count, duration, exact, moment, percent, visible } from "../format";
import { VirtualTable } from "../table";
import { go, modes, state } from "../state";
import { transforms } from "../transforms";
import { choice, emptyText, type Export, say, sayError, type View } from "../view";

interface Block {
	block: number; address: string | null; bytes: number; birth_ns: number; end_ns: number | null; thread: number; free_thread: number | null;
	stack: number; free_stack: number | null; site: string | null; end_known: boolean; temporary: boolean; reallocated: boolean; next_block: number | null;
}
interface Answer { from_ns: number; to_ns: number; blocks: Block[]; count: number; next_first: number | null; error: string | null }

const PAGE = 500;

export class Blocks implements View {
	name = "blocks";
	title = "Blocks";
	help = "Every single block that matches the filter, in order of allocation: when, how long, by whom, freed by whom.";
	private pages = new Map<number, Block[]>();
	/** By number of the page: the block it begins with, where that is known. */
	private firsts = new Map<number, number>();
	private asked = new Set<number>();
	private total = 0;
	private table: VirtualTable<Block> | null = null;
	private chosen: Block | null = null;
	private detail = h("aside", { class: "neighbours" });
	private note = h("span", { class: "muted", role: "status" });
	private which = "";

	async draw(element: HTMLElement): Promise<void> {
		const which = JSON.stringify([selection(), state.trace, edition]);
		if (which === this.which && this.table?.element.isConnected) return;
		this.which = which;
		this.pages.clear();
		this.asked.clear();
		this.firsts = new Map([[0, 0]]);
		this.chosen = null;
		say(element, "Looking for blocks…");
		const [error, whole] = await Promise.all([this.fetch(0), this.count()]);
		if (state.view !== this.name || which !== this.which) return;
		if (error) {
			this.which = "";
			sayError(element, error);
			return;
		}
		const first = this.pages.get(0)!;
		this.total = first.length < PAGE ? first.length : Math.max(first.length, whole);
		this.build(element);
	}

	private kind(): string {
		return { peak: "allocated", held: "all", live: "live", allocated: "allocated", surviving: "surviving", freed: "freed" }[state.mode];
	}

	/** How many there are in all: from the sums where these can tell. */
	private async count(): Promise<number> {
		try {
			const mode = state.mode === "peak" || state.mode === "held" ? "allocated" : state.mode;
			const found = await ask<Found>("blocks-count", "sites", { ...selection(), mode, limit: 1, stacks: 0 });
			return found.totals[modes[mode].blocks] ?? 0;
		} catch {
			return 0;
		}
	}

	/** A page; the error if there is one. */
	private async fetch(page: number, whole = false): Promise<unknown> {
		this.asked.add(page);
		/* The nearest page before whose begin is known; from there blocks are left out. */
		let near = page;
		while (!this.firsts.has(near)) near--;
		const which = this.which;
		try {
			const answer = await ask<Answer>("blocks-" + page, "blocks", { ...selection(), blocks: this.kind(), first: this.firsts.get(near)!, skip: (page - near) * PAGE, limit: PAGE, ...(whole ? {} : { wait_ms: 100 }) });
			if (which !== this.which) return null;
			if (answer.error) return new Error(answer.error);
			this.pages.set(page, answer.blocks);
			if (answer.next_first !== null) this.firsts.set(page + 1, answer.next_first);
			else this.total = page * PAGE + answer.blocks.length;
			/* The first rows at once; when some of them end, a little later. */
			if (!whole && answer.blocks.some((b) => !b.end_known)) void this.more(page, true);
			return null;
		} catch (error) {
			this.asked.delete(page);
			return isCancelled(error) ? null : error;
		}
	}

	private at(index: number): Block | undefined {
		const page = Math.floor(index / PAGE);
		const rows = this.pages.get(page);
		if (!rows && !this.asked.has(page)) void this.more(page);
		return rows?.[index % PAGE];
	}

	private async more(page: number, whole = false): Promise<void> {
		const error = await this.fetch(page, whole);
		if (error) this.note.textContent = String((error as Error).message);
		if (this.table?.element.isConnected) this.show(true);
	}

	private show(keep: boolean): void {
		this.table!.setSource({ count: this.total, at: (i) => this.at(i) }, keep);
		this.note.textContent = `${count(this.total)} blocks`;
	}

	private build(element: HTMLElement): void {
		const span = Math.max(1e9, ...(this.pages.get(0) ?? []).slice(-1).map((b) => b.birth_ns));
		this.table = new VirtualTable<Block>({
			label: "Blocks", empty: emptyText(),
			onSelect: (row) => { this.chosen = row; void this.drawDetail(); },
			isSelected: (row) => row.block === this.chosen?.block,
			tip: (b) => [h("b", {}, `${bytes(b.bytes)} at ${b.address ?? "an unknown address"}`), h("div", {}, visible(b.site ?? "(no name)")),
				h("div", {}, `allocated at ${moment(b.birth_ns, span)} by thread ${b.thread}, ` + (!b.end_known ? "its end is being looked for" : b.end_ns === null ? "live to the end" : `lived ${duration(b.end_ns - b.birth_ns)}`)),
				h("div", { class: "muted" }, `block ${exact(b.block)}, ${exact(b.bytes)} bytes`)],
			columns: [
				{ key: "block", wide: true, title: "number", number: true, width: "6em", raw: (b) => b.block, cell: (b) => exact(b.block) },
				{ key: "address", title: "address", width: "10.5em", raw: (b) => b.address, cell: (b) => h("code", {}, b.address ?? "–") },
				{ key: "bytes", title: "size", number: true, width: "5.5em", raw: (b) => b.bytes, cell: (b) => bytes(b.bytes) },
				{ key: "birth_ns", wide: true, title: "allocated", number: true, width: "6.5em", raw: (b) => b.birth_ns, cell: (b) => moment(b.birth_ns, span) },
				{ key: "lived_ns", title: "lived", number: true, width: "6em", raw: (b) => (b.end_ns === null ? null : b.end_ns - b.birth_ns), cell: (b) => (!b.end_known ? "…" : b.end_ns === null ? "live" : duration(b.end_ns - b.birth_ns)) },
				{ key: "thread", wide: true, title: "thread", number: true, width: "4.5em", help: "that allocated it → that freed it",
					cell: (b) => (b.free_thread !== null && b.free_thread !== b.thread ? `${b.thread} → ${b.free_thread}` : String(b.thread)) },
				{ key: "site", title: "allocated by", cell: (b) => visible(b.site ?? "(no name)") + (b.temporary ? "  · temporary" : "") + (b.reallocated ? "  · realloc" : "") },
			],
		});
		this.show(false);
		clear(element, this.tools(), h("nav", { class: "crumbs" }, ...transforms()), h("div", { class: "split" }, this.table.element, this.detail));
		void this.drawDetail();
	}

	private tools(): HTMLElement {
		const address = h("input", { type: "search", placeholder: "0x55d0…", "aria-label": "Address", size: 18 });
		const look = (e: Event) => {
			e.preventDefault();
			const text = address.value.trim();
			if (/^0x[0-9a-f]+$/i.test(text)) history_(text);
		};
		return h("div", { class: "tools" },
			choice([["allocated", "allocated in range"], ["live", "live at its end"], ["surviving", "allocated and live"], ["freed", "freed in range"]],
				state.mode === "peak" ? "allocated" : state.mode, (m) => go({ mode: m as "live" }), "Which blocks"),
			h("form", { onsubmit: look }, address, h("button", { class: "small" }, "history of an address")), this.note);
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
			return stackList(found.frames);
		};
		const [made, freed] = await Promise.all([stack(b.stack), stack(b.free_stack)]).catch(() => [null, null]);
		if (this.chosen !== b) return;
		clear(this.detail, h("h2", {}, `${bytes(b.bytes)} at ${b.address ?? "an unknown address"}`),
			h("p", {}, !b.end_known ? "Its end is being looked for." : b.end_ns === null ? "Live to the end." : `Lived ${duration(b.end_ns - b.birth_ns)}.`, b.next_block !== null ? ` A realloc made it block ${exact(b.next_block)}.` : ""),
			b.address && h("p", {}, h("button", { class: "small", onclick: () => history_(b.address!) }, "what else was at this address?")),
			h("h3", {}, `Allocated by thread ${b.thread}`), made,
			freed && h("h3", {}, `Freed by thread ${b.free_thread}`), freed,
			b.end_ns !== null && !freed && h("p", { class: "muted" }, (b.free_thread !== null ? `Freed by thread ${b.free_thread}. ` : "") + "The stack of the free was not recorded: record with --free-stacks."));
	}

	exports(): Export[] {
		const table = this.table;
		const here = [...this.pages.values()].reduce((sum, page) => sum + page.length, 0);
		const part = here < this.total ? `, the ${percent(here, this.total)} that were read` : "";
		return table ? [{ name: "blocks.csv", title: "blocks (CSV)" + part, make: () => table.csv() }, { name: "blocks.json", title: "blocks (JSON)" + part, make: () => table.json() }] : [];
	}
}

function history_(address: string): void {
	go({ filter: `address=${address}`, mode: "allocated", from: null, to: null });
}
