// Serves dist/ the way the querier does (gzip, immutable assets, the content security policy), under a path prefix too,
// and invented answers of the query API. Usage: node tests/server.mjs [port], else a free one.
import http from 'node:http';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { gzipSync } from 'node:zlib';
import { encodeDiff, encodeLevels, encodeResponse, synthetic } from './profiles.mjs';

const PREFIX = '/behind/a/proxy'; // the same page, elsewhere
const PAGES = ['/', '/types', '/flame', '/labels', '/explore', '/compare', '/comparison', '/comparison-diff', '/diff'];
const DIST = new URL('../dist/', import.meta.url).pathname;
const POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
  "require-trusted-types-for 'script'";
const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml', '.woff2': 'font/woff2', '.txt': 'text/plain; charset=utf-8', '.json': 'application/json',
};
const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds', HEAP = 'memory:inuse_space:bytes:space:bytes';
const SPACE = 'memory:alloc_space:bytes:space:bytes', GO = 'goroutines:goroutine:count:goroutine:count';
const SERVICES = { checkout: [CPU, HEAP, SPACE, GO], flametree: [CPU], payments: [CPU, SPACE] };

const recorded = () => JSON.parse(readFileSync(process.env.FLAMEGRAPH_JSON)).flamegraph;
const graph = process.env.FLAMEGRAPH_JSON
  ? { names: recorded().names, levels: recorded().levels.map((l) => l.values.map(Number)) }
  : encodeLevels([...synthetic(900), ['net/http.(*conn).serve;other', 9e8]]);

/** A value for every bucket of every group: the services, or two regions. */
function selectSeries({ profileTypeID, labelSelector, start, end, step, groupBy = [] }) {
  const byService = Object.entries(SERVICES).filter(([s, types]) => types.includes(profileTypeID) && (labelSelector === '{}' || labelSelector.includes(s)));
  const groups = { service_name: byService.map(([s]) => s), region: ['eu', 'us'], pod: ['a', 'b', 'c'] }[groupBy[0]] ?? [''];
  const series = byService.length === 0 ? [] : groups.map((value, g) => {
    const points = [];
    for (let t = start; t <= end; t += step * 1000) {
      const over = Math.min(step, step + (Date.now() - t) / 1000); // seconds of the bucket that have passed
      if (over <= 0) break;
      points.push({ timestamp: String(t), value: (g + 1) * over * 1e9 * (1 + 0.3 * Math.sin(t / 600e3)) * (g === 0 && t > (start + end) / 2 ? 2 : 1) });
    }
    return { labels: groupBy.length > 0 ? [{ name: groupBy[0], value }] : [], points };
  });
  return { series };
}

const LOSSES = JSON.stringify({ distributor: 'd1', since: '2026-11-29T10:00:00Z', losses: [], complete: true });

const API = {
  SelectSeries: selectSeries,
  LabelNames: () => ({ names: ['__profile_type__', 'pod', 'region', 'service_name'] }),
  LabelValues: ({ name }) => ({ names: { region: ['eu', 'us'], pod: ['a', 'b', 'c'] }[name] ?? [] }),
  Diff: () => encodeResponse(encodeDiff(synthetic(400), [...synthetic(400), ['main.main;github.com/acme/shop/cart.(*Server).Slow', 4e9]])),
  Series: () => ({
    labelsSet: Object.entries(SERVICES).flatMap(([service, types]) => types.map((type) => ({
      labels: [{ name: '__profile_type__', value: type }, { name: 'service_name', value: service }],
    }))),
  }),
  GetProfileStats: () => ({ dataIngested: true, oldestProfileTime: '1700000000000', newestProfileTime: String(Date.now()) }),
  SelectMergeStacktraces: () => encodeResponse(graph),
};

function answer(req, res, path, sent) {
  const method = API[path.slice('/querier.v1.QuerierService/'.length)];
  if (!method || req.method !== 'POST') return res.writeHead(404).end();
  const type = req.headers['content-type'], out = method(type === 'application/json' ? JSON.parse(sent) : null);
  const body = gzipSync(Buffer.isBuffer(out) ? out : JSON.stringify(out));
  return res.writeHead(200, { 'Content-Type': type, 'Content-Encoding': 'gzip' }).end(body);
}

function file(req, res, path) {
  const name = PAGES.includes(path) ? 'index.html' : path.slice(1);
  if (!existsSync(DIST + name)) return res.writeHead(404).end();
  const body = readFileSync(DIST + name), etag = `"${createHash('sha256').update(body).digest('hex').slice(0, 16)}"`;
  const headers = {
    'Content-Type': TYPES[extname(name)], 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'same-origin', ETag: etag,
    'Cache-Control': name.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
    ...(name === 'index.html' ? { 'Content-Security-Policy': POLICY } : {}),
  };
  if (req.headers['if-none-match'] === etag) return res.writeHead(304, headers).end();
  if (extname(name) === '.woff2') return res.writeHead(200, headers).end(body);
  const packed = { ...headers, 'Content-Encoding': 'gzip', Vary: 'Accept-Encoding' };
  return res.writeHead(200, packed).end(gzipSync(body, { level: 9 }));
}

const parent = process.ppid;
setInterval(() => process.ppid === parent || process.exit(), 1000); // whoever started it was killed

http.createServer((req, res) => {
  const full = new URL(req.url, 'http://x').pathname;
  const path = full.startsWith(`${PREFIX}/`) ? full.slice(PREFIX.length) : full;
  const parts = [];
  if (path === '/distributor/losses') res.writeHead(200, { 'Content-Type': 'application/json' }).end(LOSSES);
  else if (path.startsWith('/querier.v1.')) req.on('data', (p) => parts.push(p)).on('end', () => answer(req, res, path, Buffer.concat(parts).toString()));
  else file(req, res, path);
}).listen(Number(process.argv[2] ?? 0), '127.0.0.1', function () {
  console.log(`http://127.0.0.1:${this.address().port}/`);
});
