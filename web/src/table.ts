// SPDX-License-Identifier: Apache-2.0
// A table that draws only the rows in sight. Rows have one height; the header
// stays; a bar behind a number shows its share. Its rows may be there, or come page
// by page from a source of any length.
import { type Child, h } from "./dom";
import { hideTip, showTip } from "./tip";

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
	/** Left out where there is little room. */
	wide?: boolean;
	/** For CSV and JSON; the cell's text if not given. */
	raw?: (row: T) => string | number | null;
}
/** Rows that are not all here: undefined means that it was asked for and comes later. */
export interface Source<T> { count: number; at(index: number): T | undefined }
export interface TableOptions<T> {
	columns: Column<T>[];
	empty: string;
	sort?: string;
	onSort?: (key: string) => void;
	onSelect?: (row: T, index: number) => void;
	/** Keys on the chosen row: true if it was for it. */
	onKey?: (key: string, row: T) => boolean;
	isSelected?: (row: T) => boolean;
	tip?: (row: T) => Child[];
	label: string;
}

const ROW = 26;
const TALLEST = 8_000_000; // pixels: what browsers can scroll; longer tables are scaled

export class VirtualTable<T> {
	readonly element: HTMLElement;
	private head = h("div", { class: "vt-row vt-head", role: "row" });
	private body = h("div", { class: "vt-body", role: "rowgroup" });
	private source: Source<T> = { count: 0, at: () => undefined };
	private focus = -1;
	private template: string;
	private columns: Column<T>[];

	constructor(private options: TableOptions<T>) {
		this.element = h("div", { class: "vt", tabindex: 0, role: "table", "aria-label": options.label }, this.head, this.body);
		const narrow = innerWidth < 640;
		this.columns = options.columns.filter((c) => !narrow || !c.wide);
		this.template = this.columns.map((c) => c.width ?? (c.number ? "minmax(6.5em, auto)" : narrow ? "minmax(9em, 1fr)" : "minmax(12em, 1fr)")).join(" ");
		this.element.addEventListener("scroll", () => this.draw(), { passive: true });
		this.element.addEventListener("keydown", (e) => this.key(e));
		this.element.addEventListener("copy", (e) => this.copy(e));
		this.body.addEventListener("pointermove", (e) => this.hover(e));
		this.body.addEventListener("pointerleave", hideTip);
		new ResizeObserver(() => this.draw()).observe(this.element);
	}

	set(rows: T[]): void {
		this.setSource({ count: rows.length, at: (i) => rows[i] });
	}

	setSource(source: Source<T>, keepFocus = false): void {
		this.source = source;
		if (!keepFocus) this.focus = -1;
		this.element.setAttribute("aria-rowcount", String(source.count));
		this.drawHead();
		this.draw();
	}

	private drawHead(): void {
		this.head.style.gridTemplateColumns = this.template;
		this.head.replaceChildren(...this.columns.map((column) => {
			const sorted = this.options.sort === column.key;
			const cell = h("div", { class: "vt-cell" + (column.number ? " num" : "") + (sorted ? " sorted" : ""), role: "columnheader",
				title: column.help ?? "", "aria-sort": sorted ? "descending" : undefined });
			if (column.sortable && this.options.onSort)
				cell.append(h("button", { class: "plain", onclick: () => this.options.onSort!(column.key) }, column.title + (sorted ? " ▾" : "")));
			else cell.append(column.title);
			return cell;
		}));
	}

	private height(): number {
		return Math.min(this.source.count * ROW, TALLEST);
	}

	/** The first row in sight. */
	private top(): number {
		const { count } = this.source;
		const { scrollTop, clientHeight } = this.element;
		if (count * ROW <= TALLEST) return Math.floor(scrollTop / ROW);
		const hidden = Math.max(1, this.height() - clientHeight + ROW);
		return Math.min(count - 1, Math.floor((scrollTop / hidden) * (count - Math.floor(clientHeight / ROW) + 2)));
	}

	draw(): void {
		const { count } = this.source;
		const scaled = count * ROW > TALLEST;
		const first = Math.max(0, this.top() - (scaled ? 0 : 8));
		const last = Math.min(count, first + Math.ceil(this.element.clientHeight / ROW) + (scaled ? 1 : 18));
		const before = scaled ? Math.min(this.element.scrollTop, this.height() - (last - first) * ROW) : first * ROW;
		const shown: Node[] = [this.space(Math.max(0, before))];
		for (let i = first; i < last; i++) shown.push(this.row(this.source.at(i), i));
		shown.push(this.space(Math.max(0, this.height() - before - (last - first) * ROW)));
		if (!count) shown.push(h("div", { class: "empty" }, this.options.empty));
		this.body.replaceChildren(...shown);
	}

