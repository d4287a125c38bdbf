// SPDX-License-Identifier: Apache-2.0
// More of what people do on the page: changes of the stacks, the drawer, exports, marks,
// tips by keyboard and finger, programs that run, servers that restart, hostile traces.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { copyFileSync, existsSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const text = (page, selector) => page.textContent(selector);
const rows = (page) => page.$$eval(".vt-body .vt-row", (list) => list.map((row) => row.textContent));
const param = (page, name) => new URL(page.url()).searchParams.get(name);
const painted = (page) => page.waitForFunction(() => Number(document.querySelector("canvas.flame")?.dataset.boxes) > 0);

async function save(page, name) {
	await page.click('header button:text-is("export")');
	const [file] = await Promise.all([page.waitForEvent("download"), page.click(`dialog[open] .export-list button:has(small:text-is("${name}"))`)]);
	const parts = [];
	for await (const part of await file.createReadStream()) parts.push(part);
	return Buffer.concat(parts).toString("latin1");
}

/** Ends a server of a case's own; the page leaves it first, so that it misses nothing. */
async function end(page, server) {
	page.lastText = await page.evaluate(() => document.body.innerText).catch(() => "");
	await page.goto("about:blank").catch(() => {});
	server?.kill("SIGTERM");
}

/** Goes through all views, one after the other. */
async function eachView(page, look) {
	await page.waitForSelector(".badge");
	for (const view of ["Overview", "Flame", "Tree", "Functions", "Charts", "Sizes", "Lifetimes", "Blocks", "Threads", "Modules", "Source", "Diff", "Growth"]) {
		await page.click(`.tabs button:text-is("${view}")`);
		await page.waitForFunction((name) => document.querySelector("main").className === "view-" + name, view.toLowerCase());
		await page.waitForSelector("main .empty, main canvas, main .vt");
		await look(view);
	}
}

