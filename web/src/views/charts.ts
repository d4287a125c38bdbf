// SPDX-License-Identifier: Apache-2.0
// Charts over the selected range: live bytes by site, allocations, temporary ones.
import { ask, type Timeline } from "../api";
import { type ChartData, drawChart, type Layout, pointAt, type Series, timeOf } from "../chart";
import { clear, color, download, h, showTip } from "../dom";
import { bytes, count, moment } from "../format";
import { seriesColor } from "../palette";
import { go, state } from "../state";
import { say, sayError, type View } from "../view";

interface Chart { title: string; help: string; data: ChartData; canvas: HTMLCanvasElement; box: Layout | null }

export class Charts implements View {
	name = "charts";
	title = "Charts";
	help = "The range, one chart per figure; drag to zoom into it.";
	private charts: Chart[] = [];
	private observer = new ResizeObserver(() => this.paint());
	private drag: number | null = null;

	async draw(element: HTMLElement): Promise<void> {
		const params: Record<string, string | number> = { points: 500, top: 8 };
		if (state.from !== null) params.from = state.from / 1e9 + "s";
		if (state.to !== null && state.from !== null) params.to = state.to / 1e9 + "s";
		if (state.filter) params.filter = state.filter;
		let answers: Timeline[];
		if (!this.charts.length) say(element, "Drawing…");
		try {
			answers = await Promise.all(["peak", "allocations", "temporary"].map((by) => ask<Timeline>("chart-" + by, "timeline", { ...params, by })));
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		this.charts = [
			this.stacked(answers[0]!, "Consumed", "live bytes, by the sites with the largest share of the peak", (s) => s.live_bytes, answers[0]!.live_bytes, bytes, false),
			this.stacked(answers[1]!, "Allocations", "per second, by the sites that allocate most often", (s) => s.allocations, answers[1]!.allocations, (v) => count(v) + "/s", true),
			this.stacked(answers[2]!, "Temporary allocations", "per second: freed by the very next step of their thread", (s) => s.temporary, answers[2]!.temporary, (v) => count(v) + "/s", true),
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
		const series: Series[] = t.sites.map((site, i) => ({ name: site.function ?? "(no name)", kind: "stack", color: seriesColor(i), values: scale(pick(site)) }));
		const all = scale(whole);
		const rest = all.map((v, i) => Math.max(0, v - series.reduce((sum, s) => sum + s.values[i]!, 0)));
		if (rest.some((v) => v > 0)) series.push({ name: "all others", kind: "stack", color: color("rest"), values: rest });
		return { title, help, data: { ends: t.end_ns, from: t.from_ns, to: t.to_ns, unit, series }, box: null,
			canvas: h("canvas", { class: "chart", role: "img", "aria-label": title }) };
	}

	private section(chart: Chart): HTMLElement {
		chart.canvas.addEventListener("pointermove", (e) => this.move(chart, e));
		chart.canvas.addEventListener("pointerleave", () => showTip(null));
		chart.canvas.addEventListener("pointerdown", (e) => { this.drag = this.time(chart, e); chart.canvas.setPointerCapture(e.pointerId); });
		chart.canvas.addEventListener("pointerup", (e) => this.end(chart, e));
		const legend = chart.data.series.map((s) => {
			const swatch = h("i", { class: "swatch" });
			swatch.style.background = s.color;
			return h("button", { class: "plain legend-item", title: s.name, onclick: () => s.name !== "all others" && go({ view: "flame", direction: "bottom_up", search: s.name, fn: s.name }) }, swatch, s.name);
		});
		return h("section", {}, h("h2", {}, chart.title, h("small", { class: "muted" }, chart.help),
			h("button", { class: "small", onclick: () => chart.canvas.toBlob((blob) => blob && download(chart.title + ".png", blob)) }, "PNG")),
		chart.canvas, h("div", { class: "legend wrap" }, ...legend));
	}

	private paint(): void {
		for (const chart of this.charts) if (chart.canvas.isConnected) chart.box = drawChart(chart.canvas, chart.data);
	}

	private time(chart: Chart, event: PointerEvent): number {
		return timeOf(chart.data, chart.box!, event.clientX - chart.canvas.getBoundingClientRect().left);
	}

	private move(chart: Chart, event: PointerEvent): void {
		if (!chart.box) return;
		const t = this.time(chart, event);
		const i = pointAt(chart.data, t);
		const lines = chart.data.series.map((s) => ({ s, v: s.values[i] ?? 0 })).filter((x) => x.v > 0).sort((a, b) => b.v - a.v).slice(0, 10)
			.map(({ s, v }) => h("div", {}, `${chart.data.unit(v)}  ${s.name}`));
		showTip([h("b", {}, moment(t, chart.data.to - chart.data.from)), ...lines], event.clientX, event.clientY);
	}

	private end(chart: Chart, event: PointerEvent): void {
		const from = this.drag;
		this.drag = null;
		if (from === null || !chart.box) return;
		const to = this.time(chart, event);
		if (Math.abs(to - from) < (chart.data.to - chart.data.from) / 200) return;
		go({ from: Math.round(Math.min(from, to)), to: Math.round(Math.max(from, to)), follow: false });
	}
}
