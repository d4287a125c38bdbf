// SPDX-License-Identifier: Apache-2.0
// The call tree as a table: open what is interesting; what was left out is asked for when opened.
import { ask, type Frame, selection, type Tree } from "../api";
import { clear, download, h } from "../dom";
import { bytes, count, percent } from "../format";
import { type Column, VirtualTable } from "../table";
import { figure, go, state } from "../state";
import { choice, costTitle, emptyText, exactValue, frameName, place, say, sayError, value, type View } from "../view";

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
	help = "The same paths as a table: who calls whom, and what that costs.";
	private answer: Tree | null = null;
	private root: Node_ | null = null;
	private total = 0;
	private table: VirtualTable<Node_> | null = null;

	async draw(element: HTMLElement): Promise<void> {
		if (!this.root) say(element, "Loading…");
		let tree: Tree;
		try {
			tree = await ask<Tree>("view", "tree", { ...selection(), order: figure(), direction: state.direction, nodes: 4000,
				...(state.lines ? { lines: 1 } : {}) });
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		/* Only what is selected has changed: what was opened stays open. */
		if (tree === this.answer && this.table?.element.isConnected) {
			this.table.draw();
			return;
		}
		this.answer = tree;
		this.root = build(tree, "", 0);
		this.total = tree.value[0] ?? 0;
		if (!this.total) {
			say(element, emptyText());
			return;
		}
		this.openMain();
		this.table = new VirtualTable<Node_>({
			label: "Call tree", columns: this.columns(), empty: emptyText(),
			onSelect: (node) => { void this.toggle(node); },
			isSelected: (node) => node.frame?.function === state.fn && state.fn !== "",
		});
		clear(element, this.tools(), this.table.element);
		this.show();
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
			{ key: "value", title: costTitle(), number: true, width: "11em", share: (n) => n.value / this.total,
				cell: (n) => h("span", { title: exactValue(n.value) }, `${value(n.value)}  ${percent(n.value, this.total)}`) },
			{ key: "self", title: "itself", number: true, width: "7em", help: "of the paths that end here", cell: (n) => (n.self ? value(n.self) : "") },
			{ key: "other", title: state.cost === "bytes" ? "blocks" : "bytes", number: true, width: "7em",
				cell: (n) => (state.cost === "bytes" ? count(n.other) : bytes(n.other)) },
			{ key: "name", title: "function", cell: (n) => this.label(n), text: (n) => "  ".repeat(n.depth) + (n.frame ? frameName(n.frame) : "everything") },
		];
	}

	private label(node: Node_): Node {
		const mark = node.children.length || node.leftOut ? (node.open ? "▾ " : "▸ ") : "  ";
		const cell = h("span", { class: "tree-name kind-" + (node.frame?.kind ?? "root") }, mark + (node.frame ? frameName(node.frame) : "everything"));
		cell.style.paddingLeft = Math.min(node.depth, 40) * 14 + "px";
		if (node.frame?.file) cell.append(h("span", { class: "muted" }, "  " + place(node.frame)));
		return cell;
	}

	private async toggle(node: Node_): Promise<void> {
		node.open = !node.open;
		if (node.frame?.function) go({ fn: node.frame.function }, false);
		if (node.open && !node.whole && node.leftOut) {
			try {
				const tree = await ask<Tree>("tree-more", "tree", { ...selection(), order: figure(), direction: state.direction, nodes: 2000,
					...(state.lines ? { lines: 1 } : {}), path: node.path });
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

	private show(): void {
		const rows: Node_[] = [];
		const add = (node: Node_) => {
			rows.push(node);
			if (node.open) node.children.forEach(add);
		};
		add(this.root!);
		this.table!.set(rows);
	}

	private tools(): HTMLElement {
		return h("div", { class: "tools" },
			choice([["top_down", "from main down"], ["bottom_up", "from allocators up"]], state.direction,
				(d) => go({ direction: d as "top_down" | "bottom_up", path: "" }), "Direction"),
			h("label", {}, h("input", { type: "checkbox", checked: state.lines, onchange: () => go({ lines: !state.lines, path: "" }) }), " by line"),
			h("button", { class: "small", onclick: () => download("tree.csv", new Blob([this.table!.csv()], { type: "text/csv" })) }, "CSV"));
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
