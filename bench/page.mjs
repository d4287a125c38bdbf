// SPDX-License-Identifier: Apache-2.0
// node page.mjs PACKAGE.JSON ADDRESS [small]: the page in headless Chromium; of a small trace
// only its first view and its flame graph, since it has no ranges to tell apart. One object per
// line: what, value, unit, limit. Times of script and paint are CPU times of the page's thread, from Chromium's trace.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, address, small] = process.argv.slice(2);
const { chromium } = createRequire(packages)("playwright-core");
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage({ viewport: { width: 1366, height: 768 } });
const say = (what, value, unit, limit) => console.log(JSON.stringify({ what, value, unit, limit }));
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

/** Milliseconds from an act until the answer is drawn: the frame after the last change of the page. */
async function drawn(act, ready) {
	const before = Date.now();
	await act();
	await ready();
	return Date.now() - before;
}

const first = await drawn(() => page.goto(address, { waitUntil: "load" }), () => page.waitForSelector(".card .top-row, .card .empty"));
say("first view, drawn", first, "ms", 1000);

/* From the answer to the picture: what the page itself adds to a change of the range. */
await page.goto(address + "?view=flame");
await page.waitForSelector("canvas.flame");
await page.waitForSelector(".timeline-foot .legend-item");
const adds = [];
for (let i = 0; i < (small ? 0 : 20); i++) {
	const from = 2 * i, to = from + 15 + ((i * 37) % 40);
	const box = await page.locator("canvas.timeline").boundingBox();
	const x = (percent) => box.x + 62 + ((box.width - 74) * percent) / 100;
	const answered = page.waitForEvent("requestfinished", { predicate: (r) => r.url().includes("/tree?"), timeout: 120000 });
	await page.mouse.move(x(from), box.y + 50);
	await page.mouse.down();
	await page.mouse.move(x(to), box.y + 50);
	await page.mouse.up();
	await answered;
	const start = performance.now();
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
	adds.push(performance.now() - start);
}
if (adds.length) say("a range, drawn after its answer, median", median(adds), "ms", 100);

/** A tree of many boxes, all of them in sight: what the server would send of a wide program. */
function madeUp(rows, perRow) {
	const n = 1 + rows * perRow, tree = { frames: [], frame: [0], key: [0], parent: [0], left_out: [0], value: [perRow * 1000], self: [0], other: [perRow] };
	for (let i = 0; i < 400; i++)
		tree.frames.push({ function: `package_${i % 20}::function_${i}`, module: `lib${i % 20}.so`, address: "0x1", file: "a.c", line: i, column: null, inlined: false, source: "dwarf", kind: i % 3 ? "application" : "library", package: `package_${i % 20}` });
	/* Preorder: each of the columns goes all the way down. */
	for (let column = 0; column < perRow; column++)
		for (let depth = 0; depth < rows; depth++) {
			tree.parent.push(depth ? tree.frame.length - 1 : 0);
			tree.frame.push((column * 7 + depth * 13) % 400);
			tree.key.push(column);
			tree.left_out.push(0);
			tree.value.push(1000);
			tree.self.push(depth === rows - 1 ? 1000 : 0);
			tree.other.push(1);
		}
	if (tree.frame.length !== n) throw new Error("made up wrongly");
	return { from_ns: 0, to_ns: 1, mode: "peak", found_by: "aggregates", event_blocks_read: 0, unread_events: 0, snapped: false, peak_time_ns: 0, totals: { peak_bytes: perRow * 1000 }, order: "peak_bytes", other_figure: "peak_allocations", ...tree };
}

/** Milliseconds of script and paint per frame while the graph is stretched and moved. */
async function frames() {
	const events = [];
	const client = await page.context().newCDPSession(page);
	client.on("Tracing.dataCollected", ({ value }) => events.push(...value));
	const ended = new Promise((done) => client.once("Tracing.tracingComplete", done));
	await client.send("Tracing.start", { categories: "devtools.timeline,disabled-by-default-devtools.timeline", transferMode: "ReportEvents" });
	const box = await page.locator("canvas.flame").boundingBox();
	const boxes = [];
	await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
	for (let i = 0; i < 60; i++) {
		/* Small steps around the whole picture: every frame draws nearly all boxes. */
		await page.locator("canvas.flame").dispatchEvent("wheel", { deltaY: i % 2 ? 2 : -2, ctrlKey: i % 4 < 2, shiftKey: i % 4 >= 2, clientX: box.x + box.width * 0.3, clientY: box.y + 60, bubbles: true, cancelable: true });
		boxes.push(await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done(Number(document.querySelector("canvas.flame").dataset.boxes))))));
	}
	await client.send("Tracing.end");
	await ended;
	const of = (...names) => events.filter((e) => names.includes(e.name) && e.ph === "X").map((e) => (e.tdur ?? e.dur) / 1000);
	/* Those in which something was drawn: the others are this script's own. */
	const scripts = of("FireAnimationFrame").sort((a, b) => b - a).slice(0, 60);
	const sum = (list) => list.reduce((a, b) => a + b, 0);
	return { boxes: median(boxes), script: median(scripts.length ? scripts : [0]), paint: sum(of("PrePaint", "Paint", "Layerize", "Commit")) / Math.max(1, scripts.length) };
}

await page.goto(address + "?view=flame&mode=allocated&cost=blocks");
await page.waitForSelector("canvas.flame");
const real = await frames();
say(`flame graph as it is (${real.boxes} boxes): script and paint per frame`, real.script + real.paint, "ms", 8);

await page.setViewportSize({ width: 1600, height: 1300 });
await page.route("**/tree?**", (route) => route.fulfill({ json: madeUp(40, 500) }));
await page.goto(address + "?view=flame");
await page.waitForFunction(() => Number(document.querySelector("canvas.flame")?.dataset.boxes) > 0);
const many = await frames();
say(`flame graph with ${many.boxes} boxes drawn: script per frame, median`, many.script, "ms");
say(`flame graph with ${many.boxes} boxes drawn: script and paint per frame`, many.script + many.paint, "ms", 8);
await browser.close();
