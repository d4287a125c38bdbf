// SPDX-License-Identifier: Apache-2.0
// Two traces, or two ranges of one: what grew and what shrank, as a table and as a
// flame graph. Blue is less, red is more; widths are the larger of both sides.
import { ask, type Figures, type Found, type Frame, selection, type TraceEntry } from "../api";
import { type Child, clear, color, fitCanvas, h } from "../dom";
import { middle, moment, percent, visible } from "../format";
import { VirtualTable } from "../table";
import { figure, go, state } from "../state";
import { type Pen, pngOf, SvgPen } from "../svg";
import { hideTip, showTip } from "../tip";
import { choice, costTitle, emptyText, exactValue, type Export, frameName, say, sayError, value, type View } from "../view";

interface DiffRow { function: string; state: string; before: Figures; after: Figures; frames?: Frame[] }
interface DiffTree { function: string[]; parent: number[]; before: number[]; after: number[]; left_out: number }
interface Answer { order: string; before: Found; after: Found; rows: DiffRow[]; count: number; tree: DiffTree }
interface Box { node: number; x: number; w: number; depth: number }

const ROW = 19, CALLERS = 6;
/** What a row can stand for: as the server calls it, on the button, above the names. */
const groups: Array<[string, string, string]> = [["", "sites", "allocated by"], ["stack", "stacks", "stack, the allocating function first"], ["function", "functions", "function, with all it calls"],
	["line", "lines", "line, with all it calls"], ["package", "packages", "package"], ["module", "modules", "module"]];

export class Diff implements View {
	name = "diff";
	title = "Diff";
	help = "What changed against another trace, or another range of this one. Blue is less, red is more; a box is as wide as the larger of both sides.";
	private answer: Answer | null = null;
	private canvas = h("canvas", { class: "flame", tabindex: 0, role: "img", "aria-label": "Flame graph of the differences; the table has the same. Arrow keys walk in it." });
	private space = h("div", {});
	private scroll = h("div", { class: "flame-scroll" }, this.canvas, this.space);
	private rows: Box[][] = [];
	private focus: Box | null = null;
	private largest = 0; // change of a node
	private observer = new ResizeObserver(() => this.fit());
	private table: VirtualTable<DiffRow> | null = null;

	constructor(private traces: () => TraceEntry[]) {
		this.canvas.addEventListener("pointermove", (e) => this.move(e));
		this.canvas.addEventListener("pointerleave", hideTip);
		this.canvas.addEventListener("click", (e) => this.choose(this.at(e)));
		this.canvas.addEventListener("keydown", (e) => this.key(e));
		this.scroll.addEventListener("scroll", () => this.paint(), { passive: true });
	}

