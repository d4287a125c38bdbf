// SPDX-License-Identifier: Apache-2.0
// The strip at the top: live bytes and RSS over the whole run. Dragging selects a
// range, a click a moment; every view follows.
import { ask, isCancelled, type Summary, type Timeline } from "./api";
import { type ChartData, drawChart, type Layout, pointAt, timeOf, xOf, yOf } from "./chart";
import { color, h, showTip } from "./dom";
import { bytes, count, moment } from "./format";
import { go, onChange, state } from "./state";

export class TimelineStrip {
	readonly element: HTMLElement;
	private canvas = h("canvas", { class: "timeline", tabindex: 0, role: "img",
		"aria-label": "Live bytes over time. Drag to select a range, click for a moment; arrow keys move it." });
	private note = h("span", { class: "muted" });
	private data: ChartData | null = null;
	private answer: Timeline | null = null;
	private box: Layout | null = null;
	private summary: Summary | null = null;
	private drag: { from: number; to: number } | null = null;

	constructor() {
		const clearButton = h("button", { class: "small", title: "Whole run (Esc)", onclick: () => go({ from: null, to: null }) }, "whole run");
		this.element = h("section", { class: "timeline-strip", "aria-label": "Timeline" }, this.canvas,
			h("div", { class: "timeline-foot" }, this.legend(), this.note, clearButton));
		this.canvas.addEventListener("pointerdown", (e) => this.start(e));
		this.canvas.addEventListener("pointermove", (e) => this.move(e));
		this.canvas.addEventListener("pointerup", (e) => this.end(e));
		this.canvas.addEventListener("pointerleave", () => showTip(null));
		this.canvas.addEventListener("keydown", (e) => this.key(e));
		new ResizeObserver(() => this.draw()).observe(this.canvas);
		onChange((before) => {
			if (before.from !== state.from || before.to !== state.to) this.draw();
			if (before.filter !== state.filter || before.trace !== state.trace) void this.load(this.summary);
		});
	}

	private legend(): HTMLElement {
		return h("span", { class: "legend" }, h("i", { class: "swatch live" }), "live bytes ", h("i", { class: "swatch rss" }), "RSS");
	}

	async load(summary: Summary | null): Promise<void> {
		this.summary = summary;
		if (!summary) return;
		const params: Record<string, string | number> = { points: 600 };
		if (state.filter) params.filter = state.filter;
		try {
			this.answer = await ask<Timeline>("strip", "timeline", params);
		} catch (error) {
			if (!isCancelled(error)) this.note.textContent = String((error as Error).message);
			return;
		}
		this.draw();
	}

	draw(): void {
		if (!this.answer || !this.canvas.isConnected) return;
		const a = this.answer;
		const hasRss = a.rss_bytes.some((v) => v > 0);
		this.data = {
			ends: a.end_ns, from: a.from_ns, to: a.to_ns, unit: bytes,
			series: [
				{ name: "live", kind: "area", color: color("live-soft"), values: a.max_live_bytes },
				{ name: "live", kind: "line", color: color("live"), values: a.max_live_bytes },
				...(hasRss ? [{ name: "RSS", kind: "dashed" as const, color: color("rss"), values: a.rss_bytes }] : []),
			],
		};
		this.box = drawChart(this.canvas, this.data, true);
		this.drawMarks();
		this.drawSelection();
	}

	private drawMarks(): void {
		if (!this.summary || !this.data || !this.box || state.filter) return;
		const ctx = this.canvas.getContext("2d")!;
		const x = xOf(this.data, this.box, this.summary.peak_time_ns);
		const y = yOf(this.box, this.summary.peak_bytes);
		ctx.fillStyle = color("accent");
		ctx.beginPath();
		ctx.arc(x, y, 4, 0, 7);
		ctx.fill();
		ctx.font = "11px system-ui, sans-serif";
		const text = `peak ${bytes(this.summary.peak_bytes)}`;
		const wide = ctx.measureText(text).width;
		const left = x + 8 + wide < this.box.width - 4 ? x + 8 : x - 8 - wide;
		ctx.fillStyle = color("back");
		ctx.globalAlpha = 0.75;
		ctx.fillRect(left - 2, Math.max(1, y - 7), wide + 4, 14);
		ctx.globalAlpha = 1;
		ctx.fillStyle = color("text");
		ctx.textAlign = "left";
		ctx.textBaseline = "middle";
		ctx.fillText(text, left, Math.max(8, y));
	}

