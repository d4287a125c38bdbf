// SPDX-License-Identifier: Apache-2.0
// A source file, each line with what it costs; where the text is not at hand, the lines alone.
import { ask, type Found, selection } from "../api";
import { clear, h } from "../dom";
import { base, percent, visible } from "../format";
import { figure, go, state } from "../state";
import { explain } from "../tip";
import { costTitle, exactValue, type Export, say, sayError, value, type View } from "../view";

interface Line { line: number; function: string | null; self: number; inclusive: number }
interface Answer extends Found {
	file: string; lines: Line[]; text: Array<{ line: number; text: string }>; found: string | null; problem: string | null; editor: string | null;
}

export class Source implements View {
	name = "source";
	title = "Source";
	help = "The lines of a file, each with what its calls lead to.";
	private drawn: Answer | null = null;

	async draw(element: HTMLElement): Promise<void> {
		if (!state.file) {
			say(element, "Choose a line in the view Functions: its file opens here.");
			return;
		}
		let answer: Answer;
		try {
			answer = await ask<Answer>("view", "source", { ...selection(), order: figure(), file: state.file });
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name || (answer === this.drawn && element.querySelector(".source"))) return;
		this.drawn = answer;
		this.build(element, answer);
	}

	private build(element: HTMLElement, a: Answer): void {
		const costs = new Map<number, Line>();
		for (const line of a.lines) {
			const known = costs.get(line.line);
			costs.set(line.line, known ? { ...known, self: known.self + line.self, inclusive: Math.max(known.inclusive, line.inclusive) } : line);
		}
		const most = Math.max(1, ...a.lines.map((l) => l.inclusive));
		const whole = a.totals[figure()] ?? 0;
		const texts = a.text.length ? a.text : a.lines.map((l) => ({ line: l.line, text: l.function ?? "" }));
		const rows = texts.map(({ line, text }) => {
			const cost = costs.get(line);
			const bar = h("span", { class: "bar" });
			bar.style.width = cost ? (cost.inclusive / most) * 100 + "%" : "0";
			const row = h("div", { class: "source-line" + (cost ? " hot" : ""), id: "line-" + line },
			h("span", { class: "num source-cost" }, bar, h("span", {}, cost?.inclusive ? value(cost.inclusive) : "")),
			h("span", { class: "num muted" }, this.number(a, line)), h("code", {}, text || " "));
			return cost ? explain(row, () => [h("b", {}, `${base(a.file)}:${line} ${visible(cost.function ?? "")}`), h("div", {}, `${value(cost.inclusive)} · ${percent(cost.inclusive, whole)}, itself ${value(cost.self)}`),
				h("div", { class: "muted" }, exactValue(cost.inclusive))]) : row;
		});
		clear(element, h("h2", {}, base(a.file), h("small", { class: "muted" }, a.found ?? a.file), h("small", { class: "muted" }, costTitle())),
			a.problem && h("p", { class: "muted" }, a.problem), h("div", { class: "source" }, ...rows));
		const first = [...costs.values()].sort((p, q) => q.inclusive - p.inclusive)[0];
		const at = state.line || first?.line;
		if (at) element.querySelector("#line-" + at)?.scrollIntoView({ block: "center" });
	}

	exports(): Export[] {
		const answer = this.drawn;
		return answer ? [{ name: base(answer.file) + ".json", title: "lines with their figures (JSON)", make: () => new Blob([JSON.stringify(answer, null, "\t")], { type: "application/json" }) }] : [];
	}

	/** The number of a line leads into the editor. */
	private number(a: Answer, line: number): Node {
		if (!a.editor || !a.found || !a.found.startsWith("/")) return document.createTextNode(String(line));
		const file = a.found.split("/").map(encodeURIComponent).join("/");
		const href = a.editor.replace("{file}", file).replace("{line}", String(line));
		return /^[a-z][a-z0-9+.-]*:/i.test(href) && !/^(javascript|data|vbscript):/i.test(href)
			? h("a", { href, title: "open in the editor" }, line) : document.createTextNode(String(line));
	}
}

export function openSource(file: string, line: number | null): void {
	go({ view: "source", file, line: line ?? 0 });
}
