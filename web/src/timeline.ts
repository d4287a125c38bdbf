// SPDX-License-Identifier: Apache-2.0
// The strip at the top: live bytes and RSS, below them how often memory is asked for;
// marks, pauses and changes of mode. Dragging selects a range, a click a moment; ends
// snap to marks; every view follows. It can be zoomed, and stacked by site.
import { ask, isCancelled, type Mark, type Summary, type Timeline } from "./api";
import { type ChartData, drawOn, type Layout, pointAt, type Series, timeOf, xOf, yOf } from "./chart";
import { type Child, clear, color, fitCanvas, h } from "./dom";
import { bytes, clock, count, moment, visible } from "./format";
import { seriesColor } from "./palette";
import { go, onChange, state } from "./state";
import { pngOf, type Pen, SvgPen } from "./svg";
import { explain, hideTip, showTip } from "./tip";
import type { Export } from "./view";

const RATE = 26; // pixels for the bars of the rates
const SNAP = 6; // pixels within which an end snaps to a mark

export class TimelineStrip {
	readonly element: HTMLElement;
	private canvas = h("canvas", { class: "timeline", tabindex: 0, role: "img",
		"aria-label": "Live bytes over time. Drag to select a range, click for a moment; arrow keys move it, with Shift its begin stays." });
	private note = h("span", { class: "muted", role: "status" });
	private legendBox = h("span", { class: "legend wrap" });
	private marksBox = h("span", { class: "marks" });
	private zoomButton = h("button", { class: "small", onclick: () => this.zoom() });
	private data: ChartData | null = null;
	private answer: Timeline | null = null;
	private marks: Mark[] = [];
	private box: Layout | null = null;
	private summary: Summary | null = null;
	private curve: { name: string; line: Timeline } | null = null;
	private drag: { from: number; to: number } | null = null;

	constructor() {
		const whole = h("button", { class: "small", title: "Whole run (Esc)", onclick: () => go({ from: null, to: null, zoomFrom: null, zoomTo: null }) }, "whole run");
		const sites = h("button", { class: "small", title: "stack the curve by the sites with the largest share of the peak", onclick: () => go({ sites: !state.sites }, false) }, "by site");
		this.element = h("section", { class: "timeline-strip", "aria-label": "Timeline" }, this.canvas,
			h("div", { class: "timeline-foot" }, this.legendBox, this.note, this.marksBox, h("span", { class: "timeline-buttons" }, sites, this.zoomButton, whole)));
		this.canvas.addEventListener("pointerdown", (e) => this.start(e));
		this.canvas.addEventListener("pointermove", (e) => this.move(e));
		this.canvas.addEventListener("pointerup", (e) => this.end(e));
		this.canvas.addEventListener("pointerleave", hideTip);
		this.canvas.addEventListener("keydown", (e) => this.key(e));
		new ResizeObserver(() => this.draw()).observe(this.canvas);
		onChange((before) => {
			sites.classList.toggle("on", state.sites);
			if (["filter", "trace", "zoomFrom", "zoomTo", "sites", "rss"].some((k) => before[k as "filter"] !== state[k as "filter"])) void this.load(this.summary);
			else if (before.from !== state.from || before.to !== state.to) this.draw();
		});
		sites.classList.toggle("on", state.sites);
	}

	async load(summary: Summary | null): Promise<void> {
		this.summary = summary;
		this.element.hidden = summary?.unknown?.includes("times") ?? false;
		if (!summary || this.element.hidden) return;
		const params: Record<string, string | number> = { points: 600 };
		if (state.filter) params.filter = state.filter;
		if (state.zoomFrom !== null) params.from = state.zoomFrom / 1e9 + "s";
		if (state.zoomTo !== null) params.to = state.zoomTo / 1e9 + "s";
		if (state.sites) Object.assign(params, { top: 6, by: "peak" });
		try {
			this.answer = await ask<Timeline>("strip", "timeline", params);
			this.marks = marksOf(this.answer);
		} catch (error) {
			if (!isCancelled(error)) this.note.textContent = String((error as Error).message);
			return;
		}
		this.drawMarkList();
		this.draw();
	}

