// What needs no browser: numbers, times, queries, the wire, the layout of frames, names and colours.
import { expect, test } from '@playwright/test';
import { contrast } from './contrast';
import { encodeLevels, encodeResponse, synthetic } from './profiles.mjs';
import { leavesOut, type Exactness } from '../src/api/client';
import { readGraphResponse, readProfileResponse, writeDiffRequest, writeMergeRequest } from '../src/api/wire';
import { choose } from '../src/choice';
import { PALETTES } from '../src/flame/colors';
import { firstBeyond, pick } from '../src/flame/draw';
import { buildFlame, findFrame, frameKey, heaviestChild, levelOf, nameOf, pathTo, totalOf, type Flame } from '../src/flame/model';
import { origin, shorter } from '../src/flame/names';
import { folded } from '../src/flame/stacks';
import { digits, exact, percent, plural, points, times, value } from '../src/format';
import { fromLegacy, isGauge, nameTypes, preferredType, typeName, unitOf } from '../src/ptype';
import { filtersOf, parseQuery, queryText, selector, serviceOf, splitSpans, withFilter, withService } from '../src/query';
import { bucketsOf, timesOf } from '../src/series';
import { fromField, moveRange, rangeBefore, rangeText, readRange, readTime, scaleRange, tickText, toField, utc, zoneName } from '../src/time';

const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
const NOW = Date.UTC(2026, 10, 21, 9, 30);

test('numbers have three digits and the unit of their size', () => {
  const cases: [number, 'nanoseconds' | 'bytes' | 'count', string][] = [
    [0, 'nanoseconds', '0'], [1, 'nanoseconds', '1 ns'], [580e6, 'nanoseconds', '580 ms'], [2.97e9, 'nanoseconds', '2.97 s'],
    [999.95e6, 'nanoseconds', '1.00 s'], [4.65e12, 'nanoseconds', '1.29 h'], [900e12, 'nanoseconds', '10.4 d'],
    [1536, 'bytes', '1.50 KiB'], [7, 'bytes', '7 B'], [2 ** 40, 'bytes', '1.00 TiB'],
    [12, 'count', '12'], [12_200, 'count', '12.2 k'], [3.5e9, 'count', '3.50 G'],
  ];
  for (const [v, unit, text] of cases) expect(value(v, unit), `${v} ${unit}`).toBe(text);
  expect([0, 0.00001, 0.0523, 0.1, 0.4434, 1].map(percent)).toEqual(['0 %', '<0.01 %', '5.23 %', '10.0 %', '44.3 %', '100.0 %']);
  expect(exact(4920000000)).toBe('4\u202f920\u202f000\u202f000');
  expect(exact(2 ** 60)).toMatch(/^≈ /);
  expect([plural(1, 'frame'), plural(2110, 'frame')]).toEqual(['1 frame', '2\u202f110 frames']);
});

test('changes are in percentage points and factors, with a real minus sign', () => {
  expect([0, 0.0343, -0.131, 0.00001].map(points)).toEqual(['0 pp', '+3.43 pp', '−13.1 pp', '+<0.01 pp']);
  expect([times(180, 616), times(0, 5), times(5, 0), times(0, 0), times(4, 4)]).toEqual(['×3.42', 'new', 'gone', '–', '×1.00']);
  expect([0, 0.00029, 0.123, 5.689, 12.34, 640].map(digits)).toEqual(['0', '0.00029', '0.12', '5.69', '12.3', '640']);
});

test('times follow the grammar of the addresses', () => {
  const cases: [string, number | null][] = [
    ['now', NOW], ['now-15m', NOW - 900e3], ['now-7d', NOW - 604800e3], ['1700000000', 1700000000e3],
    ['1700000000123', 1700000000123], ['1700000000123456', 1700000000123], ['1700000000123456789', 1700000000123],
    ['', null], ['yesterday', null], ['now-', null], ['now+1h', null], ['-5', null], ['99999999999999', null],
  ];
  for (const [text, ms] of cases) expect(readTime(text, NOW), text).toBe(ms);
  expect(readRange('now', 'now-1h', NOW)).toBeNull();
  expect(fromField(toField('', NOW))).toBe(String(NOW));
});

