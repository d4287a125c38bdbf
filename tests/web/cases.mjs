// SPDX-License-Identifier: Apache-2.0
// What people do on the page. Figures are those of tests/targets/page.c:
//   cache_insert   400 blocks of 4096 bytes, half of them freed by a second thread
//   parse_line     3000 temporary blocks
//   a function whose name is markup: 50 blocks of 100 bytes
const MARKUP = "<img src=x onerror=alert(1)>";

const text = (page, selector) => page.textContent(selector);
const rows = (page) => page.$$eval(".vt-body .vt-row", (list) => list.map((row) => row.textContent));
const param = (page, name) => new URL(page.url()).searchParams.get(name);

async function dragTimeline(page, from, to) {
	const box = await page.locator("canvas.timeline").boundingBox();
	const left = box.x + 62, wide = box.width - 74;
	await page.mouse.move(left + wide * from, box.y + 60);
	await page.mouse.down();
	await page.mouse.move(left + wide * (from + to) / 2, box.y + 60);
	await page.mouse.move(left + wide * to, box.y + 60);
	await page.mouse.up();
}

/** What a file of the export menu has in it. */
async function save(page, name) {
	await page.click('header button:text-is("export")');
	const [file] = await Promise.all([page.waitForEvent("download"), page.click(`dialog[open] .export-list button:has(small:text-is("${name}"))`)]);
	const stream = await file.createReadStream();
	const parts = [];
	for await (const part of stream) parts.push(part);
	return Buffer.concat(parts).toString("latin1");
}

async function flameReady(page) {
	await page.waitForFunction(() => Number(document.querySelector("canvas.flame")?.dataset.boxes) > 0);
}

