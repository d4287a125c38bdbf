// SPDX-License-Identifier: Apache-2.0
// node tests/web/run.mjs BUILD [NAME]: the page in a real browser, on a program whose
// figures are known (tests/targets/page.c). Screenshots stay in BUILD/web-shots. TAP.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { cases as common } from "./cases.mjs";
import { cases as further } from "./cases_more.mjs";

const cases = [...common, ...further];

const build = resolve(process.argv[2] ?? "build");
const only = process.argv.slice(3); /* names of cases; none: all */
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const packages = join(build, "web/page_data.c.p/package.json");

if (!browserPath || !existsSync(packages)) {
	console.log(`1..0 # SKIP ${browserPath ? "built without the page" : "there is no chromium"}`);
	process.exit(0);
}
const { chromium } = createRequire(packages)("playwright-core");

function startServer(listen, ...paths) {
	return new Promise((done, fail) => {
		const server = spawn(join(build, "tidemark"), ["serve", "--listen", listen, ...paths], { stdio: ["ignore", "pipe", "inherit"] });
		let said = "";
		server.stdout.on("data", (data) => {
			said += data;
			const found = said.match(/http:\/\/\S+/);
			if (found) done({ server, address: found[0] });
		});
		server.on("exit", () => fail(new Error("serve ended: " + said)));
	});
}

const folder = mkdtempSync(join(tmpdir(), "tidemark-web-"));
const shots = join(build, "web-shots");
mkdirSync(shots, { recursive: true });
execFileSync("make", ["-s", "-C", "tests/targets", `OUT=${join(build, "targets")}`, ...["page", "killed", "nothing"].map((name) => join(build, "targets", name))], { stdio: "inherit" });
const trace = join(folder, "page.tide");
execFileSync(join(build, "tidemark"), ["run", "-q", "-o", trace, "--", join(build, "targets/page")], { stdio: ["ignore", "ignore", "inherit"] });
const savedPath = join(folder, "page.html");
execFileSync(join(build, "tidemark"), ["export", trace, "--format", "html", "-o", savedPath], { stdio: ["ignore", "ignore", "inherit"] });
const saved = "file://" + savedPath;
const plain = { startServer, folder, trace, tool: join(build, "tidemark"), target: (name) => join(build, "targets", name) };
const { server, address } = await startServer("127.0.0.1:0", trace);
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-gpu"] });

const chosen = cases.filter((one) => !only.length || only.includes(one.name));

/** One case in a browser of its own; the sentences about what is wrong. */
async function runCase(one) {
	const context = await browser.newContext({ viewport: one.viewport ?? { width: 1280, height: 800 }, colorScheme: one.dark ? "dark" : "light", acceptDownloads: true, hasTouch: one.touch ?? false });
	const page = await context.newPage();
	const problems = [];
	page.on("pageerror", (error) => problems.push("an error on the page: " + error.message));
	page.on("console", (message) => message.type() === "error" && !one.expectsErrors && problems.push("on the console: " + message.text()));
	page.on("dialog", (dialog) => { problems.push("a script of the trace ran"); void dialog.dismiss(); });
	page.on("request", (request) => !request.url().startsWith(address) && !one.other && !request.url().startsWith(saved) && !/^(data|blob):/.test(request.url()) && problems.push("a request left the machine: " + request.url()));
	page.setDefaultTimeout(60000);
	const check = (good, sentence) => { if (!good) problems.push(sentence); };
	const open = async (query = "") => {
		await page.goto(address + query, { waitUntil: "load" });
		await page.waitForSelector(".badge");
	};
	const shot = (name) => page.screenshot({ path: join(shots, name + ".png") });
	try {
		await one.run({ page, open, check, shot, saved, ...plain });
	} catch (error) {
		const where = String(error.stack ?? "").match(/cases\w*\.mjs:\d+/)?.[0] ?? "";
		problems.push(where + " " + String(error.message ?? error).split("\n").slice(0, 12).join(" | "));
		if (page.lastText) problems.push("the page said: " + page.lastText.slice(0, 1500).replaceAll("\n", " | "));
		await shot("failed-" + one.name).catch(() => {});
	}
	await context.close();
	return problems;
}

/* Two at a time; told in their order. */
const results = new Array(chosen.length);
let next = 0, told = 0, failed = 0;
console.log(`1..${chosen.length}`);
async function work() {
	while (next < chosen.length) {
		const mine = next++;
		results[mine] = await runCase(chosen[mine]);
		for (; results[told]; told++) {
			for (const problem of results[told]) console.log("# " + problem.replaceAll("\n", " "));
			console.log(`${results[told].length ? "not ok" : "ok"} ${told + 1} - web/${chosen[told].name}`);
			failed += results[told].length > 0;
		}
	}
}
await Promise.all([work(), work()]);
await browser.close();
server.removeAllListeners("exit");
server.kill("SIGTERM");
rmSync(folder, { recursive: true, force: true });
process.exit(failed ? 1 : 0);
