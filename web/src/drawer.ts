// SPDX-License-Identifier: Apache-2.0
// What is known of the selected function, beside any view: its figures, its curve
// over time, its largest stacks with file and line, and ways onward.
import { ask, type Figures, type Frame, isCancelled, selection, type Timeline } from "./api";
import { drawOn } from "./chart";
import { type Child, clear, color, fitCanvas, h } from "./dom";
import { bytes, count, duration, exact, percent, visible } from "./format";
import { figure, go, state } from "./state";
import { explain } from "./tip";
import { costTitle, exactValue, frameName, functionTerm, pairOf, place, value } from "./view";
import { addTerm } from "./views/functions";
import { openSource } from "./views/source";

interface Detail { totals: Figures; self: Figures; inclusive: Figures }
interface Stacks { stacks: Array<Figures & { stack: number; frames: Frame[] }>; count: number }
interface Sizes { buckets: Array<{ least: number; most: number; count: number }> }

/** Views that show the selected one themselves. */
const own = new Set(["functions", "blocks", "source", "overview"]);

export class Drawer {
	readonly element = h("aside", { class: "drawer", "aria-label": "Selected function" });
	private drawn = "";

	/** Told the curve of the selected function, or null. */
	constructor(private onCurve: (name: string, line: Timeline | null) => void) {}

	draw(): void {
		const wanted = state.fn !== "" && !own.has(state.view);
		this.element.hidden = !wanted;
		if (!wanted) {
			this.drawn = "";
			this.onCurve("", null);
			return;
		}
		const which = JSON.stringify([state.fn, state.trace, selection(), figure()]);
		if (which === this.drawn) return;
		this.drawn = which;
		void this.load(which);
	}

	/** The trace has grown: what is shown is old. */
	refresh(): void {
		this.drawn = "";
		this.draw();
	}

	private async load(which: string): Promise<void> {
		const name = state.fn, order = figure();
		if (this.element.querySelector("h2")?.dataset.name !== name) clear(this.element, this.head(name), h("p", { class: "muted" }, "…"));
		const mine = { ...selection(), filter: addTerm(functionTerm(name)) };
		const maybe = <T>(asked: Promise<T>) => asked.catch((error) => { if (isCancelled(error)) throw error; return null; });
		try {
			const [detail, line, stacks, sizes] = await Promise.all([
				maybe(ask<Detail>("drawer", "function", { ...selection(), order, name, limit: 1 })),
				maybe(ask<Timeline>("drawer-line", "timeline", { points: 300, filter: mine.filter })),
				maybe(ask<Stacks>("drawer-stacks", "stacks", { ...mine, order, limit: 3 })),
				maybe(ask<Sizes>("drawer-sizes", "sizes", mine))]);
			if (which !== this.drawn) return;
			this.onCurve(name, line);
			this.build(name, order, detail, line, stacks, sizes);
		} catch {
			/* Another function was chosen meanwhile. */
		}
	}

	private head(name: string): HTMLElement {
		const title = h("h2", {}, visible(name));
		title.dataset.name = name;
		return h("header", { class: "drawer-head" }, title, h("button", { class: "small", title: "close (Esc)", "aria-label": "close", onclick: () => go({ fn: "" }, false) }, "✕"));
	}