	/** The curve of the selected function, drawn over that of all. */
	setCurve(name: string, line: Timeline | null): void {
		if (this.curve?.line === line || (!line && !this.curve)) return;
		this.curve = line && { name, line };
		this.draw();
	}

	/** Its values at the points of the strip. */
	private curveSeries(): Series[] {
		if (!this.curve || state.sites) return [];
		const { name, line } = this.curve, ends = line.end_ns;
		let at = 0;
		const values = this.answer!.end_ns.map((end) => {
			while (at < ends.length - 1 && ends[at]! < end) at++;
			return line.live_bytes[at] ?? 0;
		});
		return [{ name: visible(name), kind: "line", color: color("mark"), values }];
	}

	/** Selection and zoom: the part that is selected becomes the whole strip, or all does again. */
	zoom(): void {
		if (state.from !== null && state.to !== null && (state.zoomFrom !== state.from || state.zoomTo !== state.to)) go({ zoomFrom: state.from, zoomTo: state.to });
		else go({ zoomFrom: null, zoomTo: null });
	}

	private hasRss(): boolean {
		return this.answer!.rss_bytes.some((v) => v > 0);
	}

	/** A resident set many times the heap would make the heap a line on the ground. */
	private showsRss(): boolean {
		if (!this.hasRss() || state.rss === "off") return false;
		return state.rss === "on" || Math.max(...this.answer!.rss_bytes) <= 4 * Math.max(1, ...this.answer!.max_live_bytes);
	}

	private series(): Series[] {
		const a = this.answer!;
		const rss: Series[] = this.showsRss() ? [{ name: "RSS", kind: "dashed", color: color("rss"), values: a.rss_bytes }] : [];
		if (!state.sites || !a.sites.length)
			return [{ name: "", kind: "area", color: color("live-soft"), values: a.max_live_bytes }, { name: "live bytes", kind: "line", color: color("live"), values: a.max_live_bytes }, ...this.curveSeries(), ...rss];
		const stacked: Series[] = a.sites.map((s, i) => ({ name: visible(s.function ?? "(no name)"), kind: "stack", color: seriesColor(i), values: s.live_bytes }));
		const rest = a.live_bytes.map((v, i) => Math.max(0, v - stacked.reduce((sum, s) => sum + s.values[i]!, 0)));
		if (rest.some((v) => v > 0)) stacked.push({ name: "all others", kind: "stack", color: color("rest"), values: rest });
		return [...stacked, ...rss];
	}

	draw(): void {
		if (!this.answer || !this.canvas.isConnected) return;
		const a = this.answer;
		this.data = { ends: a.end_ns, from: a.from_ns, to: a.to_ns, unit: bytes, series: this.series() };
		const { ctx, width, height } = fitCanvas(this.canvas);
		this.box = this.drawAll(ctx, width, height);
		this.drawSelection(ctx);
		this.drawLegend();
		const zoomed = state.zoomFrom !== null || state.zoomTo !== null;
		const can = state.from !== null && state.to !== null && (state.zoomFrom !== state.from || state.zoomTo !== state.to);
		this.zoomButton.textContent = can ? "zoom to it" : zoomed ? "zoom out" : "zoom";
		this.zoomButton.disabled = !can && !zoomed;
		this.zoomButton.title = "the selected range over the whole width (z)";
	}

	private drawAll(pen: Pen, width: number, height: number): Layout {
		const box = drawOn(pen, width, height, this.data!, RATE);
		this.drawRates(pen, box);
		this.drawMarks(pen, box);
		this.drawPeak(pen, box);
		return box;
	}

	private rate(i: number, values: number[]): number {
		return values[i]! / (Math.max(1, this.answer!.end_ns[i]! - this.answer!.start_ns[i]!) / 1e9);
	}

