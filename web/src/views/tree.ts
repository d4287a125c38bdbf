// SPDX-License-Identifier: Apache-2.0
// The call tree as a table: open what is interesting; what was left out is asked for when opened.
import { ask, type Frame, selection, type Tree } from "../api";
import { clear, h } from "../dom";
import { base, bytes, count, percent, visible } from "../format";
import { type Column, VirtualTable } from "../table";
import { figure, go, state } from "../state";
import { mergeChoice, transforms } from "../transforms";
import { choice, costTitle, dropButtons, emptyText, exactValue, type Export, frameName, place, say, sayError, shortPlace, value, type View, workText } from "../view";

interface Node_ {
	frame: Frame | null;
	path: string; // keys from the root
	depth: number;
	value: number;
	self: number;
	other: number;
	leftOut: number;
	children: Node_[];
	open: boolean;
	whole: boolean; // all its children are here
}

export class TreeView implements View {
	name = "tree";
	title = "Tree";
	help = "The same paths as a table: who calls whom, and what that costs. Arrow keys open and close; the selected function's whole stack is at the side.";
	private answer: Tree | null = null;
	private root: Node_ | null = null;
	private total = 0;
	private table: VirtualTable<Node_> | null = null;
	private found = h("span", { class: "muted", role: "status" });
	private crumbs = h("nav", { class: "crumbs" });
	private shown = ""; // how rows were chosen and sorted