test('a range reads as people say it', () => {
  const text = (from: string, until: string) => rangeText(from, until, readRange(from, until, NOW)!);
  expect(text('now-1h', 'now')).toBe('Last hour');
  expect(text('now-2h', 'now')).toBe('Last 2 hours');
  expect(text(String(NOW - 3600e3), String(NOW))).toMatch(/^2\d Nov 2026, \d\d:\d\d:00 – .*\d\d:\d\d:00$/); // some zones are half hours off
});

test('queries survive reading and writing', () => {
  const text = `${CPU}{service_name="checkout", region!="eu", path=~"/a\\"b\\\\c\\n"}`;
  const q = parseQuery(text)!;
  expect(q.matchers.map((m) => m.value)).toEqual(['checkout', 'eu', '/a"b\\c\n']);
  expect(queryText(q)).toBe(text);
  expect(serviceOf(q)).toBe('checkout');
  expect(selector(withService(q, 'pay').matchers)).toMatch(/^\{service_name="pay", region!="eu"/);
  expect(parseQuery("{a='x', `b.c`!~`\\d`,}")?.matchers).toEqual([
    { label: 'a', op: '=', value: 'x' }, { label: 'b.c', op: '!~', value: '\\d' },
  ]);
  expect(parseQuery('{"k8s.pod"="x"}')).toEqual({ type: '', matchers: [{ label: 'k8s.pod', op: '=', value: 'x' }] });
  for (const bad of ['{a}', '{a=b}', '{a="b"', '{a="b" c="d"}', '{a="b"} x', '{="b"}', '{a="\\q"}']) {
    expect(parseQuery(bad), bad).toBeNull();
  }
});

test('what an address leaves open is chosen from what there is', () => {
  const HEAP = 'memory:inuse_space:bytes:space:bytes', both = new Map([['a', [HEAP, CPU]], ['flametree', [CPU]]]);
  const service = (s: string) => [{ label: 'service_name', op: '=', value: s }];
  expect(choose('', both)).toEqual({ kind: 'query', query: { type: CPU, matchers: service('a') } });
  expect(choose('', new Map([['flametree', [CPU]], ['zebra', [HEAP]]]))).toMatchObject({ query: { matchers: service('zebra') } });
  expect(choose('', new Map([['flametree', [CPU]]]))).toMatchObject({ query: { matchers: service('flametree') } });
  expect(choose('{service_name="flametree"}', both)).toMatchObject({ query: { type: CPU, matchers: service('flametree') } });
  expect(choose(`${HEAP}{}`, null)).toEqual({ kind: 'query', query: { type: HEAP, matchers: [] } });
  expect([choose('', null), choose('', new Map()), choose('{', both)].map((c) => c.kind)).toEqual(['waiting', 'nothing', 'unreadable']);
});

test('profile types have names, units and a favourite', () => {
  expect(typeName(CPU)).toBe('CPU time');
  expect(typeName('exotic:thing:widgets::')).toBe('exotic · thing');
  expect(unitOf('wall:wall:microseconds:wall:microseconds')).toMatchObject({ unit: 'nanoseconds', factor: 1000 });
  expect(unitOf('x:y:widgets::')).toEqual({ unit: 'count', factor: 1, stored: 'widgets' });
  expect([isGauge('memory:inuse_space:bytes::'), isGauge('memory:alloc_space:bytes::')]).toEqual([true, false]);
  expect(preferredType(['mutex:delay:nanoseconds::', CPU])).toBe(CPU);
  const twice = ['wall:sample:count:wall:a', 'wall:samples:count:wall:b'];
  expect(new Set(nameTypes(twice).map((t) => t.text)).size).toBe(2);
});

test('the request is the protobuf that the contract asks for', () => {
  const bytes = writeMergeRequest({ type: 'a:b', selector: '{}', start: 300, end: 2 ** 41, maxNodes: 16384 });
  expect(Buffer.from(bytes).toString('hex')).toBe('0a03613a62' + '12027b7d' + '18ac02' + '20808080808040' + '28808001');
});

// The example of the wire contract: a;b;e=1, a;c=2, a;c;d=1.
const STACKS: [string, number][] = [['a;b;e', 1], ['a;c', 2], ['a;c;d', 1]];
const wire = (stacks: [string, number][]) => readGraphResponse(new Uint8Array(encodeResponse(encodeLevels(stacks))));
const names = (f: Flame, frames: number[]) => frames.map((i) => nameOf(f, i));

test('an answer becomes frames with parents, children and places', () => {
  const graph = wire(STACKS), f = buildFlame(graph);
  expect(graph.levels.map((l) => [...l])).toEqual(encodeLevels(STACKS).levels);
  expect(names(f, [...f.name.keys()])).toEqual(['total', 'a', 'b', 'c', 'e', 'd']);
  expect([...f.parent]).toEqual([-1, 0, 1, 1, 2, 3]);
  expect([...f.x]).toEqual([0, 0, 0, 0.25, 0, 0.75]);
  expect([...f.w]).toEqual([1, 1, 0.25, 0.75, 0.25, 0.25]);
  expect(names(f, [heaviestChild(f, 1), ...pathTo(f, 5)])).toEqual(['c', 'a', 'c', 'd']);
  expect([...f.name.keys()].map((i) => levelOf(f, i))).toEqual([0, 1, 2, 2, 3, 3]);
});

test('every frame of a big graph lies within its parent and is found by its key', () => {
  const f = buildFlame(wire(synthetic(2000)));
  expect(f.count).toBeGreaterThan(3000);
  const outside = (i: number) => {
    const p = f.parent[i];
    return f.x[i] < f.x[p] - 1e-12 || f.x[i] + f.w[i] > f.x[p] + f.w[p] + 1e-12;
  };
  expect([...f.name.keys()].slice(1).filter(outside)).toEqual([]);
  for (const i of [0, 1, 17, f.count - 1]) expect(pathTo(f, findFrame(f, frameKey(f, i)))).toEqual(i ? pathTo(f, i) : []);
  expect([findFrame(f, 'zzzzzzz'), findFrame(f, '<script>'), findFrame(f, '')]).toEqual([-1, -1, -1]);
});

test('names that are not ASCII and values beyond 32 bits survive', () => {
  const f = buildFlame(wire([['größe;日本語', 2 ** 45], ['x'.repeat(200), 3]]));
  expect(f.names).toEqual(['total', 'größe', 'x'.repeat(200), '日本語'].sort((a, b) => f.names.indexOf(a) - f.names.indexOf(b)));
  expect(f.total[0]).toBe(2 ** 45 + 3);
});

// As the server draws main;a 1000, main;b -400, main;a;x 200, other -100: what is below zero has no width.
const BELOW = {
  names: ['total', 'other', 'main', 'b', 'a', 'x'],
  levels: [[0, 700, 0, 0], [0, 700, 0, 2, 0, 0, -100, 1], [0, 700, 1000, 4, 0, 0, -400, 3], [700, 0, 200, 5]],
};

test('values below zero are read as they are, to the unit', () => {
  const f = buildFlame(readGraphResponse(new Uint8Array(encodeResponse(BELOW))));
  expect([...f.name.keys()].map((i) => [nameOf(f, i), f.total[i], f.self[i]])).toEqual([
    ['total', 700, 0], ['main', 700, 0], ['other', 0, -100], ['a', 700, 1000], ['b', 0, -400], ['x', 0, 200],
  ]);
  expect(totalOf(f)).toBe(700);
  expect(folded(f).trim().split('\n').sort()).toEqual(['main;a 1000', 'main;a;x 200', 'main;b -400', 'other -100']);
  for (const v of [-1, -127, -128, -(2 ** 31), -Number.MAX_SAFE_INTEGER, -(2 ** 63)]) {
    const g = buildFlame(readGraphResponse(new Uint8Array(encodeResponse({ names: ['total', 'x'], levels: [[0, 0, 0, 0], [0, 0, v, 1]] }))));
    expect([g.self[1], totalOf(g)]).toEqual([v, v]);
  }
});

test('a table asks the server where a picture has no room for what is below zero', () => {
  const none = { frames: null } as Exactness, picture = (graph: unknown, compared = false) => buildFlame(readGraphResponse(new Uint8Array(encodeResponse(graph as never))), compared);
  expect(leavesOut(none, picture(BELOW))).toBe(true);
  expect(leavesOut(none, picture({ names: ['total', 'sums to 0'], levels: [[0, 5, 5, 0], [5, 0, 0, 1]] }))).toBe(true);
  expect(leavesOut(none, picture({ names: ['total', 'x'], levels: [[0, 5, 0, 0, 4, 0, 0], [0, 5, 5, 0, 4, -4, 1]] }, true))).toBe(true);
  expect(leavesOut(none, picture(encodeLevels(STACKS)))).toBe(false);
  expect(leavesOut(none)).toBe(false);
});

test('shares below zero are written as those above', () => {
  expect([-0.5, -1.5, -0.0123, -0.00001, 0, 0.5].map(percent)).toEqual(['-50.0 %', '-150.0 %', '-1.23 %', '<0.01 %', '0 %', '50.0 %']);
});

test('no bytes hang or crash the reader: they are read or refused', () => {
  const whole = new Uint8Array(encodeResponse(encodeLevels(STACKS)));
  for (let n = 1; n < whole.length; n++) expect(() => buildFlame(readGraphResponse(whole.subarray(0, n))), `${n}`).toThrow(/flame graph/);
  const surprises: string[] = [];
  let seed = 1;
  for (let round = 0; round < 3000; round++) {
    const broken = whole.slice();
    for (let k = 0; k < 3; k++) broken[(seed = (seed * 48271) % 0x7fffffff) % broken.length] = seed & 255;
    try {
      buildFlame(readGraphResponse(broken));
    } catch (e) {
      if (!/flame graph/.test(String(e))) surprises.push(String(e));
    }
  }
  expect(surprises).toEqual([]);
  expect(buildFlame(readGraphResponse(new Uint8Array(0))).total[0]).toBe(0);
});

test('a point finds its frame', () => {
  const f = buildFlame(wire(STACKS)), all = { lo: 0, hi: 1 };
  expect(firstBeyond(f, f.levelStart[2], f.levelStart[3], 0.25)).toBe(3);
  const at = (px: number, level: number) => pick(f, all, 400, px, level);
  expect([at(90, 2), at(110, 2), at(50, 3), at(150, 3), at(350, 3), at(5, 4), at(5, -1)]).toEqual([2, 3, 4, -1, 5, -1, -1]);
});

test('names shorten, and tell where they are from', () => {
  expect(shorter('github.com/acme/app/pkg/store.(*Head).Flush')).toEqual(['store.(*Head).Flush', '(*Head).Flush', 'Flush']);
  expect(shorter('[libuv.so.1]')).toEqual(['[libuv.so.1]']);
  expect(shorter('main.main.func1')).toEqual(['main.main.func1', 'main.func1']);
  expect(shorter('alloc::vec::Vec::push')).toEqual(['alloc::vec::Vec::push', 'Vec::push', 'push']);
  expect([shorter(''), shorter('a/'), shorter('/')]).toEqual([[''], ['a/'], ['/']]);
  const cases: Record<string, [string, string]> = {
    'runtime.mallocgc': ['runtime', 'runtime'], 'net/http.(*conn).serve': ['library', 'net/http'],
    'github.com/a/b/c/d.F': ['code', 'github.com/a/b'], 'java.util.HashMap.get': ['library', 'java.util'],
    '<serde::de::X as Y>::z': ['code', 'serde'], 'char* rocksdb::put': ['code', 'rocksdb'],
    'TLS init function for rocksdb::perf': ['code', 'rocksdb'], 'rocksdb::DB::Get(char const&)': ['code', 'rocksdb'], 'core::fmt::write': ['library', 'core'],
    'main.work': ['code', 'main'], plain: ['code', ''], other: ['rest', ''],
    '[librocksdb.so.7.8]': ['native', 'librocksdb'],
    '[no frame pointer]': ['native', 'no frame pointer'],
  };
  for (const [name, [kind, pkg]] of Object.entries(cases)) expect(origin(name), name).toEqual({ kind, package: pkg });
});

test('text on every colour of the graph has the contrast of WCAG AA', () => {
  for (const [theme, p] of Object.entries(PALETTES)) {
    for (const c of [...p.code, ...p.native, ...p.library, ...p.kernel, ...p.runtime]) expect(contrast(c, p.text), `${theme} ${c}`).toBeGreaterThan(4.5);
    expect(contrast(p.dust, p.dustText), theme).toBeGreaterThan(4.5);
  }
});

test('old names become types and services; what has no meaning is unreadable', () => {
  const SPACE = 'memory:alloc_space:bytes:space:bytes', has = (s: string) => (s === 'shop' ? ['memory:alloc_space:bytes::', CPU] : []);
  expect(fromLegacy('shop.cpu', has)).toEqual({ service: 'shop', type: CPU });
  expect(fromLegacy('a.b.itimer', has)).toEqual({ service: 'a.b', type: CPU });
  expect(fromLegacy('shop.alloc_space', has)).toEqual({ service: 'shop', type: 'memory:alloc_space:bytes::' }); // as it was pushed
  expect(fromLegacy('else.alloc_space', has)).toEqual({ service: 'else', type: SPACE });
  expect(fromLegacy('shop', has)).toEqual({ service: 'shop', type: CPU });
  expect([fromLegacy('shop.nonsense', has), fromLegacy('.cpu', has)]).toEqual([null, null]);
  const chosen = choose('shop.cpu{profile_id="00c0ffee00c0ffee", region="eu"}', new Map([['shop', [CPU]]]));
  expect(chosen).toMatchObject({ kind: 'query', query: { type: CPU } });
  if (chosen.kind !== 'query') return;
  expect(serviceOf(chosen.query)).toBe('shop');
  expect(splitSpans(chosen.query.matchers)).toEqual({
    plain: [{ label: 'service_name', op: '=', value: 'shop' }, { label: 'region', op: '=', value: 'eu' }], spans: ['00c0ffee00c0ffee'],
  });
  expect(splitSpans([{ label: 'profile_id', op: '=', value: 'not a span' }]).spans).toEqual([]);
  expect([choose('a:b', new Map()), choose('shop.nonsense', new Map())].map((c) => c.kind)).toEqual(['unreadable', 'unreadable']);
});

test('filters are added once and listed without the service', () => {
  const q = parseQuery(`${CPU}{service_name="a", region="eu"}`)!, eu = q.matchers[1];
  expect(filtersOf(q)).toEqual([eu]);
  expect(withFilter(q, { ...eu }).matchers.length).toBe(2);
  expect(withFilter(q, { ...eu, op: '!=' }).matchers.length).toBe(3);
});

test('requests name call sites, spans and both sides of a comparison', () => {
  const q = { type: 'a', selector: '{}', start: 1, end: 2, maxNodes: 3 }, plain = '0a0161' + '12027b7d' + '1801' + '2002' + '2803';
  const hex = (b: Uint8Array) => Buffer.from(b).toString('hex');
  expect(hex(writeMergeRequest({ ...q, path: [], spans: [] }))).toBe(plain);
  expect(hex(writeMergeRequest({ ...q, path: ['m', 'xy'] }))).toBe(`${plain}3a0b` + '0a030a016d' + '0a040a027879');
  expect(hex(writeMergeRequest({ ...q, spans: ['00c0ffee00c0ffee'] }))).toBe(`${plain}5a10${Buffer.from('00c0ffee00c0ffee').toString('hex')}`);
  expect(hex(writeMergeRequest({ ...q, maxNodes: 0, asProfile: true }))).toBe('0a0161' + '12027b7d' + '1801' + '2002' + '2800' + '3004');
  expect(hex(readProfileResponse(Buffer.from('0a00' + '2a05' + '0a03010203', 'hex')))).toBe('010203');
  expect(() => readProfileResponse(Buffer.from('2a05', 'hex'))).toThrow(/too early/);
  expect(hex(writeDiffRequest(q, q))).toBe(`0a0d${plain}120d${plain}`);
});

test('a timeline has at most 400 round, aligned buckets that cover the range', () => {
  for (const seconds of [1, 59, 300, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 400 * 86400, 9 * 365 * 86400]) {
    const range = { start: NOW - seconds * 1e3, end: NOW }, b = bucketsOf(range), last = b.first + (b.count - 1) * b.step;
    expect(b.count, `${seconds} s`).toBeLessThanOrEqual(400);
    expect(b.first % b.step).toBe(0);
    expect(b.first - b.step).toBeLessThanOrEqual(range.start);
    expect(b.first).toBeGreaterThan(range.start);
    expect(last).toBeGreaterThanOrEqual(range.end);
    expect(last - b.step).toBeLessThan(range.end);
    expect(timesOf(b).length).toBe(b.count);
  }
  expect(bucketsOf({ start: NOW - 3600e3, end: NOW }).step).toBe(30e3);
  expect(bucketsOf({ start: NOW - 60e3, end: NOW }).step).toBe(2e3);
});

test('ranges move, widen and shrink, no further than now; relative ones stay relative', () => {
  const range = readRange('now-1h', 'now', NOW)!, fixed = { start: NOW - 7200e3, end: NOW - 3600e3 };
  const texts = { from: String(fixed.start), until: String(fixed.end) };
  expect(scaleRange({ from: 'now-1h', until: 'now' }, range, 2, NOW)).toEqual({ from: 'now-2h', until: 'now' });
  expect(scaleRange({ from: 'now-1h', until: 'now' }, range, 0.5, NOW)).toEqual({ from: 'now-30m', until: 'now' });
  expect(scaleRange(texts, fixed, 0.5, NOW)).toEqual({ from: String(NOW - 6300e3), until: String(NOW - 4500e3) });
  expect(scaleRange(texts, fixed, 8, NOW).until).toBe(String(NOW));
  expect(moveRange(fixed, -0.5, NOW)).toEqual({ from: String(NOW - 9000e3), until: String(NOW - 5400e3) });
  expect(moveRange(fixed, 2, NOW)).toEqual({ from: String(NOW - 3600e3), until: String(NOW) });
  expect(rangeBefore({ from: 'now-1h', until: 'now' }, range, 3600e3)).toEqual({ from: 'now-2h', until: 'now-1h' });
  expect(rangeBefore({ from: 'now-1h', until: 'now' }, range, 86400e3)).toEqual({ from: 'now-25h', until: 'now-1d' });
  expect(rangeBefore(texts, fixed, 3600e3)).toEqual({ from: String(NOW - 10800e3), until: String(NOW - 7200e3) });
});

test('all times are in the zone that is chosen', () => {
  utc.value = true;
  expect(toField('', NOW)).toBe('2026-11-21 09:30:00');
  expect(zoneName(NOW)).toBe('UTC');
  expect([tickText(NOW, 60), tickText(NOW, 5), tickText(Date.UTC(2026, 9, 23), 60), tickText(NOW, 86400)]).toEqual(['09:30', '09:30:00', '23 Oct', '21 Nov']);
  utc.value = false;
});