	/** Allocations per second, and of these the temporary ones. */
	private drawRates(pen: Pen, box: Layout): void {
		const a = this.answer!, data = this.data!;
		let most = 0;
		for (let i = 0; i < a.end_ns.length; i++) most = Math.max(most, this.rate(i, a.allocations));
		if (!most) return;
		const bottom = box.height - 19, high = RATE - 6;
		for (const [values, style] of [[a.allocations, color("rate")], [a.temporary, color("temporary")]] as Array<[number[], string]>) {
			pen.fillStyle = style;
			a.end_ns.forEach((end, i) => {
				const left = xOf(data, box, Math.max(data.from, a.start_ns[i]!)), right = xOf(data, box, end);
				const tall = (this.rate(i, values) / most) * high;
				if (tall > 0.2) pen.fillRect(left, bottom - tall, Math.max(1, right - left), tall);
			});
		}
		pen.fillStyle = color("muted");
		pen.font = "10px system-ui, sans-serif";
		pen.textAlign = "right";
		pen.textBaseline = "middle";
		pen.fillText(count(most) + "/s", box.left - 6, bottom - high / 2 + 2);
	}

	/** Pauses as bands, marks and changes of mode as lines with a diamond. */
	private drawMarks(pen: Pen, box: Layout): void {
		const data = this.data!, bottom = box.height - 19;
		let paused = -1;
		const band = (from: number, to: number) => {
			const left = xOf(data, box, Math.max(from, data.from)), right = xOf(data, box, Math.min(to, data.to));
			if (right <= left || to < data.from || from > data.to) return;
			pen.fillStyle = color("pause");
			pen.fillRect(left, box.top, right - left, bottom - box.top);
		};
		for (const mark of this.marks) {
			if (mark.kind === "pause") paused = mark.time_ns;
			if (mark.kind === "resume" && paused >= 0) { band(paused, mark.time_ns); paused = -1; }
		}
		if (paused >= 0) band(paused, data.to);
		let free = -Infinity;
		for (const mark of this.marks) {
			if (mark.time_ns < data.from || mark.time_ns > data.to) continue;
			const x = Math.round(xOf(data, box, mark.time_ns)) + 0.5;
			pen.strokeStyle = pen.fillStyle = color("mark");
			pen.lineWidth = 1;
			pen.setLineDash([2, 3]);
			pen.beginPath();
			pen.moveTo(x, box.top);
			pen.lineTo(x, bottom);
			pen.stroke();
			pen.setLineDash([]);
			pen.beginPath();
			pen.moveTo(x, box.top - 6);
			pen.lineTo(x + 4, box.top - 1);
			pen.lineTo(x, box.top + 4);
			pen.lineTo(x - 4, box.top - 1);
			pen.closePath();
			pen.fill();
			pen.font = "10px system-ui, sans-serif";
			pen.textAlign = "left";
			pen.textBaseline = "middle";
			const text = markText(mark), wide = pen.measureText(text).width;
			if (x > free && x + 8 + wide < box.width) {
				pen.fillText(text, x + 6, box.top - 1);
				free = x + 14 + wide;
			}
		}
	}

	private drawPeak(pen: Pen, box: Layout): void {
		const s = this.summary, data = this.data!;
		if (!s || state.filter || s.peak_time_ns < data.from || s.peak_time_ns > data.to) return;
		const x = xOf(data, box, s.peak_time_ns), y = yOf(box, s.peak_bytes);
		pen.fillStyle = color("accent");
		pen.beginPath();
		pen.arc(x, y, 4, 0, 7);
		pen.fill();
		pen.font = "11px system-ui, sans-serif";
		const text = `peak ${bytes(s.peak_bytes)}`, wide = pen.measureText(text).width;
		/* Above the curve where there is room; else before it, since it was lower until then. */
		const above = y >= 17 && !this.marks.length;
		const beside = x - 8 - wide > box.left ? x - 8 - wide : x + 8;
		const left = above ? Math.max(box.left, Math.min(box.width - wide - 4, x - wide / 2)) : beside, top = above ? y - 11 : Math.max(box.top + 7, y);
		if (!above) {
			pen.fillStyle = color("back");
			pen.globalAlpha = 0.75;
			pen.fillRect(left - 2, top - 7, wide + 4, 14);
			pen.globalAlpha = 1;
		}
		pen.fillStyle = color("text");
		pen.textAlign = "left";
		pen.textBaseline = "middle";
		pen.fillText(text, left, top);
	}