export const cases = [
	{
		name: "pivot",
		async run({ page, open, check, shot }) {
			await open("?view=flame&mode=allocated&pivot=main&fn=main");
			await painted(page);
			check((await text(page, ".transforms")).includes("pivot: main"), "no chip for the pivot");
			const box = await page.locator("canvas.flame").boundingBox();
			const names = [];
			for (let y = 5; y < box.height; y += 19) {
				await page.mouse.move(box.x + 30, box.y + y);
				names.push(await page.evaluate(() => document.querySelector(".tip b")?.textContent ?? ""));
			}
			const at = names.indexOf("main");
			check(at > 0 && /libc_start/.test(names[at - 1]) && names[at + 1] === "cache_insert", "callers above, callees below: " + names.join(", "));
			await shot("pivot");
			await page.click(".transforms .chip");
			await page.waitForFunction(() => !location.search.includes("pivot"));
		},
	},
	{
		name: "merge",
		async run({ page, open, check }) {
			await open("?view=tree&mode=allocated");
			await page.waitForSelector(".vt-body .vt-row");
			await page.click(".tools >> text=modules");
			await page.waitForFunction(() => location.search.includes("merge=module"));
			await page.waitForFunction(() => [...document.querySelectorAll(".vt-body .tree-name")].some((n) => n.textContent.includes("libc.so")));
			check(!(await rows(page)).some((row) => row.includes("cache_insert")), "functions are still there: " + (await rows(page)).join(" | "));
			await page.click(".tools >> text=lines");
			await page.waitForFunction(() => [...document.querySelectorAll(".vt-body .tree-name")].some((n) => /cache_insert.*page\.c:\d+/.test(n.textContent)));
		},
	},
	{
		name: "held",
		async run({ page, open, check, shot }) {
			await open("?view=functions&mode=held");
			await page.waitForSelector(".vt-body .vt-row");
			const first = (await rows(page))[0];
			check(first.includes("·s"), "not in byte-seconds: " + first);
			await open("?view=flame&mode=held&direction=bottom_up");
			await painted(page);
			await shot("held");
		},
	},
	{
		name: "drawer",
		async run({ page, open, check, shot }) {
			await open("?view=tree&mode=allocated");
			await page.waitForSelector(".vt-body .vt-row");
			await page.click('.vt-body .vt-row:has(:text("parse_line"))');
			await page.waitForSelector(".drawer .stack li");
			const said = await text(page, ".drawer");
			check(said.includes("parse_line") && said.includes("3.00 k blocks"), "the drawer: " + said.slice(0, 300));
			await page.waitForSelector(".drawer canvas.spark");
			await page.waitForSelector(".drawer .mini-bars i");
			await page.waitForFunction(() => document.querySelector(".timeline-foot").textContent.includes("parse_line"));
			await shot("drawer");
			await page.click('.drawer-ways button:text-is("only through it")');
			await page.waitForFunction(() => location.search.includes("filter="));
			check(/^function="parse_line"$/.test(param(page, "filter")), "filter: " + param(page, "filter"));
			await page.click(".drawer-ways >> text=its blocks");
			await page.waitForFunction(() => location.search.includes("view=blocks"));
			await page.waitForSelector(".vt-body .vt-row");
			check((await rows(page)).every((row) => row.includes("parse_line")), "blocks of others");
		},
	},
	{
		name: "tree-search",
		async run({ page, open, check, shot }) {
			await open("?view=tree&mode=allocated");
			await page.waitForSelector(".vt-body .vt-row");
			await page.fill('main input[type="search"]', "parse_");
			await page.waitForFunction(() => document.querySelectorAll(".vt-body .hit").length === 1);
			check((await rows(page)).some((row) => row.includes("parse_line")), "parse_line is not found");
			check(!(await rows(page)).some((row) => row.includes("cache_insert")), "what does not match is there");
			check(/1 found/.test(await text(page, ".tools")), "how many: " + (await text(page, ".tools")));
			await shot("tree-search");
			await page.fill('main input[type="search"]', "");
			await page.click('.vt-head button:text-is("itself")');
			await page.waitForFunction(() => location.search.includes("sort=self"));
			await page.focus(".vt");
			await page.keyboard.press("ArrowDown");
			await page.waitForSelector(".tip");
		},
	},
	{
		name: "exports",
		async run({ page, open, check, shot }) {
			await open("?view=charts");
			await page.waitForSelector("canvas.chart");
			const svg = await save(page, "consumed.svg");
			check(svg.includes("<path") && svg.includes("MB"), "the chart as a drawing: " + svg.slice(0, 200));
			check((await save(page, "allocations.csv")).includes("parse_line"), "the chart as a table");
			check((await save(page, "timeline.png")).startsWith("\x89PNG"), "the timeline as a picture");
			await open("?view=sizes");
			await page.waitForSelector(".histogram-row");
			check((await save(page, "sizes.csv")).includes("cache_insert"), "sizes as a table");
			await open("?view=functions&mode=allocated&cost=blocks");
			await page.waitForSelector(".vt-body .vt-row");
			const table = JSON.parse(await save(page, "functions.json"));
			check(table.some((row) => row.name.startsWith("parse_line") && row.figure === 3000), "raw figures in JSON: " + JSON.stringify(table[0]));
			await page.click('header button:text-is("export")');
			await page.waitForSelector('.export-list a[href*="/export/sqlite"]');
			await shot("exports");
			const [file] = await Promise.all([page.waitForEvent("download"), page.click('.export-list a[href*="/export/collapsed"]')]);
			check(file.suggestedFilename().includes("folded"), "for another tool: " + file.suggestedFilename());
		},
	},
	{
		name: "growth",
		async run({ page, open, check, shot }) {
			await open("?view=growth");
			await page.waitForSelector("main .lead");
			check(/stacks were judged/.test(await text(page, "main .lead")), "what was judged: " + (await text(page, "main .lead")));
			await page.waitForSelector(".vt-body .vt-row, .vt .empty");
			await shot("growth");
		},
	},
	{
		name: "fine-sizes",
		async run({ page, open, check, shot }) {
			await open("?view=sizes");
			await page.waitForSelector(".histogram-row");
			const before = (await page.$$(".histogram-row")).length;
			await page.click("text=fine steps");
			await page.waitForFunction((n) => document.querySelectorAll(".histogram-row").length > n, before);
			await page.hover(".histogram-row >> nth=0");
			await page.waitForSelector(".tip");
			check(/allocations/.test(await text(page, ".tip")), "the tip: " + (await text(page, ".tip")));
			await shot("fine-sizes");
		},
	},
	{
		name: "timeline",
		async run({ page, open, check, shot }) {
			/* Marks as the server tells them; this trace has none. */
			await page.route("**/timeline?**", async (route) => {
				const answer = await route.fetch();
				const body = await answer.json();
				const at = (share) => Math.round(body.from_ns + (body.to_ns - body.from_ns) * share);
				if (!route.request().url().includes("from=")) Object.assign(body, { marks: [{ time_ns: at(0.25), name: "loaded" }, { time_ns: at(0.5), name: "<b>served</b>" }], pauses: [{ start_ns: at(0.6), end_ns: at(0.7) }] });
				await route.fulfill({ response: answer, json: body });
			});
			await open("?view=functions&mode=allocated");
			await page.waitForSelector(".chip.mark");
			check((await page.$$(".chip.mark")).length === 4, "two marks, a pause and its end");
			await page.click('.chip.mark:has-text("loaded")');
			await page.waitForFunction(() => location.search.includes("to="));
			check(param(page, "from") === null, "a mark is not a moment");
			await page.click('.chip.mark:has-text("<b>served</b>")');
			await page.waitForFunction(() => location.search.includes("from="));
			check(Number(param(page, "from")) < Number(param(page, "to")), "two marks are not a range");
			await shot("timeline-marks");
			await page.keyboard.press("z");
			await page.waitForFunction(() => location.search.includes("zoomFrom="));
			await page.click('.timeline-buttons button:text-is("zoom out")');
			await page.waitForFunction(() => !location.search.includes("zoomFrom="));
			await page.click('.timeline-buttons button:text-is("whole run")');
			await page.click('.timeline-buttons button:text-is("by site")');
			await page.waitForFunction(() => document.querySelector(".timeline-foot .legend").textContent.includes("cache_insert"));
			await shot("timeline-sites");
			/* The pointer snaps to a mark. */
			const box = await page.locator("canvas.timeline").boundingBox();
			await page.mouse.click(box.x + 62 + (box.width - 74) * 0.25 + 3, box.y + 40);
			await page.waitForFunction(() => location.search.includes("to="));
			const moment = Number(param(page, "to"));
			await page.mouse.move(box.x + 62 + (box.width - 74) * 0.25 - 3, box.y + 40);
			await page.waitForFunction(() => document.querySelector(".tip")?.textContent.includes("loaded"));
			check(moment > 0, "no moment");
		},
	},
	{
		name: "tips",
		async run({ page, open, check }) {
			await open();
			await page.waitForSelector(".card .top-row");
			await page.focus(".tabs button");
			for (let i = 0; i < 60 && !(await page.evaluate(() => document.activeElement?.classList.contains("top-row"))); i++) await page.keyboard.press("Tab");
			await page.waitForSelector(".tip");
			check(/blocks/.test(await text(page, ".tip")) && /average/.test(await text(page, ".tip")), "the tip by keyboard: " + (await text(page, ".tip")));
			await open("?view=charts");
			await page.waitForSelector("canvas.chart");
			await page.focus("canvas.chart");
			await page.keyboard.press("ArrowRight");
			await page.waitForSelector(".tip");
		},
	},
	{
		name: "touch", touch: true, viewport: { width: 390, height: 780 },
		async run({ page, open, check, shot }) {
			await open("?view=flame&mode=allocated&direction=bottom_up");
			await painted(page);
			await page.locator("canvas.flame").scrollIntoViewIfNeeded();
			const box = await page.locator("canvas.flame").boundingBox();
			await page.touchscreen.tap(box.x + 60, box.y + 19 + 9);
			await page.waitForSelector(".tip");
			check(/of the whole/.test(await text(page, ".tip")), "the tip by a tap: " + (await text(page, ".tip")));
			check(param(page, "path") === null, "the first tap zooms already");
			await page.waitForSelector(".drawer .stack li");
			await shot("touch");
			for (const view of ["tree", "functions", "charts", "blocks", "threads", "modules", "sizes"]) {
				await open("?view=" + view);
				await page.waitForSelector(".vt-body .vt-row, canvas.chart, .histogram-row");
				const wide = await page.evaluate(() => document.documentElement.scrollWidth);
				check(wide <= 392, `${view} is ${wide} pixels wide on a phone`);
			}
		},
	},
	{
		name: "restart", other: true, expectsErrors: true,
		async run({ page, check, shot, startServer, folder, trace, tool }) {
			const shown = join(folder, "restart.tide");
			copyFileSync(trace, shown);
			const { server, address } = await startServer("127.0.0.1:0", shown);
			await page.goto(address + "?view=functions&mode=allocated");
			await page.waitForSelector(".vt-body .vt-row");
			server.removeAllListeners("exit");
			const gone = new Promise((done) => server.on("exit", done));
			server.kill("SIGTERM");
			await gone;
			await page.waitForSelector('.badge.bad:has-text("does not answer")', { timeout: 60000 });
			await shot("restart-gone");
			const again = await startServer("127.0.0.1:" + new URL(address).port, shown);
			again.server.removeAllListeners("exit");
			/* Somebody else may have taken the port meanwhile: then there is nothing to see. */
			try {
				if (again.address !== address) return;
				await page.waitForFunction(() => ![...document.querySelectorAll(".badge.bad")].some((b) => !b.hidden && b.textContent.includes("does not answer")), null, { timeout: 60000 });
				await page.click(".tabs >> text=Tree");
				await page.waitForSelector('.vt-body .vt-row:has-text("everything")');
				/* Rotation: another file takes the place of the one that is shown. */
				writeFileSync(join(folder, "other.folded"), "main;quite_other 4096\n");
				execFileSync(tool, ["convert", join(folder, "other.folded"), join(folder, "other.tide")], { stdio: "ignore" });
				renameSync(join(folder, "other.tide"), shown);
				await page.waitForFunction(() => document.querySelector(".quality")?.textContent.includes("collapsed"), null, { timeout: 60000 });
				await page.waitForFunction(() => [...document.querySelectorAll(".vt-body .vt-row")].some((r) => r.textContent.includes("quite_other")), null, { timeout: 60000 });
				check(param(page, "view") === "tree", "the view was lost");
			} finally {
				await end(page, again.server);
			}
		},
	},
	{
		name: "live", other: true,
		async run({ page, check, shot, startServer, folder, tool, target }) {
			const grown = join(folder, "live.tide");
			writeFileSync(join(folder, "counts"), "");
			const program = spawn(tool, ["run", "-q", "-o", grown, "--", target("killed")], { cwd: folder, stdio: "ignore", env: { ...process.env, LEDGER: join(folder, "counts") } });
			let server = null;
			try {
				const started = await startServer("127.0.0.1:0", folder);
				server = started.server;
				server.removeAllListeners("exit");
				const list = async () => (await (await fetch(started.address + "api/v1/traces")).json()).traces.find((t) => t.name === "live.tide");
				let found = null;
				for (let i = 0; i < 600 && !(found && (await fetch(`${started.address}api/v1/traces/${found.id}/summary`)).ok); i++) {
					await new Promise((done) => setTimeout(done, 100));
					found = await list();
				}
				await page.goto(started.address + "?trace=" + found.id);
				await page.waitForSelector(".badge.live.on", { timeout: 60000 });
				const figures = () => page.$$eval(".figure-big", (all) => all.map((f) => f.textContent).join("|"));
				const first = await figures();
				await page.waitForFunction((old) => [...document.querySelectorAll(".figure-big")].map((f) => f.textContent).join("|") !== old, first, { timeout: 60000 });
				await shot("live");
				/* What is pressed is clicked, though the page would have moved on meanwhile. (It may move before.) */
				const hold = async (what) => {
					await page.waitForSelector(what);
					const place = await page.evaluate((w) => document.querySelector(w).getBoundingClientRect().toJSON(), what);
					await page.mouse.move(place.x + place.width / 2, place.y + place.height / 2);
					await page.mouse.down();
					await new Promise((done) => setTimeout(done, 1500));
					await page.mouse.up();
					await new Promise((done) => setTimeout(done, 100));
				};
				for (let i = 0; i < 5 && param(page, "view") !== "flame"; i++) await hold(".overview .top-row");
				check(param(page, "view") === "flame", "a row that was held for a while was not clicked");
				await hold(".badge.live");
				await page.waitForFunction(() => document.querySelector(".badge.live")?.textContent.includes("○"));
				await page.click(".badge.live");
				await page.waitForSelector(".badge.live.on");
				program.kill("SIGTERM");
				await page.waitForFunction(() => !document.querySelector(".badge.live") && /signal|exit/.test(document.querySelector(".quality").textContent), null, { timeout: 60000 });
				check((await text(page, ".quality")).includes("signal 15") || (await text(page, ".quality")).includes("exit"), "how it ended: " + (await text(page, ".quality")));
			} finally {
				program.kill("SIGTERM");
				await end(page, server);
			}
		},
	},
	{
		name: "rotation", other: true,
		async run({ page, check, shot, startServer, folder, tool, target }) {
			const first = join(folder, "turn.tide");
			writeFileSync(join(folder, "turns"), "");
			const program = spawn(tool, ["run", "-q", "-o", first, "--", target("killed")], { cwd: folder, stdio: "ignore", env: { ...process.env, LEDGER: join(folder, "turns") } });
			const asked = (...what) => execFileSync(tool, ["ctl", String(program.pid), ...what], { stdio: ["ignore", "pipe", "ignore"] }).toString();
			let server = null;
			try {
				for (let i = 0; i < 600 && !existsSync(first); i++) await new Promise((done) => setTimeout(done, 100));
				const started = await startServer("127.0.0.1:0", first);
				server = started.server;
				server.removeAllListeners("exit");
				for (let i = 0; i < 600 && !(await fetch(started.address + "api/v1/traces/last/summary")).ok; i++) await new Promise((done) => setTimeout(done, 100));
				await page.goto(started.address + "?view=functions&mode=allocated");
				await page.waitForSelector(".badge.live.on");
				const before = param(page, "trace");
				asked("rotate");
				await page.waitForFunction((old) => new URLSearchParams(location.search).get("trace") !== old, before);
				await page.waitForFunction(() => /turn\.\d+\.tide/.test(document.querySelector(".picker").selectedOptions[0]?.textContent ?? ""));
				await page.waitForSelector(".badge.live.on");
				await page.waitForSelector(".vt-body .vt-row");
				check(param(page, "view") === "functions" && param(page, "mode") === "allocated", "the view was lost: " + page.url());
				await shot("rotation");
				/* The piece before is still there, and says how it ended. */
				await page.selectOption(".picker", before);
				await page.waitForSelector('.badge:has-text("goes on in the next file")');
			} finally {
				program.kill("SIGTERM");
				await end(page, server);
			}
		},
	},
	{
		name: "hostile", other: true,
		async run({ page, check, shot, startServer, folder }) {
			const lines = [];
			for (let i = 0; i < 2000; i++) lines.push(`main;worker_${i % 50};distinct_${i} ${100 + (i % 900)}`);
			lines.push("main;" + Array.from({ length: 10000 }, () => "again").join(";") + " 9000000");
			lines.push("main;\u202etxt.exe\u2066 5000000", "main;<script>alert(1)</script> 4000000", "main;" + "x".repeat(5000) + " 300000");
			writeFileSync(join(folder, "hostile.folded"), lines.join("\n") + "\n");
			const { server, address } = await startServer("127.0.0.1:0", join(folder, "hostile.folded"));
			server.removeAllListeners("exit");
			try {
				await page.goto(address + "?view=flame");
				await painted(page);
				const high = await page.evaluate(() => document.querySelector(".flame-scroll").scrollHeight);
				check(high > 15000, `recursion is not as deep as it was: ${high} pixels`);
				await page.evaluate(() => { const s = document.querySelector(".flame-scroll"); s.scrollTop = s.scrollHeight / 2; });
				await page.waitForFunction(() => Number(document.querySelector("canvas.flame").dataset.boxes) > 0);
				await shot("hostile-deep");
				await page.click(".chips >> text=recursion");
				await page.waitForFunction(() => document.querySelector(".flame-scroll").scrollHeight < 2000);
				await page.goto(address + "?view=functions");
				await page.waitForSelector(".vt-body .vt-row");
				const all = (await rows(page)).join("\n");
				check(all.includes("\\u202etxt.exe") && !all.includes("\u202e"), "a name turns text around");
				check(all.includes("<script>alert(1)</script>"), "markup is not shown as it is");
				await shot("hostile");
			} finally {
				await end(page, server);
			}
		},
	},
	{
		name: "million", other: true,
		async run({ page, check, shot, startServer, folder }) {
			const lines = [];
			for (let i = 0; i < 1000000; i++) lines.push(`main;worker_${i % 50};distinct_${i} ${100 + (i % 900)}`);
			writeFileSync(join(folder, "million.folded"), lines.join("\n") + "\n");
			const { server, address } = await startServer("127.0.0.1:0", join(folder, "million.folded"));
			server.removeAllListeners("exit");
			try {
				await page.goto(address + "?view=functions");
				await page.waitForSelector(".vt-body .vt-row");
				check(/1\.00 M rows/.test(await text(page, ".tools")), "rows: " + (await text(page, ".tools")));
				await page.fill('main input[type="search"]', "distinct_999999");
				await page.keyboard.press("Enter");
				await page.waitForFunction(() => document.querySelectorAll(".vt-body .vt-row").length === 1);
				check((await rows(page))[0].includes("distinct_999999"), "one of a million is not found: " + (await rows(page)).join(" | "));
				await page.click(".tabs >> text=Flame");
				await painted(page);
				await shot("million");
			} finally {
				await end(page, server);
			}
		},
	},
	{
		name: "empty", other: true,
		async run({ page, check, shot, startServer, folder, tool, target }) {
			const none = join(folder, "empty.tide");
			execFileSync(tool, ["run", "-q", "-o", none, "--", "/bin/true"], { stdio: "ignore" });
			spawnSync(tool, ["run", "-q", "-o", join(folder, "nothing.tide"), "--", target("nothing")], { stdio: "ignore" });
			const { server, address } = await startServer("127.0.0.1:0", none);
			server.removeAllListeners("exit");
			try {
				await page.goto(address + "?filter=" + encodeURIComponent("size>1T"));
				await eachView(page, async () => {});
				/* A recording in which nothing was allocated at all: each view says so, none fails. */
				const nothing = await startServer("127.0.0.1:0", join(folder, "nothing.tide"));
				nothing.server.removeAllListeners("exit");
				try {
					await page.goto(nothing.address);
					await eachView(page, async (view) => {
						const said = await text(page, "main");
						check(!/NaN|Infinity|undefined/.test(said), `${view} of nothing: ${said.slice(0, 200)}`);
					});
					await shot("nothing");
				} finally {
					await end(page, nothing.server);
				}
				await page.goto(address + "?view=flame&filter=" + encodeURIComponent("size>1T"));
				await page.waitForSelector("main .empty button");
				await shot("empty");
				await page.click("text=drop the filter");
				await page.waitForFunction(() => !location.search.includes("filter="));
				await page.waitForFunction(() => /Nothing was recorded/.test(document.querySelector("main .empty")?.textContent ?? ""));
			} finally {
				await end(page, server);
			}
		},
	},
];
