// SPDX-License-Identifier: Apache-2.0
// Sizes and lifetimes: how many of which, in steps of two (sizes also finer), and who
// is behind each.
import { ask, type Bucket, type Found, selection } from "../api";
import { clear, color, h } from "../dom";
import { bytes, count, duration, exact, percent, visible } from "../format";
import { seriesColor } from "../palette";
import { go, state } from "../state";
import { type Pen, pngOf, SvgPen } from "../svg";
import { explain } from "../tip";
import { transforms } from "../transforms";
import { addTerm } from "./functions";
import { choice, dropButtons, emptyText, type Export, say, sayError, type View } from "../view";

interface Answer extends Found { unit: string; buckets: Bucket[] }

export class Histogram implements View {
	private answer: Answer | null = null;
	private rows: Bucket[] = [];

	constructor(readonly name: string, readonly title: string, readonly help: string, private what: "sizes" | "lifetimes") {}

	async draw(element: HTMLElement): Promise<void> {
		const fine = this.what === "sizes" && state.fine;
		if (!element.querySelector(".histogram")) say(element, fine ? "Counting single blocks…" : "Counting…");
		let answer: Answer;
		try {
			answer = await ask<Answer>("view", this.what, { ...selection(), ...(fine ? { fine } : {}) });
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		this.answer = answer;
		if (!answer.buckets.length) {
			say(element, emptyText(), dropButtons());
			return;
		}
		this.rows = fine ? answer.buckets : this.withGaps(answer.buckets);
		const all = this.all(), most = Math.max(...answer.buckets.map((b) => b.count));
		clear(element, h("div", { class: "tools" }, this.what === "sizes" && choice([["", "steps of two"], ["1", "fine steps"]], state.fine ? "1" : "", (v) => go({ fine: v === "1" }, false), "Steps"),
			h("span", { class: "muted" }, `${count(all)} in all. Click a step to see only its blocks.`)), h("nav", { class: "crumbs" }, ...transforms()),
			h("div", { class: "histogram" },
				h("div", { class: "histogram-head" }, h("span", {}, this.what === "sizes" ? "size" : "lifetime"), h("span", {}, "count"), h("span", {}, "share"), h("span", {}, "most of them by")),
				...this.rows.map((bucket) => this.row(bucket, all, most))));
	}

	private all(): number {
		return this.answer!.buckets.reduce((sum, b) => sum + b.count, 0);
	}

	/** Steps without any, so that the shape is true. */
	private withGaps(buckets: Bucket[]): Bucket[] {
		const rows: Bucket[] = [];
		for (let i = bucketOf(buckets[0]!.most); i <= bucketOf(buckets[buckets.length - 1]!.most); i++)
			rows.push(buckets.find((b) => bucketOf(b.most) === i) ?? { least: i ? 2 ** (i - 1) : 0, most: i ? 2 ** i - 1 : 0, count: 0, sites: [] });
		return rows;
	}

	private range(bucket: Bucket): string {
		const unit = this.what === "sizes" ? bytes : (us: number) => duration(us * 1000);
		return bucket.most === bucket.least || (bucket.most <= 1 && this.what === "sizes") ? unit(bucket.most) : `${unit(bucket.least)} – ${unit(bucket.most)}`;
	}

	private row(bucket: Bucket, all: number, most: number): Node {
		const bar = h("span", { class: "bar" });
		bar.style.width = (bucket.count / most) * 100 + "%";
		const by = bucket.sites.slice(0, 3).map((s) => `${visible(s.function ?? "(no name)")} ${percent(s.count, bucket.count)}`).join(",  ");
		const row = h("button", { class: "histogram-row", disabled: !bucket.count, onclick: () => this.choose(bucket) },
			h("span", { class: "num" }, this.range(bucket)), h("span", { class: "num" }, count(bucket.count)), h("span", { class: "bar-cell" }, bar, h("span", {}, percent(bucket.count, all))), h("span", { class: "top-name muted" }, by));
		return explain(row, () => [h("b", {}, this.range(bucket)), h("div", {}, `${exact(bucket.count)} allocations · ${percent(bucket.count, all)}`),
			...bucket.sites.map((s) => h("div", {}, `${count(s.count)} · ${percent(s.count, bucket.count)}  ${visible(s.function ?? "(no name)")}`))]);
	}

	private choose(bucket: Bucket): void {
		const term = this.what === "sizes" ? `size>=${bucket.least} and size<=${bucket.most}` : `lifetime>=${bucket.least}us and lifetime<=${bucket.most}us`;
		go({ view: "blocks", filter: addTerm(term) });
	}

	private paint(pen: Pen, width: number): void {
		const most = Math.max(1, ...this.rows.map((b) => b.count)), all = this.all();
		pen.clearRect(0, 0, width, this.rows.length * 20 + 40);
		pen.textBaseline = "middle";
		pen.font = "12px system-ui, sans-serif";
		this.rows.forEach((bucket, i) => {
			const y = 20 + i * 20;
			pen.textAlign = "right";
			pen.fillStyle = color("text");
			pen.fillText(this.range(bucket), 170, y + 9);
			pen.fillStyle = seriesColor(0);
			const wide = (bucket.count / most) * (width - 620);
			pen.fillRect(180, y, wide, 17);
			pen.textAlign = "left";
			pen.fillStyle = color("text");
			pen.fillText(`${count(bucket.count)} (${percent(bucket.count, all)})  ${visible(bucket.sites[0]?.function ?? "").slice(0, 50)}`, 186 + wide, y + 9);
		});
	}

	exports(): Export[] {
		if (!this.answer?.buckets.length) return [];
		const high = this.rows.length * 20 + 40;
		const quote = (text: string) => '"' + text.replaceAll('"', '""') + '"';
		return [
			{ name: `${this.name}.png`, title: "picture (PNG)", make: () => pngOf(1200, high, color("back"), (pen) => this.paint(pen, 1200)) },
			{ name: `${this.name}.svg`, title: "drawing (SVG)", make: () => { const pen = new SvgPen(1200, high, color("back")); this.paint(pen, 1200); return pen.blob(); } },
			{ name: `${this.name}.csv`, title: "steps (CSV)", make: () => new Blob(["least,most,count,site,site_count\r\n", ...this.answer!.buckets.flatMap((b) => b.sites.map((s) => `${b.least},${b.most},${b.count},${quote(s.function ?? "")},${s.count}\r\n`))], { type: "text/csv" }) },
			{ name: `${this.name}.json`, title: "steps (JSON)", make: () => new Blob([JSON.stringify(this.answer!.buckets, null, "\t")], { type: "application/json" }) },
		];
	}
}

function bucketOf(most: number): number {
	return most ? Math.round(Math.log2(most + 1)) : 0;
}
