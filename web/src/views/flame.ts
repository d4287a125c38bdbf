// SPDX-License-Identifier: Apache-2.0
// The flame graph: every box a call path, its width its share. The server sends
// the boxes that can be seen; zooming asks for more below.
import { ask, type Frame, type Tree } from "../api";
import { clear, color, download, fitCanvas, h, showTip } from "../dom";
import { middle, percent } from "../format";
import { frameColor } from "../palette";
import { figure, go, state } from "../state";
import { choice, costTitle, emptyText, exactValue, frameName, place, say, sayError, value, type View } from "../view";
import { selection } from "../api";

const ROW = 19;
const NODES = 20000;

interface Box { node: number; x: number; w: number; depth: number }

export class Flame implements View {
	name = "flame";
	title = "Flame";
	help = "Each box is a path of calls; its width is its share of the whole. Click to zoom, right-click to pivot.";
	private tree: Tree | null = null;
	private boxes: Box[] = [];
	private rows: Box[][] = [];
	private canvas = h("canvas", { class: "flame", tabindex: 0, role: "img", "aria-label": "Flame graph; the tree view has the same as a table" });
	private frameTime = 0;
	private hover = -1;
	private focus = 0;
	private observer = new ResizeObserver(() => this.layout());
	private info = h("div", { class: "flame-info muted" });

	constructor() {
		this.canvas.addEventListener("pointermove", (e) => this.move(e));
		this.canvas.addEventListener("pointerleave", () => { this.hover = -1; showTip(null); this.paint(); });
		this.canvas.addEventListener("click", (e) => this.click(e));
		this.canvas.addEventListener("contextmenu", (e) => this.pivot(e));
		this.canvas.addEventListener("keydown", (e) => this.key(e));
	}