	private drawSelection(pen: Pen): void {
		const data = this.data!, box = this.box!;
		const from = this.drag ? Math.min(this.drag.from, this.drag.to) : state.from;
		const to = this.drag ? Math.max(this.drag.from, this.drag.to) : state.to;
		const span = data.to - data.from;
		if (from === null && to === null) {
			this.note.textContent = "drag: range · click: moment";
			return;
		}
		const inside = (x: number) => Math.max(box.left, Math.min(box.width - box.right, x));
		const x0 = inside(xOf(data, box, from ?? data.from)), x1 = inside(xOf(data, box, to ?? data.to)), bottom = box.height - 19;
		pen.fillStyle = color("select");
		if (from !== null) pen.fillRect(x0, box.top, Math.max(1, x1 - x0), bottom - box.top);
		pen.strokeStyle = color("accent");
		pen.lineWidth = 1.5;
		for (const x of from !== null ? [x0, x1] : [x1]) {
			pen.beginPath();
			pen.moveTo(Math.round(x) + 0.5, box.top);
			pen.lineTo(Math.round(x) + 0.5, bottom);
			pen.stroke();
		}
		this.note.textContent = from === null ? `at ${moment(to!, span)}` : `${moment(from, span)} – ${moment(to ?? data.to, span)}`;
	}

	private drawLegend(): void {
		const item = (name: string, style: string) => {
			const swatch = h("i", { class: "swatch" });
			swatch.style.background = style;
			return h("span", { class: "legend-item" }, swatch, name);
		};
		const items = this.data!.series.filter((s) => s.name && s.name !== "RSS").map((s) => {
			const one = item(s.name, s.color);
			return state.sites && s.kind === "stack" && s.name !== "all others" ? explain(h("button", { class: "plain", onclick: () => go({ fn: s.name }, false) }, one), () => this.siteTip(s)) : one;
		});
		const rss = this.showsRss();
		const toggle = this.hasRss() && explain(h("button", { class: "plain" + (rss ? "" : " off"), "aria-pressed": String(rss), onclick: () => go({ rss: rss ? "off" : "on" }, false) }, item("RSS", color("rss"))),
			() => [h("b", {}, "resident set"), h("div", {}, `sampled from outside, at most ${bytes(Math.max(...this.answer!.rss_bytes))}; click ${rss ? "hides" : "shows"} it`)]);
		clear(this.legendBox, ...items, toggle, item("allocations/s", color("rate")), item("temporary/s", color("temporary")));
	}

	private siteTip(s: Series): Child[] {
		const most = Math.max(...s.values), last = s.values[s.values.length - 1] ?? 0;
		return [h("b", {}, s.name), h("div", {}, `at most ${bytes(most)}, ${bytes(last)} at the end of the strip`)];
	}

	/** Marks as buttons: each can be the moment, or (with Shift, or when one is chosen) the end of a range. */
	private drawMarkList(): void {
		const shown = this.marks.slice(0, 12);
		clear(this.marksBox, ...shown.map((mark) => explain(h("button", { class: "chip mark", onclick: (e: MouseEvent) => this.chooseMark(mark.time_ns, e.shiftKey) }, "◆ " + markText(mark)),
			() => [h("b", {}, markText(mark)), h("div", {}, moment(mark.time_ns, this.summary!.duration_ns)), h("div", { class: "muted" }, "click: this moment; a second one, or Shift: the range between")])),
			this.marks.length > shown.length && h("span", { class: "muted" }, `and ${this.marks.length - shown.length} more`));
	}

	private chooseMark(at: number, extend: boolean): void {
		const other = state.from === null && state.to !== null && state.to !== at && (extend || this.marks.some((m) => m.time_ns === state.to)) ? state.to : null;
		if (other === null) go({ from: null, to: at, follow: false, mode: state.mode === "peak" ? "live" : state.mode });
		else go({ from: Math.min(other, at), to: Math.max(other, at), follow: false });
	}

