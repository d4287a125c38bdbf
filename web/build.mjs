// SPDX-License-Identifier: Apache-2.0
// node build.mjs OUTPUT.c DEPFILE FOLDER NPM: fetches the packages of the lock
// file into FOLDER, bundles the page, and writes its files as C.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const [output, depfile, folder, npm] = process.argv.slice(2);

/** npm ci, once per lock file. */
function fetchPackages() {
	const lock = readFileSync(join(here, "package-lock.json"), "utf8");
	const done = join(folder, "fetched");
	if (existsSync(done) && readFileSync(done, "utf8") === lock) return;
	mkdirSync(folder, { recursive: true });
	for (const name of ["package.json", "package-lock.json"])
		copyFileSync(join(here, name), join(folder, name));
	execFileSync(npm, ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], {
		cwd: folder,
		stdio: ["ignore", "inherit", "inherit"],
	});
	writeFileSync(done, lock);
}

function bundle() {
	const require = createRequire(join(resolve(folder), "package.json"));
	const esbuild = require("esbuild");
	return esbuild.buildSync({
		entryPoints: { app: join(here, "src/main.ts"), style: join(here, "style.css") },
		bundle: true,
		minify: true,
		charset: "utf8",
		format: "esm",
		target: ["es2020"],
		legalComments: "none",
		nodePaths: [join(resolve(folder), "node_modules")],
		outdir: "/",
		write: false,
		metafile: true,
	});
}

function bytes(data) {
	const lines = [];
	for (let at = 0; at < data.length; at += 24)
		lines.push("\t" + [...data.subarray(at, at + 24)].join(",") + ",");
	return lines.join("\n");
}

function toC(files) {
	const out = ['/* Made by web/build.mjs. */', '#include "server/page.h"', ""];
	files.forEach((file, i) => {
		const packed = gzipSync(file.data, { level: 9 });
		file.bytes = file.data.length;
		file.packedBytes = packed.length;
		out.push(`static const unsigned char data_${i}[] = {`, bytes(file.data), "};");
		out.push(`static const unsigned char packed_${i}[] = {`, bytes(packed), "};");
	});
	out.push("const struct page_file page_files[] = {");
	files.forEach((file, i) =>
		out.push(`\t{"${file.path}", "${file.type}", data_${i}, ${file.bytes}, packed_${i}, ${file.packedBytes}},`));
	out.push("};", `const size_t page_file_count = ${files.length};`, "");
	return out.join("\n");
}

fetchPackages();
const result = bundle();
const types = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };
const files = result.outputFiles.map((file) => {
	const name = file.path.split(/[\\/]/).pop();
	return { path: "/" + name, type: types[name.split(".").pop()], data: Buffer.from(file.contents) };
});
const html = readFileSync(join(here, "index.html"));
files.push({ path: "/", type: "text/html; charset=utf-8", data: html });
files.push({ path: "/icon.svg", type: "image/svg+xml", data: readFileSync(join(here, "icon.svg")) });
writeFileSync(output, toC(files));

const inputs = Object.keys(result.metafile.inputs).map((name) => resolve(name));
inputs.push(join(here, "index.html"), join(here, "icon.svg"));
const names = inputs.map((name) => relative(process.cwd(), name).replaceAll(" ", "\\ "));
writeFileSync(depfile, `${output}: ${names.join(" ")}\n`);
