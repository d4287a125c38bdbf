// SPDX-License-Identifier: Apache-2.0
// Sizes and lifetimes: how many of which, in steps of two, and who is behind each.
import { ask, type Bucket, type Found, selection } from "../api";
import { clear, h } from "../dom";
import { bytes, count, duration, exact, percent } from "../format";
import { go, state } from "../state";
import { addTerm } from "./functions";
import { emptyText, say, sayError, type View } from "../view";

interface Answer extends Found { unit: string; buckets: Bucket[] }

export class Histogram implements View {
	constructor(readonly name: string, readonly title: string, readonly help: string, private what: "sizes" | "lifetimes") {}

	async draw(element: HTMLElement): Promise<void> {
		let answer: Answer;
		try {
			answer = await ask<Answer>("view", this.what, selection());
		} catch (error) {
			sayError(element, error);
			return;
		}
		if (state.view !== this.name) return;
		if (!answer.buckets.length) {
			say(element, emptyText());
			return;
		}
		const all = answer.buckets.reduce((sum, b) => sum + b.count, 0);
		const most = Math.max(...answer.buckets.map((b) => b.count));
		const first = answer.buckets[0]!, last = answer.buckets[answer.buckets.length - 1]!;
		const rows: Node[] = [];
		for (let i = bucketOf(first.most); i <= bucketOf(last.most); i++) {
			const bucket = answer.buckets.find((b) => bucketOf(b.most) === i) ?? { least: i ? 2 ** (i - 1) : 0, most: i ? 2 ** i - 1 : 0, count: 0, sites: [] };
			rows.push(this.row(bucket, all, most));
		}
		clear(element, h("div", { class: "histogram" },
			h("p", { class: "muted" }, `${this.help} ${count(all)} in all. Click a step to see only its blocks.`),
			h("div", { class: "histogram-head" }, h("span", {}, this.what === "sizes" ? "size" : "lifetime"), h("span", {}, "count"), h("span", {}, "share"), h("span", {}, "most of them by")),
			...rows));
	}

	private row(bucket: Bucket, all: number, most: number): Node {
		const unit = this.what === "sizes" ? bytes : (us: number) => duration(us * 1000);
		const range = bucket.most <= 1 && this.what === "sizes" ? unit(bucket.most) : `${unit(bucket.least)} – ${unit(bucket.most)}`;
		const bar = h("span", { class: "bar" });
		bar.style.width = (bucket.count / most) * 100 + "%";
		const by = bucket.sites.slice(0, 3).map((s) => `${s.function ?? "(no name)"} ${percent(s.count, bucket.count)}`).join(",  ");
		return h("button", { class: "histogram-row", disabled: !bucket.count, title: `${exact(bucket.count)} · ${percent(bucket.count, all)}\n${by}`, onclick: () => this.choose(bucket) },
			h("span", { class: "num" }, range), h("span", { class: "num" }, count(bucket.count)), h("span", { class: "bar-cell" }, bar, h("span", {}, percent(bucket.count, all))), h("span", { class: "top-name muted" }, by));
	}

	private choose(bucket: Bucket): void {
		const term = this.what === "sizes" ? `size>=${bucket.least} and size<=${bucket.most}` : `lifetime>=${bucket.least}us and lifetime<=${bucket.most}us`;
		go({ view: "blocks", filter: addTerm(term) });
	}
}

function bucketOf(most: number): number {
	return most ? Math.round(Math.log2(most + 1)) : 0;
}