	private timeAt(event: PointerEvent): number {
		const x = event.clientX - this.canvas.getBoundingClientRect().left;
		for (const mark of this.marks) if (Math.abs(xOf(this.data!, this.box!, mark.time_ns) - x) < SNAP) return mark.time_ns;
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
		showTip(this.tipAt(t), event.clientX, event.clientY);
	}

	private tipAt(t: number): Child[] {
		const a = this.answer!, i = pointAt(this.data!, t);
		const mark = this.marks.find((m) => m.time_ns === t);
		const lines: Child[] = [
			h("b", {}, moment(t, this.data!.to - this.data!.from)), mark && h("div", {}, "◆ " + markText(mark)),
			h("div", {}, `live ${bytes(a.live_bytes[i]!)} in ${count(a.live_blocks[i]!)} blocks`),
			a.max_live_bytes[i]! > a.live_bytes[i]! * 1.01 && h("div", { class: "muted" }, `within this point ${bytes(a.min_live_bytes[i]!)} – ${bytes(a.max_live_bytes[i]!)}`),
			h("div", {}, `allocations ${count(this.rate(i, a.allocations))}/s, temporary ${count(this.rate(i, a.temporary))}/s`),
		];
		if (state.sites)
			this.data!.series.filter((s) => s.kind === "stack").map((s) => ({ s, v: s.values[i] ?? 0 })).filter((x) => x.v > 0).sort((p, q) => q.v - p.v).slice(0, 5)
				.forEach(({ s, v }) => lines.push(h("div", {}, `${bytes(v)}  ${s.name}`)));
		if (a.rss_bytes[i]) lines.push(h("div", {}, `RSS ${bytes(a.rss_bytes[i]!)}`));
		if (this.summary?.start_time) lines.push(h("div", { class: "muted" }, clock(Date.parse(this.summary.start_time) + t / 1e6)));
		return lines;
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
		if (!this.data || !this.box) return;
		const step = (this.data.to - this.data.from) / 100;
		const by = event.key === "ArrowLeft" ? -step : event.key === "ArrowRight" ? step : 0;
		if (!by) return;
		event.preventDefault();
		const at = Math.max(this.data.from, Math.min(this.data.to, (state.to ?? this.data.to) + by));
		go({ to: Math.round(at / 1000) * 1000, from: event.shiftKey ? (state.from ?? state.to) : null, follow: false }, false);
		const place = this.canvas.getBoundingClientRect();
		showTip(this.tipAt(state.to!), place.left + xOf(this.data, this.box, state.to!), place.top + 40);
	}

	exports(): Export[] {
		if (!this.data) return [];
		return [{ name: "timeline.png", title: "timeline (PNG)", make: () => pngOf(1600, 240, color("back"), (pen) => this.drawAll(pen, 1600, 240)) },
			{ name: "timeline.svg", title: "timeline (SVG)", make: () => {
				const pen = new SvgPen(1600, 240, color("back"));
				this.drawAll(pen, 1600, 240);
				return pen.blob();
			} },
			{ name: "timeline.json", title: "timeline (JSON)", make: () => new Blob([JSON.stringify(this.answer)], { type: "application/json" }) }];
	}
}

/** All that can be an end of a range, by time. */
function marksOf(a: Timeline): Mark[] {
	const marks: Mark[] = (a.marks ?? []).map((m) => ({ ...m, kind: "mark" }));
	for (const mode of a.modes ?? []) marks.push({ ...mode, kind: "mode" });
	for (const pause of a.pauses ?? []) {
		marks.push({ time_ns: pause.start_ns, kind: "pause", name: "" });
		if (pause.end_ns < a.to_ns) marks.push({ time_ns: pause.end_ns, kind: "resume", name: "" });
	}
	return marks.sort((p, q) => p.time_ns - q.time_ns);
}

function markText(mark: Mark): string {
	return visible(mark.kind === "mark" ? mark.name : mark.name ? `${mark.kind}: ${mark.name}` : mark.kind);
}