export const cases = [
	{
		name: "overview",
		async run({ page, open, check, shot }) {
			await open();
			await page.waitForSelector(".words p");
			const words = await text(page, ".words");
			check(/1\.64 MB/.test(await text(page, ".figures")), "the peak is not 1.64 MB: " + (await text(page, ".figures")));
			check(words.includes("cache_insert"), "the words do not name cache_insert: " + words);
			check(/temporary/.test(words) && words.includes("parse_line"), "the words do not name parse_line: " + words);
			const cards = await page.$$eval(".card", (list) => list.map((card) => card.textContent));
			check(cards.length === 4, `${cards.length} cards`);
			check(/exact/.test(await text(page, ".quality")) && /0 lost/.test(await text(page, ".quality")), "quality: " + (await text(page, ".quality")));
			await shot("overview");
			await page.click(".words .link >> nth=0");
			await page.waitForSelector("canvas.flame");
			check(param(page, "view") === "flame", "a sentence does not lead to its view");
		},
	},
	{
		name: "overview-dark", dark: true,
		async run({ page, open, shot }) {
			await open();
			await page.waitForSelector(".card .top-row");
			await shot("overview-dark");
		},
	},
	{
		name: "phone", viewport: { width: 390, height: 780 },
		async run({ page, open, check, shot }) {
			await open();
			await page.waitForSelector(".card .top-row");
			const wide = await page.evaluate(() => document.documentElement.scrollWidth);
			check(wide <= 392, `the page is ${wide} pixels wide on a phone`);
			await shot("phone");
			await open("?view=functions");
			await page.waitForSelector(".vt-body .vt-row");
			await shot("phone-functions");
		},
	},
	{
		name: "hostile-names",
		async run({ page, open, check, shot }) {
			await open("?view=functions");
			await page.waitForSelector(".vt-body .vt-row");
			check((await rows(page)).some((row) => row.includes(MARKUP)), "the name is not shown as it is");
			check((await page.$$("img[src='x']")).length === 0, "a name became markup");
			await open("?view=flame&direction=bottom_up&search=" + encodeURIComponent(MARKUP));
			await flameReady(page);
			check(/matches/.test(await text(page, ".flame-info")), "search does not find it");
			await open("?view=charts");
			await page.waitForSelector("canvas.chart");
			await shot("hostile-names");
			check((await page.$$("img[src='x']")).length === 0, "a name became markup in a legend");
		},
	},
	{
		name: "range",
		async run({ page, open, check, shot }) {
			await open("?view=functions&mode=allocated&cost=blocks");
			await page.waitForSelector(".vt-body .vt-row");
			const before = (await rows(page)).join("\n");
			await dragTimeline(page, 0.1, 0.3);
			await page.waitForFunction((old) => [...document.querySelectorAll(".vt-body .vt-row")].map((r) => r.textContent).join("\n") !== old, before);
			const from = Number(param(page, "from")), to = Number(param(page, "to"));
			check(from > 0 && to > from, `the range is not in the address: ${page.url()}`);
			check(!(await rows(page)).some((row) => row.includes("parse_line")), "a function of a later time is in the range");
			await shot("range");
			await page.goBack();
			await page.waitForFunction(() => !location.search.includes("from="));
			check((await rows(page)).join("\n") !== "", "back does not bring the whole run back");
			const box = await page.locator("canvas.timeline").boundingBox();
			await page.mouse.click(box.x + box.width / 3, box.y + 50);
			await page.waitForFunction(() => location.search.includes("to="));
			check(param(page, "from") === null, "a click is not a moment: " + page.url());
			await page.click("text=whole run");
			await page.waitForFunction(() => !location.search.includes("to="));
		},
	},
	{
		name: "flame",
		async run({ page, open, check, shot }) {
			await open("?view=flame");
			await flameReady(page);
			await shot("flame");
			await page.fill('main input[type="search"]', "cache_insert");
			await page.waitForFunction(() => document.querySelector(".flame-info").textContent.includes("matches"));
			check(/^(99|100) %/.test(await text(page, ".flame-info")), "share of the search: " + (await text(page, ".flame-info")));
			await shot("flame-search");
			await page.fill('main input[type="search"]', "");
			const box = await page.locator("canvas.flame").boundingBox();
			await page.mouse.move(box.x + 100, box.y + 10 + 19);
			await page.waitForSelector(".tip");
			check(/MB/.test(await text(page, ".tip")), "the tip has no figure: " + (await text(page, ".tip")));
			await page.mouse.click(box.x + 100, box.y + 10 + 19);
			await page.waitForFunction(() => location.search.includes("path="));
			await page.waitForFunction(() => document.querySelectorAll(".crumbs button").length === 2);
			await page.keyboard.press("Escape");
			await page.waitForFunction(() => !location.search.includes("path="));
			await page.click("text=from allocators up");
			await page.waitForFunction(() => location.search.includes("direction=bottom_up"));
			await flameReady(page);
			await shot("flame-bottom-up");
			const svg = await save(page, "flame.svg");
			check(svg.startsWith("<svg") && svg.includes("cache_insert"), "the drawing does not name cache_insert");
			check((await save(page, "flame.png")).length > 2000, "the picture is empty");
		},
	},
	{
		name: "flame-keys",
		async run({ page, open, check }) {
			await open("?view=flame&direction=bottom_up");
			await flameReady(page);
			await page.focus("canvas.flame");
			await page.keyboard.press("ArrowDown");
			await page.waitForFunction(() => location.search.includes("fn=cache_insert"));
			await page.keyboard.press("Enter");
			await page.waitForFunction(() => location.search.includes("path="));
			const zoomed = (isZoomed) => page.waitForFunction((wanted) => document.querySelector(".crumbs").textContent.includes("›") === wanted, isZoomed);
			await zoomed(true);
			check(await page.evaluate(() => document.activeElement.matches("canvas.flame")), "keys do not go on after zooming");
			await page.goBack();
			await zoomed(false);
			await page.keyboard.press("ArrowDown");
			await page.keyboard.press("p");
			await page.waitForFunction(() => location.search.includes("pivot=cache_insert"));
			check(param(page, "fn") === "cache_insert", "pivot: " + page.url());
		},
	},
	{
		name: "hide",
		async run({ page, open, check, shot }) {
			await open("?view=tree");
			await page.waitForSelector(".vt-body .vt-row");
			check((await rows(page)).some((row) => row.includes("__libc_start")), "start-up code is not there at first");
			await page.click(".chips >> text=runtime");
			await page.waitForFunction(() => ![...document.querySelectorAll(".vt-body .vt-row")].some((r) => r.textContent.includes("__libc_start")));
			check((await rows(page)).some((row) => row.includes("cache_insert")), "the application is hidden as well");
			await shot("hide");
		},
	},
	{
		name: "tree",
		async run({ page, open, check, shot }) {
			await open("?view=tree");
			await page.waitForSelector(".vt-body .vt-row");
			const first = (await rows(page))[0];
			check(first.includes("everything") && first.includes("1.64 MB"), "the root: " + first);
			check((await rows(page)).some((row) => row.includes("cache_insert")), "the largest path is not open");
			await shot("tree");
			const count = (await rows(page)).length;
			await page.click(".vt-body .vt-row >> nth=0");
			await page.waitForFunction((n) => document.querySelectorAll(".vt-body .vt-row").length < n, count);
			check((await save(page, "tree.csv")).includes("everything"), "the table is not in the file");
		},
	},
	{
		name: "functions",
		async run({ page, open, check, shot }) {
			await open("?view=functions");
			await page.waitForSelector(".vt-body .vt-row");
			await page.click('.vt-body .vt-row:has(span:text-is("main"))');
			await page.waitForSelector(".neighbours .top-row");
			const detail = await text(page, ".neighbours");
			check(detail.includes("cache_insert") && detail.includes("Callees"), "callees of main: " + detail);
			await shot("functions");
			await page.click('.neighbours .top-row:has-text("cache_insert")');
			await page.waitForFunction(() => location.search.includes("fn=cache_insert"));
			await page.click('button:has-text("average")');
			await page.waitForFunction(() => location.search.includes("sort=average"));
			await page.click(".tools >> text=packages");
			await page.waitForFunction(() => location.search.includes("group=package"));
			await page.waitForSelector(".vt-body .vt-row");
			await page.click(".tools >> text=functions");
			await page.fill('main input[type="search"]', "parse");
			await page.keyboard.press("Enter");
			await page.waitForFunction(() => document.querySelectorAll(".vt-body .vt-row").length <= 1);
		},
	},
	{
		name: "charts",
		async run({ page, open, check, shot }) {
			await open("?view=charts");
			/* They come one after the other. */
			await page.waitForFunction(() => document.querySelectorAll("canvas.chart").length === 3 && document.querySelectorAll(".charts .legend-item").length >= 3);
			check((await text(page, ".charts")).includes("cache_insert"), "no legend");
			await page.hover("canvas.chart >> nth=0");
			await page.waitForSelector(".tip");
			await shot("charts");
		},
	},
	{
		name: "sizes",
		async run({ page, open, check, shot }) {
			await open("?view=sizes");
			await page.waitForSelector(".histogram-row");
			const list = await page.$$eval(".histogram-row", (all) => all.map((row) => row.textContent));
			check(list.some((row) => row.includes("cache_insert") && row.includes("400")), "400 blocks of 4096 bytes: " + list.join(" | "));
			await shot("sizes");
			await page.click('.histogram-row:has-text("cache_insert")');
			await page.waitForFunction(() => location.search.includes("view=blocks"));
			await page.waitForSelector(".vt-body .vt-row");
			check((await rows(page)).every((row) => row.includes("4.10 kB")), "blocks of another size are shown");
		},
	},
	{
		name: "lifetimes",
		async run({ page, open, check, shot }) {
			await open("?view=lifetimes");
			await page.waitForSelector(".histogram-row");
			check((await text(page, ".histogram")).includes("parse_line"), "parse_line is not there");
			await shot("lifetimes");
		},
	},
	{
		name: "blocks",
		async run({ page, open, check, shot }) {
			await open("?view=blocks&mode=allocated");
			await page.waitForSelector(".vt-body .vt-row");
			await page.click(".vt-body .vt-row >> nth=0");
			await page.waitForSelector(".stack li");
			await shot("blocks");
			const address = await page.textContent(".vt-body .vt-row code >> nth=0");
			await page.fill('input[aria-label="Address"]', address);
			await page.click("text=history of an address");
			await page.waitForFunction(() => location.search.includes("address"));
			await page.waitForSelector(".vt-body .vt-row");
			check((await rows(page)).every((row) => row.includes(address)), "another address is shown");
			await open("?view=blocks&mode=allocated&filter=" + encodeURIComponent("function:parse_line"));
			await page.waitForSelector(".vt-body .vt-row");
			const high = await page.evaluate(() => document.querySelector(".vt").scrollHeight);
			check(high >= 3000 * 26 && high < 3005 * 26, `the table is not as long as 3000 blocks: ${high} pixels`);
			await page.evaluate(() => { const t = document.querySelector(".vt"); t.scrollTop = t.scrollHeight; });
			await page.waitForFunction(() => [...document.querySelectorAll(".vt-row[data-index='2999']")].some((row) => row.textContent.includes("parse_line")));
		},
	},
	{
		name: "threads",
		async run({ page, open, check, shot }) {
			await open("?view=threads");
			await page.waitForSelector(".vt-body .vt-row");
			const list = await rows(page);
			check(list.length === 2, `${list.length} threads: ${list.join(" | ")}`);
			check(list.some((row) => row.includes("200")), "the second thread freed 200 blocks of the first: " + list.join(" | "));
			await shot("threads");
		},
	},
	{
		name: "modules",
		async run({ page, open, check, shot }) {
			await open("?view=modules");
			await page.waitForSelector(".vt-body .vt-row");
			check((await rows(page)).some((row) => row.includes("targets/page")), "the program is not there: " + (await rows(page)).join(" | "));
			await shot("modules");
		},
	},
	{
		name: "source",
		async run({ page, open, check, shot }) {
			await open("?view=functions&fn=main");
			await page.waitForSelector(".neighbours .top-row");
			await page.click('.neighbours .top-row:has-text("page.c")');
			await page.waitForSelector(".source-line.hot");
			const hot = await page.$$eval(".source-line.hot", (list) => list.map((line) => line.textContent));
			check(hot.some((line) => line.includes("KEEP(cache_insert(i))") && line.includes("1.64 MB")), "the line that inserts: " + hot.join(" | "));
			check((await page.$$eval(".source-line a", (list) => list.map((a) => a.protocol))).every((one) => one === "vscode:"), "no link into the editor");
			await shot("source");
		},
	},
	{
		name: "diff",
		async run({ page, open, check, shot }) {
			await open("?view=diff&mode=allocated&cost=blocks");
			await page.waitForSelector("main .empty");
			await dragTimeline(page, 0.05, 0.25);
			await page.waitForFunction(() => location.search.includes("from="));
			await page.click("text=selected range is the base");
			await page.waitForSelector(".vt-body .vt-row");
			const list = await rows(page);
			const parse = list.find((row) => row.includes("parse_line")) ?? "";
			check(parse.includes("new") && parse.includes("3.00 k"), "parse_line is not new: " + list.join(" | "));
			await shot("diff");
			const red = () => page.$eval("canvas.flame", (c) => [...c.getContext("2d").getImageData(Math.floor(c.width * 0.97), Math.floor((c.height / c.clientHeight) * 50), 1, 1).data].join());
			const relative = await red();
			await page.click('[aria-label="Colours by"] >> text=absolute');
			await page.waitForFunction(() => location.search.includes("shade=absolute"));
			await page.waitForSelector(".legend:has-text('largest change')");
			check((await red()) !== relative, "absolute and relative changes have the same colours");
			await page.hover("canvas.flame", { position: { x: 60, y: 47 } });
			await page.waitForFunction(() => /→/.test(document.querySelector(".tip")?.textContent ?? ""));
			await page.click('[aria-label="Rows of the table"] >> text=stacks');
			await page.waitForFunction(() => [...document.querySelectorAll(".vt-body .vt-row")].some((r) => r.textContent.includes("parse_line ← main")));
			await page.click('[aria-label="Rows of the table"] >> text=functions');
			await page.waitForFunction(() => [...document.querySelectorAll(".vt-body .vt-row")].some((r) => r.textContent.endsWith("main")));
			await page.click('[aria-label="Rows of the table"] >> text=sites');
			await page.click('[aria-label="Which differences"] >> text=new');
			await page.waitForFunction(() => ![...document.querySelectorAll(".vt-body .vt-row")].some((r) => r.textContent.includes("cache_insert")));
			check(JSON.parse(await save(page, "diff.json")).some((row) => row.name === "parse_line" && row.change === 3000), "the diff as JSON");
			check((await save(page, "diff.svg")).includes("parse_line"), "the diff as a drawing");
			check((await save(page, "diff.png")).startsWith("\x89PNG"), "the diff as a picture");
			/* The other way round all of it is less: costs below nothing. */
			await page.click('[aria-label="Which differences"] >> text=all');
			const [from, to] = [param(page, "baseFrom"), param(page, "baseTo")];
			await open(`?view=diff&mode=allocated&cost=blocks&from=${from}&to=${to}&baseFrom=0`);
			await page.waitForSelector(".vt-body .vt-row");
			const less = (await rows(page)).find((row) => row.includes("parse_line")) ?? "";
			check(less.includes("−3.00 k") && less.includes("gone"), "what vanished: " + less);
			await shot("diff-less");
			await page.click(".tools >> text=✕");
			await page.waitForFunction(() => !location.search.includes("baseFrom"));
		},
	},
	{
		name: "saved",
		async run({ page, saved, check, shot }) {
			for (const view of ["overview", "flame", "tree", "functions", "charts", "sizes", "lifetimes", "threads", "modules"]) {
				await page.goto(saved + "?view=" + view);
				await page.waitForSelector(".badge");
				await page.waitForSelector("main .vt-row, main canvas, main .card, main .histogram-row");
				const said = await text(page, "main");
				check(/cache_insert|main|page/.test(said) || (await page.$("canvas.flame")), `${view} is empty: ${said.slice(0, 100)}`);
			}
			await page.goto(saved + "?view=functions&mode=allocated&cost=blocks");
			await page.waitForSelector(".vt-body .vt-row");
			check((await rows(page)).some((row) => row.includes("parse_line") && row.includes("3.00 k")), "sorted by another figure: " + (await rows(page)).join(" | "));
			await page.goto(saved + "?view=blocks");
			await page.waitForSelector("main .empty");
			check((await text(page, "main")).includes("tidemark serve"), "what is not there is not explained");
			await shot("saved");
		},
	},
	{
		name: "filter", expectsErrors: true,
		async run({ page, open, check, shot }) {
			await open("?view=functions&mode=allocated");
			await page.waitForSelector(".vt-body .vt-row");
			await page.fill(".filter", "size>>3");
			await page.keyboard.press("Enter");
			await page.waitForFunction(() => document.querySelector(".problem").textContent.includes("character"));
			await shot("filter-wrong");
			check(param(page, "filter") === null, "a wrong filter is applied");
			await page.fill(".filter", "size>=4096");
			await page.keyboard.press("Enter");
			await page.waitForFunction(() => location.search.includes("filter="));
			await page.waitForFunction(() => ![...document.querySelectorAll(".vt-body .vt-row")].some((r) => r.textContent.includes("parse_line")));
			await page.fill(".filter", "size>=1G");
			await page.keyboard.press("Enter");
			await page.waitForFunction(() => document.querySelector("main .empty")?.textContent.includes("filter"));
			await shot("filter-empty");
		},
	},
	{
		name: "keys",
		async run({ page, open, check, shot }) {
			await open();
			await page.keyboard.press("2");
			await page.waitForFunction(() => location.search.includes("view=flame"));
			await page.keyboard.press("?");
			await page.waitForSelector("dialog[open]");
			await shot("keys");
			await page.keyboard.press("Escape");
			await page.keyboard.press("/");
			check(await page.evaluate(() => document.activeElement?.tagName === "INPUT"), "/ does not lead to a search");
		},
	},
	{
		name: "link",
		async run({ page, open, check }) {
			await open("?view=functions&mode=live&cost=blocks&group=module&fn=main");
			await page.waitForSelector(".vt-body .vt-row");
			const mode = await page.$eval('select[aria-label="Which blocks"]', (s) => s.value);
			const cost = await page.$eval('select[aria-label="Counted in"]', (s) => s.value);
			check(mode === "live" && cost === "blocks", `a link does not bring the state: ${mode} ${cost}`);
			check((await text(page, ".choice .on")) === "modules", "nor the grouping");
		},
	},
];
