// SPDX-License-Identifier: Apache-2.0
// What was changed about the stacks: each change a chip that takes it off again.
import { h } from "./dom";
import { middle, moment, visible } from "./format";
import { go, state } from "./state";
import { choice } from "./view";

function chip(text: string, help: string, drop: () => void): HTMLElement {
	return h("button", { class: "chip on", title: help + "; click takes it off", onclick: drop }, text + " ✕");
}

/** A chip for each of filter, range, pivot, merge and what is hidden. */
export function transforms(): HTMLElement[] {
	const out: HTMLElement[] = [];
	if (state.pivot) out.push(chip(`pivot: ${middle(visible(state.pivot), 40)}`, "callers above, callees below", () => go({ pivot: "" })));
	if (state.merge === "module") out.push(chip("merged by module", "a run of frames of one module is one box", () => go({ merge: "function", path: "" })));
	if (state.merge === "line") out.push(chip("by line", "each line of a function apart", () => go({ merge: "function", path: "" })));
	for (const kind of state.fold ? state.fold.split(",") : [])
		out.push(chip(kind === "recursion" ? "recursion collapsed" : `no ${kind}`, "left out of all stacks", () => go({ fold: state.fold.split(",").filter((k) => k !== kind).join(","), path: "" })));
	if (state.filter) out.push(chip(`filter: ${middle(visible(state.filter), 50)}`, state.filter, () => go({ filter: "", path: "" })));
	if (state.from !== null || state.to !== null) {
		const from = state.from === null ? "at " : moment(state.from, 1e10) + " – ";
		out.push(chip(from + (state.to === null ? "end" : moment(state.to, 1e10)), "the selected range", () => go({ from: null, to: null })));
	}
	return out.length ? [h("span", { class: "transforms" }, ...out)] : [];
}

export function mergeChoice(): HTMLElement {
	return choice([["function", "functions"], ["line", "lines"], ["module", "modules"]], state.merge,
		(m) => go({ merge: m as "function", path: "" }), "A box stands for");
}