	private drawSelection(): void {
		if (!this.data || !this.box) return;
		const ctx = this.canvas.getContext("2d")!;
		const from = this.drag ? Math.min(this.drag.from, this.drag.to) : state.from;
		const to = this.drag ? Math.max(this.drag.from, this.drag.to) : state.to;
		const span = this.data.to - this.data.from;
		if (from === null && to === null) {
			this.note.textContent = "drag: range · click: moment";
			return;
		}
		const x0 = xOf(this.data, this.box, from ?? this.data.from);
		const x1 = xOf(this.data, this.box, to ?? this.data.to);
		const bottom = this.box.height - this.box.bottom;
		ctx.fillStyle = color("select");
		if (from !== null) ctx.fillRect(x0, this.box.top, Math.max(1, x1 - x0), bottom - this.box.top);
		ctx.strokeStyle = color("accent");
		ctx.lineWidth = 1.5;
		for (const x of from !== null ? [x0, x1] : [x1]) {
			ctx.beginPath();
			ctx.moveTo(Math.round(x) + 0.5, this.box.top);
			ctx.lineTo(Math.round(x) + 0.5, bottom);
			ctx.stroke();
		}
		this.note.textContent = from === null
			? `at ${moment(to!, span)}`
			: `${moment(from, span)} – ${moment(to ?? this.data.to, span)}`;
	}

	private timeAt(event: PointerEvent): number {
		const x = event.clientX - this.canvas.getBoundingClientRect().left;
		return Math.round(timeOf(this.data!, this.box!, x) / 1000) * 1000;
	}

	private start(event: PointerEvent): void {
		if (!this.data || event.button !== 0) return;
		const t = this.timeAt(event);
		this.drag = { from: t, to: t };
		this.canvas.setPointerCapture(event.pointerId);
	}

	private move(event: PointerEvent): void {
		if (!this.data || !this.answer) return;
		const t = this.timeAt(event);
		if (this.drag) {
			this.drag.to = t;
			this.draw();
		}
		const i = pointAt(this.data, t);
		const a = this.answer;
		const seconds = Math.max(1, a.end_ns[i]! - a.start_ns[i]!) / 1e9;
		const lines = [
			h("b", {}, moment(t, this.data.to - this.data.from)),
			h("div", {}, `live ${bytes(a.live_bytes[i]!)} in ${count(a.live_blocks[i]!)} blocks`),
			h("div", {}, `allocations ${count(a.allocations[i]! / seconds)}/s, temporary ${count(a.temporary[i]! / seconds)}/s`),
		];
		if (a.rss_bytes[i]) lines.push(h("div", {}, `RSS ${bytes(a.rss_bytes[i]!)}`));
		if (this.summary?.start_time)
			lines.push(h("div", { class: "muted" }, new Date(Date.parse(this.summary.start_time) + t / 1e6).toLocaleTimeString()));
		showTip(lines, event.clientX, event.clientY);
	}

	private end(event: PointerEvent): void {
		if (!this.drag || !this.box || !this.data) return;
		const { from, to } = this.drag;
		this.drag = null;
		const pixels = Math.abs(xOf(this.data, this.box, to) - xOf(this.data, this.box, from));
		if (pixels < 4) go({ from: null, to: this.timeAt(event), mode: state.mode === "peak" ? "live" : state.mode, follow: false });
		else go({ from: Math.min(from, to), to: Math.max(from, to), follow: false });
		this.draw();
	}

	private key(event: KeyboardEvent): void {
		if (!this.data) return;
		const step = (this.data.to - this.data.from) / 100;
		const by = event.key === "ArrowLeft" ? -step : event.key === "ArrowRight" ? step : 0;
		if (!by) return;
		event.preventDefault();
		const at = Math.max(this.data.from, Math.min(this.data.to, (state.to ?? this.data.to) + by));
		go({ to: Math.round(at / 1000) * 1000, from: event.shiftKey ? state.from : null, follow: false }, false);
	}
}