	async draw(element: HTMLElement): Promise<void> {
		if (!this.canvas.isConnected) say(element, "Drawing…");
		let tree: Tree;
		try {
			tree = await ask<Tree>("view", "tree", { ...selection(), order: figure(), direction: state.direction,
				nodes: NODES, ...(state.lines ? { lines: 1 } : {}), ...(state.path ? { path: state.path } : {}) });
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		/* Only what is selected has changed: keep the place and the focus. */
		if (tree === this.tree && this.canvas.isConnected) {
			this.paint();
			return;
		}
		this.tree = tree;
		if (!tree.value[0]) {
			say(element, emptyText());
			return;
		}
		this.focus = 0;
		clear(element, this.tools(), this.crumbs(), h("div", { class: "flame-scroll" }, this.canvas), this.info);
		this.observer.observe(this.canvas.parentElement!);
		this.layout();
	}

	leave(): void {
		this.observer.disconnect();
		showTip(null);
	}

	private tools(): HTMLElement {
		const search = h("input", { type: "search", placeholder: "search ( / )", value: state.search, "aria-label": "Search in the flame graph",
			oninput: (e: Event) => { go({ search: (e.target as HTMLInputElement).value }, false); this.paint(); } });
		return h("div", { class: "tools" },
			choice([["top_down", "from main down"], ["bottom_up", "from allocators up"]], state.direction,
				(d) => go({ direction: d as "top_down" | "bottom_up", path: "" }), "Direction"),
			h("label", {}, h("input", { type: "checkbox", checked: state.lines, onchange: () => go({ lines: !state.lines, path: "" }) }), " by line"),
			search,
			h("button", { class: "small", onclick: () => this.save() }, "PNG"),
			h("button", { class: "small", onclick: () => this.saveSvg() }, "SVG"));
	}

	private crumbs(): HTMLElement {
		const list = h("nav", { class: "crumbs", "aria-label": "Zoom" });
		const keys = state.path ? state.path.split(".") : [];
		list.append(h("button", { class: "plain", onclick: () => go({ path: "" }) }, "everything"));
		keys.forEach((_, i) => {
			const upTo = keys.slice(0, i + 1).join(".");
			list.append(" › ", h("button", { class: "plain", onclick: () => go({ path: upTo }) }, names.get(upTo) ?? "…"));
		});
		list.append(h("span", { class: "muted" }, `   ${value(this.tree!.value[0]!)} ${costTitle()}`));
		return list;
	}

	/** Boxes of all nodes, in shares of the width; row by row for hit tests. */
	private layout(): void {
		const tree = this.tree;
		if (!tree) return;
		const n = tree.value.length;
		const x = new Float64Array(n), w = new Float64Array(n), used = new Float64Array(n);
		const depth = new Uint32Array(n);
		const whole = tree.value[0]!;
		w[0] = 1;
		this.boxes = [{ node: 0, x: 0, w: 1, depth: 0 }];
		this.rows = [[this.boxes[0]!]];
		for (let i = 1; i < n; i++) {
			const p = tree.parent[i]!;
			w[i] = tree.value[i]! / whole;
			x[i] = x[p]! + used[p]!;
			used[p] = used[p]! + w[i]!;
			depth[i] = depth[p]! + 1;
			const box = { node: i, x: x[i]!, w: w[i]!, depth: depth[i]! };
			this.boxes.push(box);
			(this.rows[depth[i]!] ??= []).push(box);
		}
		const high = (this.rows.length + 1) * ROW;
		this.canvas.style.height = high + "px";
		this.paint();
	}

	paint(): void {
		cancelAnimationFrame(this.frameTime);
		this.frameTime = requestAnimationFrame(() => this.paintNow());
	}

	private paintNow(): void {
		const tree = this.tree;
		if (!tree || !this.canvas.isConnected) return;
		const { ctx, width, height } = fitCanvas(this.canvas);
		const look = state.search.toLowerCase();
		const text = color("flame-text"), outline = color("accent"), gap = color("back");
		let matched = 0;
		let until = -1;
		ctx.clearRect(0, 0, width, height);
		ctx.font = "12px system-ui, sans-serif";
		ctx.textBaseline = "middle";
		ctx.textAlign = "left";
		const letter = ctx.measureText("n").width;
		this.boxes.forEach((box, i) => {
			const left = box.x * width, wide = box.w * width;
			const hit = look !== "" && i > 0 && this.label(i).toLowerCase().includes(look);
			if (hit && box.x >= until - 1e-12) {
				matched += tree.value[i]!;
				until = box.x + box.w;
			}
			if (wide < 0.7) return;
			const top = box.depth * ROW;
			ctx.fillStyle = i ? frameColor(this.frame(i)) : color("root");
			ctx.globalAlpha = look && !hit ? 0.45 : 1;
			ctx.fillRect(left, top, Math.max(0.5, wide - 0.6), ROW - 1);
			ctx.globalAlpha = 1;
			if (hit || i === this.hover || i === this.focus && i > 0) {
				ctx.strokeStyle = i === this.hover ? text : outline;
				ctx.lineWidth = hit ? 2 : 1;
				ctx.strokeRect(left + 0.5, top + 0.5, Math.max(1, wide - 1.6), ROW - 2);
			}
			const chars = Math.floor((wide - 6) / letter);
			if (chars >= 3) {
				ctx.fillStyle = text;
				ctx.fillText(middle(this.label(i), chars), left + 3, top + ROW / 2, wide - 4);
			}
			this.paintRest(ctx, i, box, width, gap);
		});
		this.info.textContent = look ? `${percent(matched, tree.value[0]!)} (${value(matched)}) matches “${state.search}”` : this.help;
	}

	/** What the server left out of a node is hatched, so that widths stay true. */
	private paintRest(ctx: CanvasRenderingContext2D, i: number, box: Box, width: number, gap: string): void {
		const tree = this.tree!;
		if (!tree.left_out[i]) return;
		let used = 0;
		for (const child of this.rows[box.depth + 1] ?? [])
			if (tree.parent[child.node] === i) used += child.w;
		const left = (box.x + used) * width;
		const wide = (box.w - used) * width - (tree.self[i]! / tree.value[0]!) * width;
		if (wide < 2) return;
		const top = (box.depth + 1) * ROW;
		ctx.fillStyle = color("rest");
		ctx.fillRect(left, top, wide - 0.6, ROW - 1);
		ctx.strokeStyle = gap;
		ctx.beginPath();
		for (let x = left; x < left + wide; x += 6) {
			ctx.moveTo(x, top + ROW - 1);
			ctx.lineTo(Math.min(x + 6, left + wide), top);
		}
		ctx.stroke();
		const say = `${tree.left_out[i]} more`;
		if (ctx.measureText(say).width + 6 < wide) {
			ctx.fillStyle = color("flame-text");
			ctx.fillText(say, left + 3, top + ROW / 2);
		}
	}

	private frame(node: number): Frame {
		return this.tree!.frames[this.tree!.frame[node]!]!;
	}

	private label(node: number): string {
		if (!node) return state.path ? (names.get(state.path) ?? "zoomed") : `everything ${costTitle()}`;
		const frame = this.frame(node);
		return frameName(frame) + (state.lines && frame.line ? ":" + frame.line : "");
	}

	private at(event: MouseEvent): number {
		const box = this.canvas.getBoundingClientRect();
		const row = this.rows[Math.floor((event.clientY - box.top) / ROW)];
		if (!row) return -1;
		const x = (event.clientX - box.left) / box.width;
		let low = 0, high = row.length - 1;
		while (low <= high) {
			const mid = (low + high) >> 1;
			const one = row[mid]!;
			if (x < one.x) high = mid - 1;
			else if (x >= one.x + one.w) low = mid + 1;
			else return one.node;
		}
		return -1;
	}

	private move(event: MouseEvent): void {
		const node = this.at(event);
		if (node !== this.hover) {
			this.hover = node;
			this.paint();
		}
		if (node < 0) {
			showTip(null);
			return;
		}
		const tree = this.tree!;
		const lines: Node[] = [h("b", {}, this.label(node)),
			h("div", {}, `${value(tree.value[node]!)} · ${percent(tree.value[node]!, tree.totals[tree.order] ?? tree.value[0]!)} of the whole`),
			h("div", { class: "muted" }, `${exactValue(tree.value[node]!)}, itself ${value(tree.self[node]!)}`)];
		if (node) {
			const frame = this.frame(node);
			lines.push(h("div", { class: "muted" }, [place(frame), frame.package ?? frame.module, frame.kind].filter(Boolean).join(" · ")));
		}
		showTip(lines, event.clientX, event.clientY);
	}

	/** Keys from the root of the whole tree to a node. */
	private pathOf(node: number): string {
		const keys: number[] = [];
		for (let i = node; i; i = this.tree!.parent[i]!) keys.unshift(this.tree!.key[i]!);
		return [state.path, ...keys].filter((k) => k !== "").join(".");
	}

	private remember(node: number): void {
		for (let i = node; i; i = this.tree!.parent[i]!) names.set(this.pathOf(i), this.label(i));
	}

	private click(event: MouseEvent): void {
		const node = this.at(event);
		if (node < 0) return;
		this.zoom(node);
	}

	private zoom(node: number): void {
		showTip(null);
		if (!node) {
			go({ path: state.path.split(".").slice(0, -1).join(".") });
			return;
		}
		this.remember(node);
		go({ path: this.pathOf(node), fn: this.frame(node).function ?? "" });
	}

	private pivot(event: MouseEvent): void {
		const node = this.at(event);
		if (node <= 0) return;
		event.preventDefault();
		const name = this.frame(node).function;
		if (name) go({ view: "functions", fn: name });
	}

	private key(event: KeyboardEvent): void {
		const tree = this.tree;
		if (!tree) return;
		const box = this.boxes[this.focus]!;
		const row = this.rows[box.depth] ?? [];
		const place = row.findIndex((b) => b.node === this.focus);
		const next: Record<string, number | undefined> = {
			ArrowUp: tree.parent[this.focus],
			ArrowDown: (this.rows[box.depth + 1] ?? []).find((b) => tree.parent[b.node] === this.focus)?.node,
			ArrowLeft: row[place - 1]?.node,
			ArrowRight: row[place + 1]?.node,
		};
		if (event.key === "Enter" || event.key === "f") this.zoom(this.focus);
		else if (event.key === "p" && this.focus) go({ view: "functions", fn: this.frame(this.focus).function ?? "" });
		else if (next[event.key] !== undefined) {
			this.focus = next[event.key]!;
			if (this.focus) go({ fn: this.frame(this.focus).function ?? "" }, false);
			this.paint();
		} else return;
		event.preventDefault();
		event.stopPropagation();
	}

	private save(): void {
		this.canvas.toBlob((blob) => blob && download("flame.png", blob));
	}

	private saveSvg(): void {
		const width = 1600;
		const escape = (text: string) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
		const parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${(this.rows.length + 1) * ROW}" font-family="sans-serif" font-size="12">`];
		this.boxes.forEach((box, i) => {
			const wide = box.w * width;
			if (wide < 0.5) return;
			const fill = i ? frameColor(this.frame(i)) : color("root");
			const label = this.label(i);
			parts.push(`<g><title>${escape(label)}: ${escape(value(this.tree!.value[i]!))}</title>` +
				`<rect x="${(box.x * width).toFixed(2)}" y="${box.depth * ROW}" width="${Math.max(0.4, wide - 0.5).toFixed(2)}" height="${ROW - 1}" fill="${fill}"/>`);
			const chars = Math.floor((wide - 6) / 6.6);
			if (chars >= 3) parts.push(`<text x="${(box.x * width + 3).toFixed(2)}" y="${box.depth * ROW + 13}">${escape(middle(label, chars))}</text>`);
			parts.push("</g>");
		});
		parts.push("</svg>");
		download("flame.svg", new Blob([parts.join("\n")], { type: "image/svg+xml" }));
	}
}

/** Names of paths that were zoomed into, for the breadcrumbs. */
const names = new Map<string, string>();