	private space(pixels: number): HTMLElement {
		const space = h("div", { class: "vt-space" });
		space.style.height = pixels + "px";
		return space;
	}

	private row(row: T | undefined, index: number): HTMLElement {
		const element = h("div", { class: "vt-row", role: "row", "aria-rowindex": String(index + 1), onclick: () => this.choose(index) });
		element.dataset.index = String(index);
		element.style.gridTemplateColumns = this.template;
		if (row === undefined) {
			element.append(h("div", { class: "vt-cell muted" }, "…"));
			return element;
		}
		if (this.options.isSelected?.(row) || index === this.focus) element.classList.add("selected");
		for (const column of this.columns) {
			const cell = h("div", { class: "vt-cell" + (column.number ? " num" : ""), role: "cell" });
			if (column.share) {
				const bar = h("span", { class: "vt-bar" });
				bar.style.width = Math.max(0, Math.min(100, column.share(row) * 100)) + "%";
				cell.append(bar);
			}
			/* In an element of its own the text stands above the bar. */
			const content = column.cell(row, index);
			cell.append(typeof content === "string" ? h("span", {}, content) : content);
			element.append(cell);
		}
		return element;
	}

	private hover(event: PointerEvent): void {
		const found = (event.target as HTMLElement).closest<HTMLElement>(".vt-row");
		const row = found ? this.source.at(Number(found.dataset.index)) : undefined;
		showTip(row !== undefined && this.options.tip ? this.options.tip(row) : null, event.clientX, event.clientY);
	}

	private choose(index: number): void {
		this.focus = index;
		const row = this.source.at(index);
		if (row !== undefined) this.options.onSelect?.(row, index);
		this.draw();
	}

	private key(event: KeyboardEvent): void {
		const { count } = this.source;
		const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
		const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
		const by = steps[event.key];
		const row = this.focus >= 0 ? this.source.at(this.focus) : undefined;
		if (by === undefined || !count) {
			if (row !== undefined && this.options.onKey?.(event.key, row)) {
				event.preventDefault();
				event.stopPropagation();
			}
			return;
		}
		event.preventDefault();
		this.reveal(Math.max(0, Math.min(count - 1, this.focus + by)));
	}

	/** Scrolls to a row, chooses it, and says what it is. */
	reveal(index: number): void {
		const { clientHeight } = this.element;
		const at = this.source.count * ROW <= TALLEST ? index * ROW : (index / Math.max(1, this.source.count)) * (this.height() - clientHeight);
		if (at < this.element.scrollTop) this.element.scrollTop = at;
		else if (at + 2 * ROW > this.element.scrollTop + clientHeight) this.element.scrollTop = at - clientHeight + 3 * ROW;
		this.choose(index);
		const element = this.body.querySelector<HTMLElement>(`[data-index="${index}"]`);
		const row = this.source.at(index);
		if (!element || row === undefined || !this.options.tip) return;
		const box = element.getBoundingClientRect();
		showTip(this.options.tip(row), box.left + 30, box.bottom - 12);
	}

	private raw(column: Column<T>, row: T, index: number): string | number | null {
		if (column.raw) return column.raw(row);
		const cell = column.cell(row, index);
		return (typeof cell === "string" ? cell : (cell.textContent ?? "")).trim();
	}

	private *all(): Generator<Array<string | number | null>> {
		for (let i = 0; i < this.source.count; i++) {
			const row = this.source.at(i);
			if (row !== undefined) yield this.options.columns.map((c) => this.raw(c, row, i));
		}
	}

	/** The chosen row, or all, as text that a spreadsheet takes. */
	private copy(event: ClipboardEvent): void {
		if (getSelection()?.toString()) return;
		const rows = [...this.all()];
		const chosen = this.focus >= 0 && rows[this.focus] ? [rows[this.focus]!] : rows;
		event.clipboardData?.setData("text/plain", chosen.map((row) => row.join("\t")).join("\n"));
		event.preventDefault();
	}

	/** All rows as comma separated values. */
	csv(): Blob {
		const quote = (value: string | number | null) => {
			const text = value === null ? "" : String(value);
			return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
		};
		const lines = [this.options.columns.map((c) => quote(c.title)).join(",")];
		for (const row of this.all()) lines.push(row.map(quote).join(","));
		return new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" });
	}

	json(): Blob {
		const rows = [...this.all()].map((row) => Object.fromEntries(row.map((value, i) => [this.options.columns[i]!.key, value])));
		return new Blob([JSON.stringify(rows, null, "\t") + "\n"], { type: "application/json" });
	}
}
