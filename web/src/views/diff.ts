// SPDX-License-Identifier: Apache-2.0
// Two traces, or two ranges of one: what grew and what shrank, as a table and as a
// flame graph. Blue is less, red is more; widths are the larger of both sides.
import { ask, type Figures, type Found, selection, type TraceEntry } from "../api";
import { clear, color, download, fitCanvas, h, showTip } from "../dom";
import { middle, moment, percent } from "../format";
import { VirtualTable } from "../table";
import { figure, go, state } from "../state";
import { costTitle, emptyText, exactValue, say, sayError, value, type View } from "../view";

interface DiffRow { function: string; state: string; before: Figures; after: Figures }
interface DiffTree { function: string[]; parent: number[]; before: number[]; after: number[]; left_out: number }
interface Answer { order: string; before: Found; after: Found; rows: DiffRow[]; count: number; tree: DiffTree }
interface Box { node: number; x: number; w: number; depth: number }

const ROW = 19;

export class Diff implements View {
	name = "diff";
	title = "Diff";
	help = "What changed against another trace, or another range of this one. Blue is less, red is more.";
	private answer: Answer | null = null;
	private canvas = h("canvas", { class: "flame", role: "img", "aria-label": "Flame graph of the differences; the table has the same" });
	private rows: Box[][] = [];
	private observer = new ResizeObserver(() => this.paint());
	private table: VirtualTable<DiffRow> | null = null;

	constructor(private traces: () => TraceEntry[]) {
		this.canvas.addEventListener("pointermove", (e) => this.move(e));
		this.canvas.addEventListener("pointerleave", () => showTip(null));
	}

	async draw(element: HTMLElement): Promise<void> {
		if (!state.with && state.baseFrom === null && state.baseTo === null) {
			clear(element, this.tools(), h("div", { class: "empty" }, h("p", {}, "Compare with what?"),
				h("p", {}, "Choose another trace above; or select a range on the timeline, make it the base, and select another.")));
			return;
		}
		const params: Record<string, string | number> = { ...selection(), order: figure(), limit: 2000, nodes: 8000 };
		if (state.with) params.with = state.with;
		if (state.baseFrom !== null) params.base_from = state.baseFrom / 1e9 + "s";
		if (state.baseTo !== null) params.base_to = state.baseTo / 1e9 + "s";
		if (!this.answer) say(element, "Comparing…");
		let answer: Answer;
		try {
			answer = await ask<Answer>("view", "diff", params);
		} catch (error) {
			sayError(element, error);
			element.prepend(this.tools());
			return;
		}
		if (state.view !== this.name) return;
		this.answer = answer;
		this.build(element);
	}

	leave(): void {
		this.observer.disconnect();
		showTip(null);
	}

	private tools(): HTMLElement {
		const others = this.traces().filter((t) => t.id !== state.trace);
		const pick = h("select", { "aria-label": "Compare with", onchange: () => go({ with: pick.value }) },
			h("option", { value: "" }, "this trace"), ...others.map((t) => h("option", { value: t.id }, t.name)));
		pick.value = state.with;
		const base = state.baseFrom !== null || state.baseTo !== null;
		return h("div", { class: "tools" }, h("label", {}, "compare with ", pick),
			h("button", { class: "small", disabled: state.from === null && state.to === null, title: "select a range on the timeline first",
				onclick: () => go({ baseFrom: state.from, baseTo: state.to, from: null, to: null }) }, "selected range is the base"),
			base && h("button", { class: "chip on", title: "drop it", onclick: () => go({ baseFrom: null, baseTo: null }) },
				`base: ${moment(state.baseFrom ?? 0, 1e10)} – ${state.baseTo === null ? "end" : moment(state.baseTo, 1e10)} ✕`),
			this.table && h("button", { class: "small", onclick: () => download("diff.csv", new Blob([this.table!.csv()], { type: "text/csv" })) }, "CSV"),
			h("span", { class: "legend" }, h("i", { class: "swatch less" }), "less ", h("i", { class: "swatch more" }), "more"));
	}