	async draw(element: HTMLElement): Promise<void> {
		if (!state.with && state.baseFrom === null && state.baseTo === null) {
			this.answer = null;
			clear(element, this.tools(), h("div", { class: "empty" }, h("p", {}, "Compare with what?"),
				h("p", {}, "Choose another trace above; or select a range on the timeline, make it the base, and select another.")));
			return;
		}
		const params: Record<string, string | number> = { ...selection(), order: figure(), limit: 2000, nodes: 8000, group: state.rows || "site" };
		if (state.with) params.with = state.with;
		if (state.baseFrom !== null) params.base_from = state.baseFrom / 1e9 + "s";
		if (state.baseTo !== null) params.base_to = state.baseTo / 1e9 + "s";
		if (!this.table?.element.isConnected) say(element, "Comparing…");
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
			h("option", { value: "" }, "this trace"), ...others.map((t) => h("option", { value: t.id }, visible(t.name))));
		pick.value = state.with;
		const base = state.baseFrom !== null || state.baseTo !== null;
		return h("div", { class: "tools" }, h("label", {}, "compare with ", pick),
			h("button", { class: "small", disabled: state.from === null && state.to === null, title: "select a range on the timeline first",
				onclick: () => go({ baseFrom: state.from, baseTo: state.to, from: null, to: null }) }, "selected range is the base"),
			base && h("button", { class: "chip on", title: "drop it", onclick: () => go({ baseFrom: null, baseTo: null }) },
				`base: ${moment(state.baseFrom ?? 0, 1e10)} – ${state.baseTo === null ? "end" : moment(state.baseTo, 1e10)} ✕`),
			choice([["", "all"], ["grew", "grew"], ["shrank", "shrank"], ["new", "new"], ["gone", "vanished"]], state.change, (c) => go({ change: c }, false), "Which differences"),
			choice(groups.map(([key, title]) => [key, title]), state.rows, (rows) => go({ rows, sort: "" }, false), "Rows of the table"),
			choice([["", "relative"], ["absolute", "absolute"]], state.shade, (shade) => go({ shade }, false), "Colours by"),
			h("span", { class: "legend" }, h("i", { class: "swatch less" }), "less ", h("i", { class: "swatch more" }), state.shade ? "more, against the largest change" : "more, against the larger side"));
	}

	private wanted(row: DiffRow): boolean {
		const before = row.before[this.answer!.order]!, after = row.after[this.answer!.order]!;
		switch (state.change) {
			case "grew": return after > before;
			case "shrank": return after < before;
			case "new": return !before && after > 0;
			case "gone": return before > 0 && !after;
			default: return before !== after;
		}
	}

	private build(element: HTMLElement): void {
		const a = this.answer!, order = a.order;
		const before = a.before.totals[order] ?? 0, after = a.after.totals[order] ?? 0;
		const change = (r: DiffRow) => r.after[order]! - r.before[order]!;
		const relative = (r: DiffRow) => (r.before[order] ? change(r) / r.before[order]! : change(r) ? Infinity : 0);
		const rows = a.rows.filter((r) => this.wanted(r));
		const sorts: Record<string, (p: DiffRow, q: DiffRow) => number> = {
			change: (p, q) => Math.abs(change(q)) - Math.abs(change(p)), relative: (p, q) => relative(q) - relative(p),
			before: (p, q) => q.before[order]! - p.before[order]!, after: (p, q) => q.after[order]! - p.after[order]!, name: (p, q) => p.function.localeCompare(q.function),
		};
		const sort = state.sort in sorts ? state.sort : "change";
		rows.sort(sorts[sort]);
		const most = Math.max(1, ...rows.map((r) => Math.abs(change(r))));
		this.table = new VirtualTable<DiffRow>({
			label: "Differences by " + (state.rows || "site"), empty: "No difference of this kind." + (state.filter ? " " + emptyText() : ""), sort, onSort: (key) => go({ sort: key === "change" ? "" : key }, false),
			onSelect: (row) => go({ fn: row.function }, false), isSelected: (row) => state.fn !== "" && row.function === state.fn,
			tip: (r) => [...this.tipLines(visible(r.function), r.before[order]!, r.after[order]!, Math.hypot(r.before[order + "_error"] ?? 0, r.after[order + "_error"] ?? 0)), ...(r.frames ?? []).slice(0, 24).map((f) => h("div", { class: "muted" }, frameName(f)))],
			columns: [
				{ key: "change", title: "change", number: true, width: "10em", sortable: true, share: (r) => Math.abs(change(r)) / most, raw: change,
					cell: (r) => h("span", { class: change(r) > 0 ? "more" : change(r) < 0 ? "less" : "" }, signed(change(r))) },
				{ key: "relative", title: "relative", number: true, width: "7em", sortable: true, raw: (r) => (r.before[order] ? relative(r) : null), cell: (r) => (r.before[order] ? (change(r) > 0 ? "+" : "") + percent(change(r), r.before[order]!) : "–") },
				{ key: "before", wide: true, title: "before", number: true, width: "8em", sortable: true, raw: (r) => r.before[order]!, cell: (r) => value(r.before[order]!) },
				{ key: "after", wide: true, title: "after", number: true, width: "8em", sortable: true, raw: (r) => r.after[order]!, cell: (r) => value(r.after[order]!) },
				{ key: "state", wide: true, title: "", width: "6em", cell: (r) => r.state },
				{ key: "name", title: groups.find(([key]) => key === state.rows)?.[2] ?? groups[0]![2], sortable: true, raw: (r) => (r.frames ? r.frames.map(frameName).join(" < ") : r.function), cell: (r) => nameOf(r) },
			],
		});
		this.table.set(rows);
		clear(element, this.tools(),
			h("p", { class: "lead" }, h("b", {}, `${value(before)} → ${value(after)}`), ` (${signed(after - before)}${before ? ", " + percent(after - before, before) : ""}) ${costTitle()}`),
			h("div", { class: "diff-split" }, this.scroll, this.table.element));
		this.observer.observe(this.scroll);
		this.layout();
	}

	private layout(): void {
		const t = this.answer!.tree;
		const size = (i: number) => Math.max(t.before[i]!, t.after[i]!);
		const n = t.parent.length;
		const children: number[][] = Array.from({ length: n }, () => []);
		for (let i = 1; i < n; i++) children[t.parent[i]!]!.push(i);
		this.largest = t.before.reduce((most, before, i) => Math.max(most, Math.abs(t.after[i]! - before)), 0);
		this.rows = [];
		this.focus = null;
		const stack: Box[] = n ? [{ node: 0, x: 0, w: 1, depth: 0 }] : [];
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
		this.fit();
	}

	private fit(): void {
		const whole = (this.rows.length + 1) * ROW, high = Math.max(2 * ROW, Math.min(whole, this.scroll.clientHeight));
		this.canvas.style.height = high + "px";
		this.space.style.height = Math.max(0, whole - high) + "px";
		this.paint();
	}

	private shade(node: number): string {
		const t = this.answer!.tree;
		const before = t.before[node]!, after = t.after[node]!;
		const whole = state.shade === "absolute" ? this.largest : Math.max(before, after);
		const share = whole ? (after - before) / whole : 0;
		if (Math.abs(share) < 0.01) return color("root");
		const dark = matchMedia("(prefers-color-scheme: dark)").matches;
		const strength = 0.25 + 0.75 * Math.abs(share);
		const light = dark ? 30 + 14 * strength : 92 - 30 * strength;
		return share > 0 ? `hsl(12 70% ${light}%)` : `hsl(212 70% ${light}%)`;
	}

	private label(node: number): string {
		return node ? visible(this.answer!.tree.function[node] ?? "(no name)") : "everything";
	}

	private paint(): void {
		if (!this.answer || !this.canvas.isConnected) return;
		const { ctx, width, height } = fitCanvas(this.canvas);
		this.paintOn(ctx, width, height, this.scroll.scrollTop);
		if (!this.focus) return;
		ctx.strokeStyle = color("accent");
		ctx.lineWidth = 1.5;
		ctx.strokeRect(this.focus.x * width + 0.75, this.focus.depth * ROW - this.scroll.scrollTop + 0.75, Math.max(1, this.focus.w * width - 2), ROW - 2.5);
	}

	private paintOn(ctx: Pen, width: number, height: number, scrolled: number): void {
		ctx.clearRect(0, 0, width, height);
		ctx.font = "12px system-ui, sans-serif";
		ctx.textBaseline = "middle";
		ctx.textAlign = "left";
		const letter = ctx.measureText("n").width, text = color("flame-text");
		const first = Math.max(0, Math.floor(scrolled / ROW)), last = Math.min(this.rows.length, Math.ceil((scrolled + height) / ROW));
		for (const row of this.rows.slice(first, last))
			for (const box of row) {
				const wide = box.w * width, top = box.depth * ROW - scrolled;
				if (wide < 0.7) continue;
				ctx.fillStyle = this.shade(box.node);
				ctx.fillRect(box.x * width, top, Math.max(0.5, wide - 0.6), ROW - 1);
				const chars = Math.floor((wide - 6) / letter);
				if (chars >= 3) {
					ctx.fillStyle = text;
					ctx.fillText(middle(this.label(box.node), chars), box.x * width + 3, top + ROW / 2, wide - 4);
				}
			}
	}

	private at(event: MouseEvent): Box | null {
		const place = this.canvas.getBoundingClientRect();
		const row = this.rows[Math.floor((event.clientY - place.top + this.scroll.scrollTop) / ROW)] ?? [];
		const x = (event.clientX - place.left) / place.width;
		return row.find((b) => x >= b.x && x < b.x + b.w) ?? null;
	}

	private tipLines(title: string, before: number, after: number, error = 0): Child[] {
		return [h("b", {}, title), h("div", {}, `${value(before)} → ${value(after)}`),
			h("div", {}, `${signed(after - before)}${error ? " ± " + value(error) : ""}${before ? ", " + percent(after - before, before) : after ? ", new" : ""}`), h("div", { class: "muted" }, `${exactValue(before)} → ${exactValue(after)}`)];
	}

	private tip(box: Box): Child[] {
		const t = this.answer!.tree;
		return this.tipLines(this.label(box.node), t.before[box.node]!, t.after[box.node]!);
	}

	private move(event: PointerEvent): void {
		const box = this.at(event);
		showTip(box ? this.tip(box) : null, event.clientX, event.clientY);
	}

	private choose(box: Box | null): void {
		this.focus = box;
		if (box?.node) go({ fn: this.answer!.tree.function[box.node] ?? "" }, false);
		this.paint();
	}

	private key(event: KeyboardEvent): void {
		const at = this.focus ?? this.rows[0]?.[0];
		if (!at) return;
		const row = this.rows[at.depth]!, place = row.indexOf(at), { parent } = this.answer!.tree;
		const next: Record<string, Box | undefined> = {
			ArrowUp: this.rows[at.depth - 1]?.find((b) => b.node === parent[at.node]), ArrowDown: this.rows[at.depth + 1]?.find((b) => parent[b.node] === at.node),
			ArrowLeft: row[place - 1], ArrowRight: row[place + 1],
		};
		const to = next[event.key];
		if (!to) return;
		event.preventDefault();
		this.choose(to);
		const box = this.canvas.getBoundingClientRect();
		showTip(this.tip(to), box.left + to.x * box.width, box.top + to.depth * ROW - this.scroll.scrollTop);
	}

	exports(): Export[] {
		const table = this.table, high = Math.min(16000, (this.rows.length + 1) * ROW);
		if (!this.answer || !table) return [];
		return [{ name: "diff.csv", title: "table (CSV)", make: () => table.csv() }, { name: "diff.json", title: "table (JSON)", make: () => table.json() },
			{ name: "diff.png", title: "flame graph (PNG)", make: () => pngOf(1600, high, color("back"), (pen) => this.paintOn(pen, 1600, high, 0)) },
			{ name: "diff.svg", title: "flame graph (SVG)", make: () => { const pen = new SvgPen(1600, high, color("back")); this.paintOn(pen, 1600, high, 0); return pen.blob(); } }];
	}
}

/** A stack tells its callers, too, as far as there is room. */
function nameOf(row: DiffRow): Node | string {
	if (!row.frames) return visible(row.function);
	const at = row.frames.findIndex((f) => f.function === row.function), callers = row.frames.slice(at + 1, at + 1 + CALLERS).map(frameName);
	return h("span", {}, visible(row.function), h("span", { class: "muted" }, callers.map((c) => " ← " + c).join("")));
}

function signed(change: number): string {
	return (change > 0 ? "+" : "") + value(change);
}