	private build(name: string, order: string, detail: Detail | null, line: Timeline | null, stacks: Stacks | null, sizes: Sizes | null): void {
		const parts: Child[] = [this.head(name)];
		if (detail) {
			const of = detail.inclusive[order] ?? 0, { bytes: sum, blocks } = pairOf(detail.inclusive);
			parts.push(h("p", { class: "drawer-figure" }, h("b", { title: exactValue(of) }, value(of)), ` · ${percent(of, detail.totals[order] ?? 0)} of ${costTitle()}`),
				h("p", { class: "muted" }, `itself ${value(detail.self[order] ?? 0)}; ${count(blocks)} blocks`
					+ (blocks && state.mode !== "held" ? `, ${bytes(sum / blocks)} on average` : "") + `; ${count(detail.inclusive.temporary_allocations ?? 0)} temporary`));
		} else parts.push(h("p", { class: "muted" }, "Nothing of it is in what is selected."));
		if (line) parts.push(this.spark(line));
		if (sizes?.buckets.length) parts.push(this.sizes(sizes));
		parts.push(h("p", { class: "drawer-ways" },
			h("button", { class: "small", title: "callers above, callees below (p)", onclick: () => go({ view: "flame", pivot: name, path: "" }) }, "pivot"),
			h("button", { class: "small", onclick: () => go({ view: "functions", group: "function" }) }, "callers and callees"),
			h("button", { class: "small", onclick: () => go({ filter: addTerm(functionTerm(name)), path: "" }) }, "only through it"),
			h("button", { class: "small", onclick: () => go({ filter: addTerm("not " + functionTerm(name)), path: "" }) }, "without it"),
			h("button", { class: "small", onclick: () => go({ view: "blocks", filter: addTerm(functionTerm(name)) }) }, "its blocks")));
		stacks?.stacks.forEach((stack, i) => parts.push(h("details", { open: i === 0 },
			h("summary", {}, `${value(stack[order] ?? 0)} `, h("span", { class: "muted" }, i ? `stack ${i + 1} of ${count(stacks.count)}` : `largest of ${count(stacks.count)} ${stacks.count === 1 ? "stack" : "stacks"}`)),
			stackList(stack.frames))));
		clear(this.element, ...parts);
	}

	private spark(line: Timeline): HTMLElement {
		const canvas = h("canvas", { class: "spark", role: "img", "aria-label": "Live bytes of this function over time" });
		let most = 0;
		line.live_bytes.forEach((v, i) => { if (v > line.live_bytes[most]!) most = i; });
		const paint = () => {
			if (!canvas.isConnected || !canvas.clientWidth) return;
			const { ctx, width, height } = fitCanvas(canvas);
			drawOn(ctx, width, height, { ends: line.end_ns, from: line.from_ns, to: line.to_ns, unit: bytes, series: [
				{ name: "live", kind: "area", color: color("live-soft"), values: line.live_bytes }, { name: "live", kind: "line", color: color("live"), values: line.live_bytes }] });
		};
		new ResizeObserver(paint).observe(canvas);
		return h("figure", { class: "drawer-spark" }, explain(canvas, () => [`live bytes through it, most ${bytes(line.live_bytes[most] ?? 0)} at ${duration(line.end_ns[most] ?? 0)}`]),
			h("figcaption", { class: "muted" }, "live over the whole run"));
	}

	private sizes(sizes: Sizes): HTMLElement {
		const most = Math.max(...sizes.buckets.map((b) => b.count));
		const bars = sizes.buckets.map((b) => {
			const bar = explain(h("i", { role: "img", "aria-label": `${bytes(b.least)} to ${bytes(b.most)}: ${exact(b.count)}` }), () => [h("b", {}, `${bytes(b.least)} – ${bytes(b.most)}`), h("div", {}, `${exact(b.count)} allocations`)]);
			bar.style.height = Math.max(4, (b.count / most) * 100) + "%";
			return bar;
		});
		return h("figure", { class: "drawer-sizes" }, h("div", { class: "mini-bars" }, ...bars),
			h("figcaption", { class: "muted" }, `sizes ${bytes(sizes.buckets[0]!.least)} – ${bytes(sizes.buckets[sizes.buckets.length - 1]!.most)}`));
	}
}

/** A whole stack, innermost first; a place leads to its source. */
export function stackList(frames: Frame[]): HTMLElement {
	return h("ol", { class: "stack", start: "0" }, ...frames.map((f) => h("li", { class: "kind-" + f.kind },
		f.function ? h("button", { class: "plain", onclick: () => go({ fn: f.function! }, false) }, frameName(f)) : frameName(f), f.inlined && h("span", { class: "muted" }, " inlined"),
		h("div", { class: "muted" }, f.file ? h("button", { class: "plain", onclick: () => openSource(f.file!, f.line) }, place(f)) : visible(f.module)))));
}
