// SPDX-License-Identifier: Apache-2.0
// Which stacks grow, how (steadily, in steps, as a sawtooth), and when memory would be full.
import { ask, type Frame } from "../api";
import { clear, h } from "../dom";
import { bytes, count, duration, percent } from "../format";
import { VirtualTable } from "../table";
import { go, state } from "../state";
import { type Export, frameName, place, say, sayError, type View } from "../view";

interface Shape {
	shape: string; slope_bytes_per_s: number; fit: number; first_bytes: number; last_bytes: number; growth_bytes: number;
	low_bytes: number; high_bytes: number; full_in_s: number | null; live_bytes: number[];
}
type Stack = Shape & { stack: number; share: number; frames: Frame[] };
interface Answer { from_ns: number; to_ns: number; judged: boolean; limit_source: string; limit_bytes: number; total: Shape; stack_count: number; stacks: Stack[] }

export class Growth implements View {
	name = "growth";
	title = "Growth";
	help = "Stacks whose live bytes grow, by what would fill the memory first; start-up and the last tenth are left out.";
	private table: VirtualTable<Stack> | null = null;

	async draw(element: HTMLElement): Promise<void> {
		if (!element.querySelector(".vt")) say(element, "Judging curves…");
		let answer: Answer;
		try {
			const range: Record<string, string | number> = { limit: 500 };
			if (state.from !== null) range.from = state.from / 1e9 + "s";
			if (state.from !== null && state.to !== null) range.to = state.to / 1e9 + "s";
			if (state.filter) range.filter = state.filter;
			answer = await ask<Answer>("view", "growth", range);
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		this.build(element, answer);
	}

	private build(element: HTMLElement, a: Answer): void {
		const most = Math.max(1, ...a.stacks.map((s) => Math.abs(s.growth_bytes)));
		this.table = new VirtualTable<Stack>({
			label: "Stacks that grow", empty: a.judged ? "No stack grows." : "The range is too short to judge growth.",
			onSelect: (s) => { const name = site(s)?.function; if (name) go({ fn: name }, false); }, isSelected: (s) => state.fn !== "" && site(s)?.function === state.fn,
			tip: (s) => [h("b", {}, nameOf(s)), h("div", {}, `${s.shape}: ${rate(s.slope_bytes_per_s)}, ${bytes(s.first_bytes)} → ${bytes(s.last_bytes)}`),
				h("div", {}, `between ${bytes(s.low_bytes)} and ${bytes(s.high_bytes)}; a straight line explains ${percent(s.fit, 1)} of it`),
				...s.frames.slice(0, 6).map((f) => h("div", { class: "muted" }, `${frameName(f)} ${place(f)}`))],
			columns: [
				{ key: "growth", title: "growth", number: true, width: "9em", share: (s) => Math.abs(s.growth_bytes) / most, raw: (s) => s.growth_bytes, cell: (s) => (s.growth_bytes > 0 ? "+" : "") + bytes(s.growth_bytes) },
				{ key: "share", title: "of all growth", number: true, width: "8em", wide: true, raw: (s) => s.share, cell: (s) => percent(s.share, 1) },
				{ key: "rate", title: "slope", number: true, width: "9em", wide: true, raw: (s) => s.slope_bytes_per_s, cell: (s) => rate(s.slope_bytes_per_s) },
				{ key: "shape", title: "shape", width: "9em", cell: (s) => s.shape.replaceAll("_", " ") },
				{ key: "curve", title: "live bytes", width: "11em", wide: true, raw: (s) => s.live_bytes.join(" "), cell: (s) => spark(s.live_bytes) },
				{ key: "full", title: "memory full in", number: true, width: "9em", wide: true, raw: (s) => s.full_in_s, cell: (s) => (s.full_in_s === null ? "–" : duration(s.full_in_s * 1e9)) },
				{ key: "name", title: "allocated by", raw: nameOf, cell: (s) => nameOf(s) },
			],
		});
		this.table.set(a.stacks);
		clear(element, h("p", { class: "lead" }, h("b", {}, `All together: ${a.total.shape.replaceAll("_", " ")}, ${rate(a.total.slope_bytes_per_s)}`),
			a.total.full_in_s !== null && ` The limit of ${bytes(a.limit_bytes)} (${a.limit_source}) would be reached in ${duration(a.total.full_in_s * 1e9)}.`,
			h("span", { class: "muted" }, `  ${count(a.stack_count)} stacks were judged`)), this.table.element);
	}

	exports(): Export[] {
		const table = this.table;
		return table ? [{ name: "growth.csv", title: "table (CSV)", make: () => table.csv() }, { name: "growth.json", title: "table (JSON)", make: () => table.json() }] : [];
	}
}

/** The innermost function that is not an allocator's. */
function site(s: Stack): Frame | undefined {
	return s.frames.find((f) => f.kind !== "allocator" && f.function) ?? s.frames[0];
}

function nameOf(s: Stack): string {
	const frame = site(s);
	return frame ? frameName(frame) : "(no name)";
}

function rate(perSecond: number): string {
	const n = Math.abs(perSecond);
	return n >= 1e4 ? `${bytes(perSecond)}/s` : n * 60 >= 1e4 ? `${bytes(perSecond * 60)}/min` : `${bytes(perSecond * 3600)}/h`;
}

/** A curve as small as a word. */
function spark(values: number[]): Node {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
	const most = Math.max(1, ...values);
	svg.setAttribute("viewBox", "0 0 100 20");
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("class", "row-spark");
	line.setAttribute("points", values.map((v, i) => `${(i / Math.max(1, values.length - 1)) * 100},${19 - (v / most) * 18}`).join(" "));
	svg.append(line);
	return svg;
}
