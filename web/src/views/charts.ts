// SPDX-License-Identifier: Apache-2.0
// Charts over the selected range: live bytes by site, allocations, temporary ones.
import { ask, type Timeline } from "../api";
import { type ChartData, drawChart, drawOn, type Layout, pointAt, type Series, timeOf, xOf } from "../chart";
import { type Child, clear, color, h } from "../dom";
import { bytes, count, moment, percent, visible } from "../format";
import { seriesColor } from "../palette";
import { go, state } from "../state";
import { pngOf, SvgPen } from "../svg";
import { explain, hideTip, showTip } from "../tip";
import { type Export, say, sayError, type View } from "../view";

interface Chart { title: string; file: string; help: string; data: ChartData; names: string[]; canvas: HTMLCanvasElement; box: Layout | null; focus: number }

const OTHERS = "all others";

export class Charts implements View {
	name = "charts";
	title = "Charts";
	help = "The range, one chart per figure, stacked by the sites behind it; drag to select a part, a name in the legend leads to its stacks.";
	private charts: Chart[] = [];
	private observer = new ResizeObserver(() => this.paint());
	private drag: number | null = null;
	private answers: Timeline[] = [];

	async draw(element: HTMLElement): Promise<void> {
		const params: Record<string, string | number> = { points: 500, top: 8 };
		if (state.from !== null) params.from = state.from / 1e9 + "s";
		if (state.to !== null && state.from !== null) params.to = state.to / 1e9 + "s";
		if (state.filter) params.filter = state.filter;
		let answers: Timeline[];
		if (!element.querySelector(".charts")) say(element, "Drawing…");
		try {
			answers = await Promise.all(["peak", "allocations", "temporary"].map((by) => ask<Timeline>("chart-" + by, "timeline", { ...params, by })));
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name || (answers.every((a, i) => a === this.answers[i]) && element.querySelector(".charts"))) return;
		this.answers = answers;
		const [peak, made, temporary] = answers as [Timeline, Timeline, Timeline];
		this.charts = [
			this.stacked(peak, "Consumed", "live bytes at each moment, by the sites with the largest share of the peak", (s) => s.live_bytes, peak.live_bytes, bytes, false),
			this.stacked(made, "Allocations", "how often per second memory was asked for, by the sites that do it most", (s) => s.allocations, made.allocations, (v) => count(v) + "/s", true),
			this.stacked(temporary, "Temporary allocations", "per second: freed by the very next step of their thread", (s) => s.temporary, temporary.temporary, (v) => count(v) + "/s", true),
		];
		clear(element, h("div", { class: "charts" }, ...this.charts.map((chart) => this.section(chart))));
		this.charts.forEach((chart) => this.observer.observe(chart.canvas));
		this.paint();
	}

	leave(): void {
		this.observer.disconnect();
		showTip(null);
	}

	private stacked(t: Timeline, title: string, help: string, pick: (s: Timeline["sites"][0]) => number[], whole: number[], unit: (v: number) => string, perSecond: boolean): Chart {
		const seconds = t.end_ns.map((end, i) => Math.max(1, end - t.start_ns[i]!) / 1e9);
		const scale = (values: number[]) => (perSecond ? values.map((v, i) => v / seconds[i]!) : values);
		const series: Series[] = t.sites.map((site, i) => ({ name: visible(site.function ?? "(no name)"), kind: "stack", color: seriesColor(i), values: scale(pick(site)) }));
		const all = scale(whole);
		const rest = all.map((v, i) => Math.max(0, v - series.reduce((sum, s) => sum + s.values[i]!, 0)));
		if (rest.some((v) => v > 0)) series.push({ name: OTHERS, kind: "stack", color: color("rest"), values: rest });
		return { title, file: title.toLowerCase().replaceAll(" ", "-"), help, data: { ends: t.end_ns, from: t.from_ns, to: t.to_ns, unit, series }, names: t.sites.map((s) => s.function ?? ""), box: null, focus: -1,
			canvas: h("canvas", { class: "chart", tabindex: 0, role: "img", "aria-label": `${title}: ${help}. Arrow keys walk along it.` }) };
	}

