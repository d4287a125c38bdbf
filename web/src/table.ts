// SPDX-License-Identifier: Apache-2.0
// A table that draws only the rows in sight. Rows have one height; the header
// stays; a bar behind a number shows its share.
import { h } from "./dom";

export interface Column<T> {
	key: string;
	title: string;
	help?: string;
	number?: boolean;
	width?: string;
	cell: (row: T, index: number) => Node | string;
	/** 0 to 1: length of the bar behind the cell. */
	share?: (row: T) => number;
	sortable?: boolean;
	text?: (row: T) => string; // for copying and CSV; the cell's text if not given
}
export interface TableOptions<T> {
	columns: Column<T>[];
	empty: string;
	sort?: string;
	onSort?: (key: string) => void;
	onSelect?: (row: T, index: number) => void;
	isSelected?: (row: T) => boolean;
	/** Asked when the end comes in sight. */
	onEnd?: () => void;
	label: string;
}

const ROW = 26;

export class VirtualTable<T> {
	readonly element: HTMLElement;
	private head = h("div", { class: "vt-row vt-head", role: "row" });
	private body = h("div", { class: "vt-body" });
	private rows: T[] = [];
	private focus = -1;
	private template: string;

	constructor(private options: TableOptions<T>) {
		this.element = h("div", { class: "vt", role: "table", tabindex: 0, "aria-label": options.label }, this.head, this.body);
		this.template = options.columns.map((c) => c.width ?? (c.number ? "minmax(6.5em, auto)" : "minmax(12em, 1fr)")).join(" ");
		this.element.addEventListener("scroll", () => this.draw(), { passive: true });
		this.element.addEventListener("keydown", (e) => this.key(e));
		new ResizeObserver(() => this.draw()).observe(this.element);
	}

	set(rows: T[]): void {
		this.rows = rows;
		this.focus = -1;
		this.drawHead();
		this.draw();
	}

	private drawHead(): void {
		this.head.style.gridTemplateColumns = this.template;
		this.head.replaceChildren(...this.options.columns.map((column) => {
			const sorted = this.options.sort === column.key;
			const cell = h("div", { class: "vt-cell" + (column.number ? " num" : "") + (sorted ? " sorted" : ""), role: "columnheader",
				title: column.help ?? "", "aria-sort": sorted ? "descending" : undefined });
			if (column.sortable && this.options.onSort)
				cell.append(h("button", { class: "plain", onclick: () => this.options.onSort!(column.key) }, column.title + (sorted ? " ▾" : "")));
			else cell.append(column.title);
			return cell;
		}));
	}

	draw(): void {
		const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - 8);
		const last = Math.min(this.rows.length, first + Math.ceil(this.element.clientHeight / ROW) + 18);
		const shown: Node[] = [h("div", { class: "vt-space" })];
		(shown[0] as HTMLElement).style.height = first * ROW + "px";
		for (let i = first; i < last; i++) shown.push(this.row(this.rows[i]!, i));
		const rest = h("div", { class: "vt-space" });
		rest.style.height = (this.rows.length - last) * ROW + "px";
		shown.push(rest);
		if (!this.rows.length) shown.push(h("div", { class: "empty" }, this.options.empty));
		this.body.replaceChildren(...shown);
		if (last >= this.rows.length - 5 && this.rows.length) this.options.onEnd?.();
	}

	private row(row: T, index: number): HTMLElement {
		const selected = this.options.isSelected?.(row) || index === this.focus;
		const element = h("div", { class: "vt-row" + (selected ? " selected" : ""), role: "row", onclick: () => this.choose(index) });
		element.style.gridTemplateColumns = this.template;
		for (const column of this.options.columns) {
			const cell = h("div", { class: "vt-cell" + (column.number ? " num" : ""), role: "cell" });
			if (column.share) {
				const bar = h("span", { class: "vt-bar" });
				bar.style.width = Math.max(0, Math.min(100, column.share(row) * 100)) + "%";
				cell.append(bar);
			}
			cell.append(column.cell(row, index));
			element.append(cell);
		}
		return element;
	}

	private choose(index: number): void {
		this.focus = index;
		const row = this.rows[index];
		if (row !== undefined) this.options.onSelect?.(row, index);
		this.draw();
	}

	private key(event: KeyboardEvent): void {
		const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
		if (!by || !this.rows.length) return;
		event.preventDefault();
		const index = Math.max(0, Math.min(this.rows.length - 1, this.focus + by));
		const top = index * ROW;
		if (top < this.element.scrollTop) this.element.scrollTop = top;
		else if (top + 2 * ROW > this.element.scrollTop + this.element.clientHeight) this.element.scrollTop = top - this.element.clientHeight + 3 * ROW;
		this.choose(index);
	}

	/** All rows as comma separated values. */
	csv(): string {
		const quote = (text: string) => (/[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
		const text = (column: Column<T>, row: T, i: number) => {
			if (column.text) return column.text(row);
			const cell = column.cell(row, i);
			return typeof cell === "string" ? cell : (cell.textContent ?? "");
		};
		const lines = [this.options.columns.map((c) => quote(c.title)).join(",")];
		this.rows.forEach((row, i) => lines.push(this.options.columns.map((c) => quote(text(c, row, i))).join(",")));
		return lines.join("\r\n") + "\r\n";
	}
}
