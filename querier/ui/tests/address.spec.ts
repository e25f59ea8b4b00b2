// The address as a page reads and writes it, without a browser: what `location` says is given by each test.
import { expect, test } from '@playwright/test';
import type { Page, Patch } from '../src/address';

const given = { pathname: '/', search: '', href: 'http://x/' };
let moved = () => {};
const writeHistory = (_: unknown, __: string, to: string) => visit(to);
Object.assign(globalThis, {
  location: given,
  addEventListener: (_: string, listener: () => void) => (moved = listener),
  window: { history: { pushState: writeHistory, replaceState: writeHistory } },
});

function visit(to: string): void {
  const url = new URL(to, 'http://x/');
  Object.assign(given, { pathname: url.pathname, search: url.search, href: url.href });
  moved();
}
const load = () => import('../src/address');

test('a path is a page, and the root with a query is the flame graph', async () => {
  const { page } = await load();
  const cases: [string, Page][] = [
    ['/', 'services'], ['/?sort=name', 'services'], ['/?query=a:b{}', 'flame'], ['/flame', 'flame'], ['/labels?query=x', 'explore'], ['/explore?query=x', 'explore'], ['/types?query=x', 'types'],
    ['/compare', 'compare'], ['/comparison?leftQuery=x', 'compare'], ['/comparison-diff', 'compare'], ['/diff?query=x', 'compare'],
    ['/behind/a/proxy/', 'services'], ['/behind/a/proxy/flame', 'flame'], ['/behind/a/proxy/?query=x', 'flame'],
  ];
  for (const [to, wanted] of cases) {
    visit(to);
    expect(page.value, to).toBe(wanted);
  }
});

test('what is written is read again, and defaults are left out', async () => {
  const { address, go, href } = await load();
  const states: Patch[] = [
    { query: 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="a b&c=d", path=~"/x/.+"}' },
    { search: '^a\\.b(\\*c)$ &?#%', fn: 'größe<日本>', zoom: 'abc1234', within: 'aaaaaaa.bbbbbbb' },
    { from: '1700000000000', until: '1700000060000', tz: 'UTC', refresh: '30s', maxNodes: '512' },
    { show: 'sandwich', color: 'self', order: 'heavy', sort: 'total-up', palette: 'classic' },
    { leftQuery: 'x{a="1"}', leftFrom: 'now-2h', leftUntil: 'now-1h', rightQuery: 'x{a="2"}', rightFrom: '1', rightUntil: '2' },
  ];
  for (const state of states) {
    visit('/flame');
    go(state);
    expect(address.value).toMatchObject(state);
    const back = Object.fromEntries(Object.keys(state).map((k) => [k, { from: 'now-1h', until: 'now', show: 'both', color: 'package', order: 'name', palette: 'safe' }[k] ?? '']));
    expect(href(back as Patch)).toBe('./flame');
  }
});

test('what is of all pages goes along, the rest stays; unknown parameters stay on their page', async () => {
  const { href } = await load();
  visit('/sub/flame?query=x&from=now-6h&zoom=abc1234&search=y&tz=UTC&utm=1');
  expect(href({ search: '' })).toBe('./flame?query=x&from=now-6h&zoom=abc1234&tz=UTC&utm=1');
  expect(href({}, 'explore')).toBe('./labels?query=x&from=now-6h&tz=UTC');
  expect(href({}, 'services')).toBe('./?from=now-6h&tz=UTC');
  visit('/?query=x');
  expect(href({ query: '' })).toBe('./flame'); // not the overview: one asked for a flame graph
  expect(href({ zoom: 'abc1234' })).toBe('./?query=x&zoom=abc1234');
});