	private section(chart: Chart): HTMLElement {
		const { canvas, data } = chart;
		canvas.addEventListener("pointermove", (e) => this.move(chart, e));
		canvas.addEventListener("pointerleave", hideTip);
		canvas.addEventListener("pointerdown", (e) => { this.drag = this.time(chart, e); canvas.setPointerCapture(e.pointerId); this.move(chart, e); });
		canvas.addEventListener("pointerup", (e) => this.end(chart, e));
		canvas.addEventListener("keydown", (e) => this.key(chart, e));
		canvas.addEventListener("blur", () => showTip(null));
		const legend = data.series.map((s, i) => {
			const swatch = h("i", { class: "swatch" });
			swatch.style.background = s.color;
			const name = chart.names[i];
			return explain(h("button", { class: "plain legend-item", onclick: () => name && go({ view: "flame", direction: "bottom_up", search: name, fn: name, path: "" }) }, swatch, s.name), () => this.seriesTip(chart, s));
		});
		return h("section", {}, h("h2", {}, chart.title, h("small", { class: "muted" }, chart.help)), canvas, h("div", { class: "legend wrap" }, ...legend));
	}

	private seriesTip(chart: Chart, s: Series): Child[] {
		let most = 0;
		s.values.forEach((v, i) => { if (v > s.values[most]!) most = i; });
		const sum = (values: number[]) => values.reduce((a, v) => a + v, 0);
		const all = chart.data.series.reduce((a, one) => a + sum(one.values), 0);
		return [h("b", {}, s.name), h("div", {}, `at most ${chart.data.unit(s.values[most] ?? 0)} at ${moment(chart.data.ends[most] ?? 0, chart.data.to - chart.data.from)}`),
			h("div", {}, `on average ${chart.data.unit(sum(s.values) / Math.max(1, s.values.length))}, ${percent(sum(s.values), all)} of the chart`)];
	}

	private paint(): void {
		for (const chart of this.charts) if (chart.canvas.isConnected) chart.box = drawChart(chart.canvas, chart.data);
	}

	private time(chart: Chart, event: PointerEvent): number {
		return timeOf(chart.data, chart.box!, event.clientX - chart.canvas.getBoundingClientRect().left);
	}

	private tip(chart: Chart, t: number): Child[] {
		const i = pointAt(chart.data, t);
		const all = chart.data.series.reduce((sum, s) => sum + (s.values[i] ?? 0), 0);
		const lines = chart.data.series.map((s) => ({ s, v: s.values[i] ?? 0 })).filter((x) => x.v > 0).sort((a, b) => b.v - a.v).slice(0, 10)
			.map(({ s, v }) => h("div", {}, `${chart.data.unit(v)} · ${percent(v, all)}  ${s.name}`));
		return [h("b", {}, `${moment(t, chart.data.to - chart.data.from)}: ${chart.data.unit(all)}`), ...lines];
	}

	private move(chart: Chart, event: PointerEvent): void {
		if (chart.box) showTip(this.tip(chart, this.time(chart, event)), event.clientX, event.clientY);
	}

	private key(chart: Chart, event: KeyboardEvent): void {
		const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
		if (!by || !chart.box) return;
		event.preventDefault();
		const n = chart.data.ends.length;
		chart.focus = Math.max(0, Math.min(n - 1, chart.focus < 0 ? 0 : chart.focus + by * Math.ceil(n / 100)));
		const t = chart.data.ends[chart.focus]!, place = chart.canvas.getBoundingClientRect();
		showTip(this.tip(chart, t), place.left + xOf(chart.data, chart.box, t), place.top + 60);
	}

	private end(chart: Chart, event: PointerEvent): void {
		const from = this.drag;
		this.drag = null;
		if (from === null || !chart.box) return;
		const to = this.time(chart, event);
		if (Math.abs(to - from) < (chart.data.to - chart.data.from) / 200) return;
		go({ from: Math.round(Math.min(from, to)), to: Math.round(Math.max(from, to)), follow: false });
	}

	exports(): Export[] {
		return this.charts.flatMap((chart) => [
			{ name: chart.file + ".png", title: `${chart.title} (PNG)`, make: () => pngOf(1200, 360, color("back"), (pen) => drawOn(pen, 1200, 360, chart.data)) },
			{ name: chart.file + ".svg", title: `${chart.title} (SVG)`, make: () => { const pen = new SvgPen(1200, 360, color("back")); drawOn(pen, 1200, 360, chart.data); return pen.blob(); } },
			{ name: chart.file + ".csv", title: `${chart.title} (CSV)`, make: () => this.csv(chart) },
		]);
	}

	private csv(chart: Chart): Blob {
		const quote = (text: string) => '"' + text.replaceAll('"', '""') + '"';
		const lines = [["end_ns", ...chart.data.series.map((s) => quote(s.name))].join(",")];
		chart.data.ends.forEach((end, i) => lines.push([end, ...chart.data.series.map((s) => s.values[i] ?? 0)].join(",")));
		return new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" });
	}
}