	private build(element: HTMLElement): void {
		const a = this.answer!, order = a.order;
		const before = a.before.totals[order] ?? 0, after = a.after.totals[order] ?? 0;
		const change = (r: DiffRow) => r.after[order]! - r.before[order]!;
		const most = Math.max(1, ...a.rows.map((r) => Math.abs(change(r))));
		const signed = (v: number) => (v > 0 ? "+" : "") + value(v);
		this.table = new VirtualTable<DiffRow>({
			label: "Differences by site", empty: "No difference." + (state.filter ? " " + emptyText() : ""),
			onSelect: (row) => go({ fn: row.function }, false), isSelected: (row) => state.fn !== "" && row.function === state.fn,
			columns: [
				{ key: "change", title: "change", number: true, width: "10em", share: (r) => Math.abs(change(r)) / most,
					cell: (r) => h("span", { class: change(r) > 0 ? "more" : change(r) < 0 ? "less" : "", title: exactValue(change(r)) }, signed(change(r))) },
				{ key: "relative", title: "relative", number: true, width: "7em", cell: (r) => (r.before[order] ? percent(change(r), r.before[order]!) : r.state) },
				{ key: "before", title: "before", number: true, width: "8em", cell: (r) => value(r.before[order]!) },
				{ key: "after", title: "after", number: true, width: "8em", cell: (r) => value(r.after[order]!) },
				{ key: "state", title: "", width: "5em", cell: (r) => r.state },
				{ key: "name", title: "allocated by", cell: (r) => r.function },
			],
		});
		this.table.set(a.rows.filter((r) => r.before[order] !== r.after[order]));
		clear(element, this.tools(),
			h("p", { class: "lead" }, h("b", {}, `${value(before)} → ${value(after)}`), ` (${signed(after - before)}${before ? ", " + percent(after - before, before) : ""}) ${costTitle()}`),
			h("div", { class: "diff-split" }, h("div", { class: "flame-scroll" }, this.canvas), this.table.element));
		this.observer.observe(this.canvas.parentElement!);
		this.layout();
	}

	private layout(): void {
		const t = this.answer!.tree;
		const size = (i: number) => Math.max(t.before[i]!, t.after[i]!);
		const n = t.parent.length;
		const children: number[][] = Array.from({ length: n }, () => []);
		for (let i = 1; i < n; i++) children[t.parent[i]!]!.push(i);
		this.rows = [];
		const stack: Box[] = [{ node: 0, x: 0, w: 1, depth: 0 }];
		while (stack.length) {
			const box = stack.pop()!;
			(this.rows[box.depth] ??= []).push(box);
			/* The larger sides of children can add up to more than the parent's: they are scaled then. */
			const sum = children[box.node]!.reduce((s, c) => s + size(c), 0);
			const whole = Math.max(size(box.node), sum);
			let x = box.x;
			for (const child of children[box.node]!) {
				const w = whole ? (box.w * size(child)) / whole : 0;
				stack.push({ node: child, x, w, depth: box.depth + 1 });
				x += w;
			}
		}
		this.rows.forEach((row) => row.sort((p, q) => p.x - q.x));
		this.canvas.style.height = (this.rows.length + 1) * ROW + "px";
		this.paint();
	}

	private shade(node: number): string {
		const t = this.answer!.tree;
		const before = t.before[node]!, after = t.after[node]!;
		const share = Math.max(before, after) ? (after - before) / Math.max(before, after) : 0;
		if (Math.abs(share) < 0.01) return color("root");
		const dark = matchMedia("(prefers-color-scheme: dark)").matches;
		const strength = 0.25 + 0.75 * Math.abs(share);
		const light = dark ? 30 + 14 * strength : 92 - 30 * strength;
		return share > 0 ? `hsl(12 70% ${light}%)` : `hsl(212 70% ${light}%)`;
	}

	private label(node: number): string {
		return node ? this.answer!.tree.function[node]! : "everything";
	}

	private paint(): void {
		if (!this.answer || !this.canvas.isConnected) return;
		const { ctx, width, height } = fitCanvas(this.canvas);
		ctx.clearRect(0, 0, width, height);
		ctx.font = "12px system-ui, sans-serif";
		ctx.textBaseline = "middle";
		const letter = ctx.measureText("n").width;
		for (const row of this.rows)
			for (const box of row) {
				const wide = box.w * width;
				if (wide < 0.7) continue;
				ctx.fillStyle = this.shade(box.node);
				ctx.fillRect(box.x * width, box.depth * ROW, Math.max(0.5, wide - 0.6), ROW - 1);
				const chars = Math.floor((wide - 6) / letter);
				if (chars >= 3) {
					ctx.fillStyle = color("flame-text");
					ctx.fillText(middle(this.label(box.node), chars), box.x * width + 3, box.depth * ROW + ROW / 2, wide - 4);
				}
			}
	}

	private move(event: PointerEvent): void {
		const place = this.canvas.getBoundingClientRect();
		const row = this.rows[Math.floor((event.clientY - place.top) / ROW)] ?? [];
		const x = (event.clientX - place.left) / place.width;
		const box = row.find((b) => x >= b.x && x < b.x + b.w);
		if (!box) {
			showTip(null);
			return;
		}
		const t = this.answer!.tree, before = t.before[box.node]!, after = t.after[box.node]!;
		showTip([h("b", {}, this.label(box.node)), h("div", {}, `${value(before)} → ${value(after)}`),
			h("div", { class: "muted" }, `${after >= before ? "+" : ""}${value(after - before)}${before ? ", " + percent(after - before, before) : ", new"}`)], event.clientX, event.clientY);
	}
}
