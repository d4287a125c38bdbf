// SPDX-License-Identifier: Apache-2.0
// The flame graph: every box a call path, its width its share. The server sends
// the boxes that can be seen; zooming asks for more below. With a pivot, callers
// stand above the function and callees hang below it.
import { ask, selection, type Table, type Tree } from "../api";
import { type Child, clear, color, fitCanvas, h } from "../dom";
import { Layer } from "../flame_layer";
import { paintFlame, type Picture, ROW, type Sight } from "../flame_paint";
import { base, bytes, count, percent, visible } from "../format";
import { figure, go, modes, state } from "../state";
import { pngOf, SvgPen } from "../svg";
import { hideTip, showTip } from "../tip";
import { mergeChoice, transforms } from "../transforms";
import { choice, costTitle, dropButtons, emptyText, exactValue, type Export, frameName, place, say, sayError, value, type View, workText } from "../view";
import { addTerm } from "./functions";

const NODES = 20000;

interface At { layer: Layer; node: number }

export class Flame implements View, Picture {
	name = "flame";
	title = "Flame";
	help = "Each box is a path of calls; its width is its share of the whole. Click zooms in, right-click or p pivots, Ctrl and wheel stretches, dragging moves.";
	layers: Layer[] = [];
	hover: At | null = null;
	focus: At | null = null;
	private trees: Tree[] = [];
	private canvas = h("canvas", { class: "flame", tabindex: 0, role: "img", "aria-label": "Flame graph; the tree view has the same as a table" });
	private space = h("div", { class: "flame-space" });
	private scroll = h("div", { class: "flame-scroll" }, this.canvas, this.space);
	private info = h("div", { class: "flame-info muted", role: "status" });
	private crumbs = h("nav", { class: "crumbs", "aria-label": "Zoom and changes" });
	private frameTime = 0;
	private sight = { x0: 0, span: 1 };
	private drag: { x: number; y: number; x0: number; top: number; moved: boolean } | null = null;
	private tapped: At | null = null;
	private observer = new ResizeObserver(() => this.fit());
	private searched = "";

	constructor() {
		this.canvas.addEventListener("pointerdown", (e) => this.down(e));
		this.canvas.addEventListener("pointermove", (e) => this.move(e));
		this.canvas.addEventListener("pointerup", (e) => this.up(e));
		this.canvas.addEventListener("pointerleave", (e) => { this.hover = null; hideTip(e); this.paint(); });
		this.canvas.addEventListener("contextmenu", (e) => this.menu(e));
		this.canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
		this.canvas.addEventListener("dblclick", () => { this.sight = { x0: 0, span: 1 }; this.paint(); });
		this.canvas.addEventListener("keydown", (e) => this.key(e));
		this.scroll.addEventListener("scroll", () => this.paint(), { passive: true });
	}

