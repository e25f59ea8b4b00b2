// The address holds the whole state of the page: what you see is what a colleague sees who opens the link.
// A parameter that is absent has its default, and defaults are left out.
import { computed, effect, signal } from '@preact/signals';
import { DEFAULT_FROM, utc } from './time';

export type Page = 'services' | 'types' | 'flame' | 'explore' | 'compare';

const DEFAULTS = {
  query: '', from: DEFAULT_FROM, until: 'now', tz: '', maxNodes: '', refresh: '', // of all pages
  show: 'both', search: '', fn: '', zoom: '', within: '', color: 'package', order: 'name', sort: '', frames: 'all',
  type: '', filter: '', // of the overview, which has `sort` too
  groupBy: '', measure: 'mean', // of the labels
  leftQuery: '', leftFrom: '', leftUntil: '', rightQuery: '', rightFrom: '', rightUntil: '', palette: 'safe', norm: '',
};
export type Param = keyof typeof DEFAULTS;
export type Patch = Partial<Record<Param, string>>;
/** What goes along from page to page. */
const COMMON: Param[] = ['query', 'from', 'until', 'tz', 'maxNodes', 'refresh'];

/** All pages lie one level deep, so that relative addresses work under any path prefix. The first name is ours. */
const PATHS: Record<Page, string[]> = {
  services: [''], types: ['types'], flame: ['flame'], explore: ['labels', 'explore'], compare: ['compare', 'comparison', 'comparison-diff', 'diff'],
};

const place = signal({ path: location.pathname, search: location.search });
const readPlace = () => (place.value = { path: location.pathname, search: location.search });
addEventListener('popstate', readPlace);

export const address = computed((): Record<Param, string> => {
  const given = new URLSearchParams(place.value.search), out = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS) as Param[]) out[key] = given.get(key) || DEFAULTS[key];
  return out;
});
effect(() => {
  utc.value = address.value.tz === 'UTC';
});

/** The root is the overview, but with a query it is its flame graph: so Pyroscope's links end. */
function pageOf(path: string, query: string | null): Page {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const found = (Object.keys(PATHS) as Page[]).find((p) => PATHS[p].includes(name)) ?? 'flame';
  return found === 'services' && query ? 'flame' : found;
}
export const page = computed((): Page => pageOf(place.value.path, new URLSearchParams(place.value.search).get('query')));

/** The relative address of a page with some parameters changed. Unknown parameters stay on their page. */
export function href(patch: Patch, to: Page = page.value): string {
  const here = new URLSearchParams(place.value.search), stays = to === page.value;
  const q = stays ? here : new URLSearchParams(COMMON.flatMap((key) => (here.get(key) ? [[key, here.get(key)!]] : [])));
  for (const [key, text] of Object.entries(patch)) {
    if (text === DEFAULTS[key as Param]) q.delete(key);
    else q.set(key, text);
  }
  if (to === 'services') q.delete('query');
  // Colons, slashes and commas are legal in a query and much easier to read.
  const text = q.toString().replace(/%3A/g, ':').replace(/%2F/g, '/').replace(/%2C/g, ',');
  const path = stays && pageOf(place.value.path, q.get('query')) === to
    ? place.value.path.slice(place.value.path.lastIndexOf('/') + 1) : PATHS[to][0];
  return `./${path}${text ? `?${text}` : ''}`;
}

/** Places (page, service, type, range, zoom) get an entry in the history, so that Back undoes the last change. */
export function go(patch: Patch, history: 'push' | 'replace' = 'push', to: Page = page.value): void {
  const target = new URL(href(patch, to), location.href);
  if (target.href === location.href) return;
  if (history === 'push') window.history.pushState(null, '', target.href);
  else window.history.replaceState(null, '', target.href);
  readPlace();
}