	async draw(element: HTMLElement): Promise<void> {
		if (!this.table?.element.isConnected) say(element, workText());
		let tree: Tree;
		try {
			tree = await ask<Tree>("view", "tree", { ...selection(), order: figure(), direction: state.direction, nodes: 4000, merge: state.merge });
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		/* Only what is selected has changed: what was opened stays open. */
		if (tree === this.answer && this.table?.element.isConnected) {
			clear(this.crumbs, ...transforms());
			if (this.shown !== state.search + "\n" + state.sort) this.build(element);
			else this.table.draw();
			return;
		}
		this.answer = tree;
		this.root = build(tree, "", 0);
		this.total = tree.value[0] ?? 0;
		if (!this.total) {
			say(element, emptyText(), dropButtons());
			return;
		}
		this.openMain();
		this.build(element);
	}

	private build(element: HTMLElement): void {
		const active = document.activeElement as HTMLInputElement | null;
		const caret = active?.matches("main .tools input[type=search]") ? active.selectionStart : null;
		this.shown = state.search + "\n" + state.sort;
		this.table = new VirtualTable<Node_>({
			label: "Call tree", columns: this.columns(), empty: state.search ? "No function in this tree has such a name." : emptyText(),
			sort: state.sort || "value", onSort: (key) => go({ sort: key === "value" ? "" : key }, false),
			onSelect: (node) => { void this.toggle(node); }, onKey: (key, node) => this.key(key, node),
			isSelected: (node) => node.frame?.function === state.fn && state.fn !== "", tip: (node) => this.tip(node),
		});
		clear(this.crumbs, ...transforms());
		clear(element, this.tools(), this.crumbs, this.table.element);
		this.show();
		if (caret === null) return;
		const input = element.querySelector<HTMLInputElement>(".tools input[type=search]")!;
		input.focus();
		input.setSelectionRange(caret, caret);
	}

	/** Opens the way down as long as one child has most of it: the interesting part is then in sight. */
	private openMain(): void {
		let node = this.root!;
		for (let i = 0; i < 60; i++) {
			node.open = true;
			const first = node.children[0];
			if (!first || first.value < node.value * 0.5) return;
			node = first;
		}
	}

	private columns(): Column<Node_>[] {
		return [
			{ key: "value", title: "inclusive", help: costTitle(), number: true, width: "11em", sortable: true, share: (n) => n.value / this.total, raw: (n) => n.value,
				cell: (n) => h("span", { title: exactValue(n.value) }, value(n.value), h("span", { class: "muted share" }, percent(n.value, this.total))) },
			{ key: "self", wide: true, title: "itself", number: true, width: "7em", sortable: true, raw: (n) => n.self, help: "of the paths that end here", cell: (n) => (n.self ? value(n.self) : "") },
			{ key: "other", wide: true, title: state.cost === "bytes" ? "blocks" : "bytes", number: true, width: "7em", sortable: true, raw: (n) => n.other,
				cell: (n) => (state.cost === "bytes" ? count(n.other) : bytes(n.other)) },
			{ key: "name", title: state.merge, sortable: true, cell: (n) => this.label(n), raw: (n) => "  ".repeat(n.depth) + this.text(n) },
		];
	}

	private text(node: Node_): string {
		if (!node.frame) return "everything";
		return state.merge === "module" ? visible(base(node.frame.module)) : frameName(node.frame);
	}

	private tip(node: Node_) {
		return [h("b", {}, this.text(node)), h("div", {}, `${value(node.value)} · ${percent(node.value, this.total)} · itself ${value(node.self)}`),
			h("div", { class: "muted" }, exactValue(node.value)),
			node.frame && h("div", { class: "muted" }, [place(node.frame), visible(node.frame.package ?? node.frame.module), node.frame.kind].filter(Boolean).join(" · "))];
	}

	private label(node: Node_): Node {
		const mark = node.children.length || node.leftOut ? (node.open || state.search ? "▾ " : "▸ ") : "  ";
		const hit = state.search && node.frame && this.matches(node);
		const cell = h("span", { class: "tree-name kind-" + (node.frame?.kind ?? "root") + (hit ? " hit" : "") }, mark + this.text(node));
		cell.style.marginLeft = Math.min(node.depth, innerWidth < 640 ? 8 : 40) * 14 + "px";
		if (node.depth > (innerWidth < 640 ? 8 : 40)) cell.prepend(h("span", { class: "muted" }, `${node.depth} `));
		if (node.frame?.file && state.merge !== "module") cell.append(h("span", { class: "muted", title: place(node.frame) }, "  " + shortPlace(node.frame)));
		return cell;
	}

	private key(key: string, node: Node_): boolean {
		if (key === "ArrowRight" && !node.open) void this.toggle(node);
		else if (key === "ArrowLeft" && node.open) void this.toggle(node);
		else if (key === "p" && node.frame?.function) go({ view: "flame", pivot: node.frame.function, fn: node.frame.function, path: "" });
		else return false;
		return true;
	}

	private async toggle(node: Node_): Promise<void> {
		node.open = !node.open;
		if (node.frame?.function && state.merge !== "module") go({ fn: node.frame.function }, false);
		if (node.open && !node.whole && node.leftOut) {
			try {
				const tree = await ask<Tree>("tree-more", "tree", { ...selection(), order: figure(), direction: state.direction, nodes: 2000, merge: state.merge, path: node.path });
				const below = build(tree, node.path, node.depth);
				node.children = below.children;
				node.leftOut = below.leftOut;
				node.whole = true;
			} catch {
				node.open = false;
			}
		}
		this.show();
	}

	private matches(node: Node_): boolean {
		return this.text(node).toLowerCase().includes(state.search.toLowerCase());
	}

	/** The nodes in sight: of a search those that match, and the ways to them. */
	private show(): void {
		const compare: Record<string, (a: Node_, b: Node_) => number> = {
			value: (a, b) => b.value - a.value, self: (a, b) => b.self - a.self, other: (a, b) => b.other - a.other, name: (a, b) => this.text(a).localeCompare(this.text(b)),
		};
		const order = compare[state.sort || "value"] ?? compare.value!;
		const wanted = state.search ? this.ways() : null;
		const rows: Node_[] = [];
		const stack: Node_[] = [this.root!];
		while (stack.length) {
			const node = stack.pop()!;
			rows.push(node);
			if (!node.open && !wanted) continue;
			const children = node.children.filter((c) => !wanted || wanted.has(c)).sort(order);
			for (let i = children.length; i-- > 0;) stack.push(children[i]!);
		}
		this.table!.setSource({ count: wanted && !wanted.size ? 0 : rows.length, at: (i) => rows[i] }, true);
	}

	private ways(): Set<Node_> {
		const wanted = new Set<Node_>(), list: Node_[] = [this.root!], parents: number[] = [-1];
		let hits = 0, sum = 0;
		const inside: boolean[] = [false];
		for (let i = 0; i < list.length; i++) {
			const hit = i > 0 && this.matches(list[i]!);
			if (hit) {
				hits++;
				if (!inside[i]) sum += list[i]!.value;
				for (let k = i; k >= 0 && !wanted.has(list[k]!); k = parents[k]!) wanted.add(list[k]!);
			}
			for (const child of list[i]!.children) {
				list.push(child);
				parents.push(i);
				inside.push(inside[i]! || hit);
			}
		}
		this.found.textContent = `${count(hits)} found, ${percent(sum, this.total)}`;
		return wanted;
	}

	private tools(): HTMLElement {
		if (!state.search) this.found.textContent = "";
		return h("div", { class: "tools" },
			choice([["top_down", "from main down"], ["bottom_up", "from allocators up"]], state.direction,
				(d) => go({ direction: d as "top_down" | "bottom_up", path: "" }), "Direction"), mergeChoice(),
			h("input", { type: "search", placeholder: "search ( / )", value: state.search, "aria-label": "Search in the tree",
				oninput: (e: Event) => go({ search: (e.target as HTMLInputElement).value }, false) }), this.found);
	}

	exports(): Export[] {
		const table = this.table;
		return table ? [{ name: "tree.csv", title: "rows in sight (CSV)", make: () => table.csv() }, { name: "tree.json", title: "rows in sight (JSON)", make: () => table.json() }] : [];
	}
}

function build(tree: Tree, path: string, depth: number): Node_ {
	const nodes: Node_[] = tree.value.map((v, i) => ({
		frame: i ? tree.frames[tree.frame[i]!]! : null, path, depth, value: v, self: tree.self[i]!, other: tree.other[i]!,
		leftOut: tree.left_out[i]!, children: [], open: false, whole: tree.left_out[i] === 0,
	}));
	for (let i = 1; i < nodes.length; i++) {
		const parent = nodes[tree.parent[i]!]!;
		nodes[i]!.path = (parent.path ? parent.path + "." : "") + tree.key[i];
		nodes[i]!.depth = parent.depth + 1;
		parent.children.push(nodes[i]!);
	}
	return nodes[0]!;
}