	async draw(element: HTMLElement): Promise<void> {
		if (!this.canvas.isConnected) say(element, state.mode === "held" ? workText() : "Drawing…");
		const params = { ...selection(), order: figure(), nodes: NODES, merge: state.merge };
		let trees: Tree[];
		try {
			trees = state.pivot
				? await Promise.all([ask<Tree>("view", "tree", { ...params, direction: "top_down", pivot: state.pivot }),
					ask<Tree>("view-up", "tree", { ...params, direction: "bottom_up", pivot: state.pivot })])
				: [await ask<Tree>("view", "tree", { ...params, direction: state.direction, ...(state.path ? { path: state.path } : {}) })];
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		/* Only what is selected or searched has changed: keep the place and the focus. */
		if (trees.every((tree, i) => tree === this.trees[i]) && trees.length === this.trees.length && this.canvas.isConnected) {
			this.drawCrumbs();
			this.search();
			this.paint();
			return;
		}
		this.trees = trees;
		if (!trees[0]!.value[0]) {
			say(element, emptyText(), dropButtons());
			return;
		}
		this.layers = trees.map((tree, i) => new Layer(tree, i === 1));
		this.focus = this.hover = this.tapped = null;
		this.sight = { x0: 0, span: 1 };
		this.searched = "";
		this.drawCrumbs();
		/* Who goes through it by keys goes on in what comes next. */
		const keyed = document.activeElement === this.canvas;
		clear(element, this.tools(), this.crumbs, this.scroll, this.info);
		if (keyed) this.canvas.focus({ preventScroll: true });
		this.observer.observe(this.scroll);
		this.fit();
		this.search();
		/* The pivot itself is what one wants to see first. */
		if (state.pivot) this.scroll.scrollTop = Math.max(0, this.above() * ROW - this.scroll.clientHeight / 2);
		else this.scroll.scrollTop = 0;
	}

	leave(): void {
		this.observer.disconnect();
		showTip(null);
	}

	private above(): number {
		return this.layers[1]?.deepest ?? 0;
	}

	rowOf(layer: Layer, depth: number): number {
		if (layer.up) return depth ? this.above() - depth : -1;
		return this.above() + depth;
	}

	private tools(): HTMLElement {
		const search = h("input", { type: "search", placeholder: "search ( / )", value: state.search, "aria-label": "Search in the flame graph",
			oninput: (e: Event) => go({ search: (e.target as HTMLInputElement).value }, false) });
		return h("div", { class: "tools" },
			choice([["top_down", "from main down"], ["bottom_up", "from allocators up"]], state.pivot ? "" : state.direction,
				(d) => go({ direction: d as "top_down" | "bottom_up", path: "", pivot: "" }), "Direction"),
			mergeChoice(), search);
	}

	private drawCrumbs(): void {
		const keys = state.path ? state.path.split(".") : [];
		const parts: Child[] = state.pivot ? [] : [h("button", { class: "plain", onclick: () => go({ path: "" }) }, "everything")];
		keys.forEach((_, i) => {
			const upTo = keys.slice(0, i + 1).join(".");
			parts.push(" › ", h("button", { class: "plain", onclick: () => go({ path: upTo }) }, names.get(upTo) ?? "…"));
		});
		const whole = this.trees[0]!.value[0]!;
		parts.push(h("span", { class: "muted" }, `   ${value(whole)} ${costTitle()}`), ...transforms());
		clear(this.crumbs, ...parts);
	}

	/** The canvas is as large as what is in sight of it; the rest is scrolled. */
	private fit(): void {
		if (!this.layers.length || !this.canvas.isConnected) return;
		const rows = this.above() + Math.max(0, ...this.layers.filter((l) => !l.up).map((l) => l.deepest + 2));
		const high = Math.max(ROW * 2, Math.min(this.scroll.clientHeight, rows * ROW));
		this.canvas.style.height = high + "px";
		this.space.style.height = Math.max(0, rows * ROW - high) + "px";
		this.paint();
	}

	paint(): void {
		cancelAnimationFrame(this.frameTime);
		this.frameTime = requestAnimationFrame(() => this.paintNow());
	}

	private paintNow(): void {
		if (!this.layers.length || !this.canvas.isConnected) return;
		const { ctx, width, height } = fitCanvas(this.canvas);
		this.canvas.dataset.boxes = String(paintFlame(ctx, this, { width, height, top: this.scroll.scrollTop, ...this.sight }));
	}

	private search(): void {
		for (const layer of this.layers) layer.choose(state.merge === "module" ? "" : state.fn);
		if (this.searched === state.search) return;
		this.searched = state.search;
		const whole = this.trees[0]!.value[0]!;
		const sums = this.layers.map((layer) => layer.search(state.search, (node) => this.label(layer, node)));
		const say = (sum: number) => `${percent(sum, whole)} (${value(sum)}) matches “${state.search}”`;
		this.info.textContent = state.search ? say(Math.max(...sums)) : this.help;
		/* Where boxes were left out only the server knows all that matches. */
		if (state.search && !state.pivot && !state.path && state.merge === "function" && this.trees[0]!.left_out.some((n) => n > 0)) void this.searchAll(say);
	}

	private async searchAll(say: (sum: number) => string): Promise<void> {
		const text = state.search, order = figure();
		const pattern = text.replace(/[^\p{L}\p{N} _:,<>-]/gu, ".");
		try {
			const found = await ask<Table>("search", "sites", { ...selection(), filter: addTerm(`function:/${pattern}/i`), order, limit: 1, stacks: 0 });
			if (state.search === text) this.info.textContent = say(found.totals[order] ?? 0);
		} catch {
			/* What is in sight was counted already. */
		}
	}

	label(layer: Layer, node: number): string {
		if (!node) return state.pivot ? visible(state.pivot) : state.path ? (names.get(state.path) ?? "zoomed") : `everything ${costTitle()}`;
		const frame = layer.frame(node);
		if (state.merge === "module") return visible(base(frame.module));
		return frameName(frame) + (state.merge === "line" && frame.line ? ":" + frame.line : "");
	}

	private at(event: MouseEvent): At | null {
		const box = this.canvas.getBoundingClientRect();
		const row = Math.floor((event.clientY - box.top + this.scroll.scrollTop) / ROW);
		const x = this.sight.x0 + ((event.clientX - box.left) / box.width) * this.sight.span;
		for (const layer of this.layers) {
			const depth = layer.up ? this.above() - row : row - this.above();
			const node = depth < (layer.up ? 1 : 0) ? -1 : layer.find(depth, x);
			if (node >= 0) return { layer, node };
		}
		return null;
	}

	private tip(at: At): Child[] {
		const { layer, node } = at, tree = layer.tree;
		const whole = tree.totals[tree.order] ?? tree.value[0]!;
		const blocks = tree.order === modes[state.mode].bytes ? tree.other[node]! : tree.value[node]!;
		const sum = tree.order === modes[state.mode].bytes ? tree.value[node]! : tree.other[node]!;
		const lines: Child[] = [h("b", {}, this.label(layer, node)),
			h("div", {}, `${value(tree.value[node]!)} · ${percent(tree.value[node]!, whole)} of the whole · itself ${value(tree.self[node]!)}`),
			h("div", { class: "muted" }, exactValue(tree.value[node]!) + (state.cost !== "temporary" && blocks
				? `; ${count(blocks)} blocks` + (state.mode === "held" ? "" : `, ${bytes(sum / blocks)} on average`) : ""))];
		if (node) {
			const frame = layer.frame(node);
			lines.push(h("div", { class: "muted" }, [place(frame), visible(frame.package ?? frame.module), frame.kind].filter(Boolean).join(" · ")));
		}
		return lines;
	}

	/* ---- pointer ---- */

	private down(event: PointerEvent): void {
		if (event.button !== 0) return;
		this.drag = { x: event.clientX, y: event.clientY, x0: this.sight.x0, top: this.scroll.scrollTop, moved: false };
	}

	private move(event: PointerEvent): void {
		if (this.drag && event.buttons & 1) {
			const by = event.clientX - this.drag.x;
			if (Math.abs(by) + Math.abs(event.clientY - this.drag.y) > 4) this.drag.moved = true;
			if (this.drag.moved) {
				this.canvas.setPointerCapture(event.pointerId);
				showTip(null);
				this.pan(this.drag.x0 - (by / this.canvas.clientWidth) * this.sight.span);
				if (event.pointerType !== "touch") this.scroll.scrollTop = this.drag.top - (event.clientY - this.drag.y);
				return;
			}
		}
		const at = this.at(event);
		if (at?.node !== this.hover?.node || at?.layer !== this.hover?.layer) {
			this.hover = at;
			this.paint();
		}
		showTip(at ? this.tip(at) : null, event.clientX, event.clientY);
	}

	private up(event: PointerEvent): void {
		const moved = this.drag?.moved;
		this.drag = null;
		if (moved || event.button !== 0) return;
		const at = this.at(event);
		if (!at) return;
		/* A finger cannot hover: the first tap shows, the second zooms. */
		const again = this.tapped?.node === at.node && this.tapped.layer === at.layer;
		this.tapped = at;
		if (event.pointerType === "touch" && !again) {
			this.choose(at);
			showTip(this.tip(at), event.clientX, event.clientY);
			return;
		}
		this.zoom(at);
	}

	private wheel(event: WheelEvent): void {
		if (!event.ctrlKey && !event.shiftKey) return;
		event.preventDefault();
		const box = this.canvas.getBoundingClientRect();
		if (event.shiftKey) {
			this.pan(this.sight.x0 + ((event.deltaY || event.deltaX) / box.width) * this.sight.span);
			return;
		}
		const at = (event.clientX - box.left) / box.width;
		const span = Math.max(1e-7, Math.min(1, this.sight.span * Math.exp(event.deltaY / 300)));
		const x0 = this.sight.x0 + at * (this.sight.span - span);
		this.sight.span = span;
		this.pan(x0);
	}

	private pan(x0: number): void {
		this.sight.x0 = Math.max(0, Math.min(1 - this.sight.span, x0));
		this.paint();
	}

	private menu(event: MouseEvent): void {
		const at = this.at(event);
		if (!at?.node) return;
		event.preventDefault();
		this.pivot(at);
	}

	/* ---- what can be done with a box ---- */

	/** Keys from the root of the whole tree to a node. */
	private pathOf(at: At): string {
		const keys: number[] = [], { tree } = at.layer;
		for (let i = at.node; i; i = tree.parent[i]!) keys.unshift(tree.key[i]!);
		return [state.path, ...keys].filter((k) => k !== "").join(".");
	}

	private choose(at: At): void {
		this.focus = at;
		if (at.node && state.merge !== "module") go({ fn: at.layer.frame(at.node).function ?? "" }, false);
		this.paint();
	}

	private zoom(at: At): void {
		showTip(null);
		const { layer, node } = at, { tree } = layer;
		if (state.pivot) {
			this.sight = node ? { x0: layer.x[node]!, span: Math.max(1e-7, layer.w[node]!) } : { x0: 0, span: 1 };
			this.choose(at);
			return;
		}
		if (!node) {
			go({ path: state.path.split(".").slice(0, -1).join(".") });
			return;
		}
		for (let i = node; i; i = tree.parent[i]!) names.set(this.pathOf({ layer, node: i }), this.label(layer, i));
		go({ path: this.pathOf(at), fn: state.merge === "module" ? "" : layer.frame(node).function ?? "" });
	}

	private pivot(at: At): void {
		const name = at.node && state.merge !== "module" ? at.layer.frame(at.node).function : null;
		if (name) go({ pivot: name, fn: name, path: "" });
	}

	private key(event: KeyboardEvent): void {
		if (!this.layers.length) return;
		const at = this.focus ?? { layer: this.layers[0]!, node: 0 };
		const { layer, node } = at, row = layer.rows[layer.depth[node]!]!;
		const place = row.indexOf(node);
		const parent = node ? layer.tree.parent[node]! : -1, child = layer.firstChild(node);
		const next: Record<string, number | undefined> = {
			ArrowUp: layer.up ? child : parent, ArrowDown: layer.up ? parent : child,
			ArrowLeft: row[place - 1], ArrowRight: row[place + 1],
		};
		let to = next[event.key];
		let target = layer;
		/* From the pivot, up leads to its callers. */
		if (state.pivot && !node && event.key === "ArrowUp" && !layer.up && this.layers[1]) {
			target = this.layers[1];
			to = target.firstChild(0);
		} else if (layer.up && to === 0) target = this.layers[0]!;
		if (event.key === "Enter" || event.key === "f") this.zoom(at);
		else if (event.key === "p" && node) this.pivot(at);
		else if (to !== undefined && to >= 0) {
			this.choose({ layer: target, node: to });
			this.reveal();
		} else return;
		event.preventDefault();
		event.stopPropagation();
	}

	/** Scrolls to the box with the focus, and says what it is. */
	private reveal(): void {
		const at = this.focus!, top = this.rowOf(at.layer, at.layer.depth[at.node]!) * ROW;
		if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
		else if (top + ROW > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = top + 2 * ROW - this.scroll.clientHeight;
		const box = this.canvas.getBoundingClientRect();
		const x = Math.max(0, (at.layer.x[at.node]! - this.sight.x0) / this.sight.span) * box.width;
		showTip(this.tip(at), box.left + x, box.top + top - this.scroll.scrollTop + ROW - 12);
	}

	/* ---- files ---- */

	exports(): Export[] {
		if (!this.layers.length) return [];
		const rows = this.above() + Math.max(...this.layers.filter((l) => !l.up).map((l) => l.deepest + 1));
		const sight: Sight = { width: 1600, height: Math.min(rows * ROW, 16000), top: 0, ...this.sight };
		const still: Picture = { layers: this.layers, rowOf: (l, d) => this.rowOf(l, d), label: (l, n) => this.label(l, n), hover: null, focus: null };
		return [
			{ name: "flame.png", title: "picture (PNG)", make: () => pngOf(sight.width, sight.height, color("back"), (pen) => paintFlame(pen, still, sight)) },
			{ name: "flame.svg", title: "drawing (SVG)", make: () => {
				const pen = new SvgPen(sight.width, sight.height, color("back"));
				paintFlame(pen, still, sight);
				return pen.blob();
			} },
			{ name: "flame.json", title: "boxes (JSON)", make: () => new Blob([JSON.stringify(this.trees)], { type: "application/json" }) },
		];
	}
}

/** Names of paths that were zoomed into, for the breadcrumbs. */
const names = new Map<string, string>();
