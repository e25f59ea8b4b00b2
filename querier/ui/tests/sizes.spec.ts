// What is shipped: small, all of it from us, and only what it should hold.
import { expect, test } from '@playwright/test';
import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const ROOT = new URL('../', import.meta.url).pathname;
const files = readdirSync(`${ROOT}dist`, { recursive: true, withFileTypes: true })
  .filter((e) => e.isFile()).map((e) => `${e.parentPath}/${e.name}`);
const text = (pattern: RegExp) => files.filter((f) => pattern.test(f));
const gz = (list: string[]) => list.reduce((sum, f) => sum + gzipSync(readFileSync(f), { level: 9 }).length, 0);

test('the page is small', () => {
  const js = gz(text(/\.js$/)), css = gz(text(/\.css$/)), all = gz(files.filter((f) => !f.endsWith('licenses.txt')));
  console.log(`js ${js}, css ${css}, first load ${all} bytes`);
  expect(js).toBeLessThanOrEqual(80_000);
  expect(css).toBeLessThanOrEqual(8_000);
  expect(all).toBeLessThanOrEqual(150_000);
});

test('few packages, pinned, and no trace of where they were fetched', () => {
  const pkg = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8'));
  expect(Object.keys(pkg.dependencies).length).toBeLessThanOrEqual(5);
  for (const version of Object.values({ ...pkg.dependencies, ...pkg.devDependencies })) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  expect(readFileSync(`${ROOT}package-lock.json`, 'utf8')).not.toMatch(/"resolved"/);
});

test('no source maps, no inline code, no other host', () => {
  expect(text(/\.map$/)).toEqual([]);
  for (const f of text(/\.(js|css|html|svg)$/)) {
    const hosts = (readFileSync(f, 'utf8').match(/https?:\/\/[\w.-]+/g) ?? []).filter((h) => !h.endsWith('www.w3.org'));
    expect(hosts, f).toEqual([]);
  }
  const html = readFileSync(`${ROOT}dist/index.html`, 'utf8');
  expect(html).not.toMatch(/<style|style=|<script(?![^>]*src=)/);
});
