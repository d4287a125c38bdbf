// SPDX-License-Identifier: Apache-2.0
// The one place of range, mode, cost and filters. Changing one changes every view.
import { ask, ApiError, isCancelled } from "./api";
import { clear, h } from "./dom";
import { type Cost, costs, go, type Mode, modes, onChange, state } from "./state";

const folds: Array<[string, string, string]> = [
	["allocator", "allocators", "malloc, operator new and thin wrappers of them"],
	["standard", "standard library", "std::, core::, alloc::, libc"],
	["runtime", "runtime", "start-up code, executors, interpreters"],
	["library", "libraries", "everything that is not the application's own"],
	["recursion", "recursion", "of a function that calls itself, directly or not, only the outermost call"],
];

export class Bar {
	readonly element = h("div", { class: "bar-row" });
	private mode = h("select", { "aria-label": "Which blocks", onchange: () => go({ mode: this.mode.value as Mode }) });
	private cost = h("select", { "aria-label": "Counted in", onchange: () => go({ cost: this.cost.value as Cost }) });
	private filter = h("input", { type: "search", class: "filter", placeholder: "filter: function:parse and size>=4K", "aria-label": "Filter", spellcheck: "false" });
	private problem = h("div", { class: "problem", role: "alert" });
	private chips = h("span", { class: "chips" });

	constructor() {
		for (const [key, mode] of Object.entries(modes)) this.mode.append(h("option", { value: key, title: mode.help }, mode.title));
		for (const [key, title] of Object.entries(costs)) this.cost.append(h("option", { value: key }, title));
		this.filter.addEventListener("change", () => void this.apply());
		this.element.append(h("label", {}, "Show ", this.mode), h("label", {}, " by ", this.cost),
			h("form", { class: "filter-form", onsubmit: (e: Event) => { e.preventDefault(); void this.apply(); } }, this.filter), this.chips, this.problem);
		onChange(() => this.draw());
		this.draw();
	}

	focusFilter(): void {
		this.filter.focus();
	}

	/** The server says at which character a filter is wrong; it is applied only when it is right. */
	private async apply(): Promise<void> {
		const text = this.filter.value.trim();
		this.problem.textContent = "";
		if (text === state.filter) return;
		try {
			if (text) await ask("filter", "timeline", { points: 1, filter: text });
			go({ filter: text, path: "" });
		} catch (error) {
			if (!isCancelled(error)) this.problem.textContent = error instanceof ApiError ? error.message : String(error);
		}
	}

	private draw(): void {
		this.mode.value = state.mode;
		this.cost.value = state.cost;
		if (document.activeElement !== this.filter) this.filter.value = state.filter;
		const on = new Set(state.fold ? state.fold.split(",") : []);
		clear(this.chips, h("span", { class: "muted" }, "hide "), ...folds.map(([key, title, help]) =>
			h("button", { class: "chip" + (on.has(key) ? " on" : ""), title: help, "aria-pressed": String(on.has(key)), onclick: () => {
				if (on.has(key)) on.delete(key);
				else on.add(key);
				go({ fold: [...on].join(","), path: "" });
			} }, title)));
	}
}
